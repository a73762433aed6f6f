"""What Warpwise keeps on disk: compiled kernels and measured ceilings, safe with several processes at once."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_DIGEST_BYTES = 32


def cache_dir() -> Path:
    """The folder of everything kept, made if need be: ``$WARPWISE_CACHE``, else ``warpwise`` under the XDG cache folder.

    Raises ``OSError`` saying which variable to set where the folder cannot be made.
    """
    named = os.environ.get("WARPWISE_CACHE")
    if named:
        folder = Path(named).expanduser()
    else:
        shared = os.environ.get("XDG_CACHE_HOME")
        folder = (Path(shared) if shared else Path.home() / ".cache") / "warpwise"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"cannot make the cache folder {folder} ({error}); set WARPWISE_CACHE to a writable one"
        ) from error
    return folder


def key(*parts: object) -> str:
    """A name for whatever ``parts`` decide: 20 hexadecimal digits of SHA-256, which no two lists of parts share.

    Each part is hashed with its length, so ``key("ab", "c")`` and ``key("a", "bc")`` differ. Bytes and text are
    taken as they are, anything else by its ``str``.
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()[:20]


def atomic_write(path: Path, data: bytes | str) -> None:
    """Write a file so that readers see all of it or none: a temporary file in the same folder takes its name.

    Of several processes that write one path at a time, the last wins whole.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def made_once(path: Path) -> Iterator[bool]:
    """Whether ``path`` is yet to be made, while no other process may: those that would wait here, and then find it there."""
    if path.exists():
        yield False
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: several make it, and the last one's stays
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield not path.exists()
    finally:
        os.close(handle)


def save(path: Path, data: bytes) -> None:
    """Keep ``data`` under ``path`` with its digest in front, for ``load``."""
    atomic_write(path, hashlib.sha256(data).digest() + data)


def load(path: Path) -> bytes | None:
    """What ``save`` kept under ``path``, or None where there is nothing or what is there is damaged: build it again."""
    try:
        stored = path.read_bytes()
    except FileNotFoundError:
        return None
    digest, data = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    return data if hashlib.sha256(data).digest() == digest else None
