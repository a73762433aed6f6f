"""The cache on disk: compiled kernels, measured ceilings and reports. Safe for concurrent processes."""

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
    """Return the cache folder, ``$WARPWISE_CACHE`` or ``warpwise`` in the XDG cache folder; create it if necessary.

    Raises ``OSError``, naming the variable to set, if the folder cannot be created.
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
            f"cannot create the cache folder {folder} ({error}); set WARPWISE_CACHE to a writable one"
        ) from error
    return folder


def key(*parts: object) -> str:
    """Return 20 hexadecimal digits of the SHA-256 digest of ``parts``.

    Each part is hashed with its length, so ``key("ab", "c")`` and ``key("a", "bc")`` differ. Bytes and text are hashed
    as they are, other objects as ``str(part)``.
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()[:20]


def atomic_write(path: Path, data: bytes | str) -> None:
    """Write a file so that readers see all of it or none.

    If several processes write ``path`` at a time, the last one's file stays.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def replacing(path: Path, suffix: str = "") -> Iterator[Path]:
    """Yield a new file in the folder of ``path`` to write, with ``suffix`` at its end; it is then renamed to ``path``.

    If an exception is raised, it is removed, and ``path`` stays as it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=suffix)
    os.close(handle)
    try:
        yield Path(temporary)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold the lock of ``path``, an empty file beside it. Where the file system has no locks, nothing is held."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with contextlib.suppress(OSError):  # without locks, the file of the last writer stays
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def build_lock(path: Path) -> Iterator[bool]:
    """Hold a file lock; yield True if this process must build ``path``, False if it exists."""
    if path.exists():
        yield False
        return
    with file_lock(path):
        yield not path.exists()


def save(path: Path, data: bytes) -> None:
    """Write the SHA-256 digest of ``data``, then ``data``, to ``path``."""
    atomic_write(path, hashlib.sha256(data).digest() + data)


def load(path: Path) -> bytes | None:
    """Return what ``save`` wrote to ``path``, or None if there is no such file or its digest does not match."""
    try:
        stored = path.read_bytes()
    except FileNotFoundError:
        return None
    digest, data = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    return data if hashlib.sha256(data).digest() == digest else None
