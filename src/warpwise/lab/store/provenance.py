"""The provenance of a kernel: the commit of its repository, and a digest of its source."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from warpwise.cache import key

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
SHARED = Path(__file__).parents[2] / "cuda" / "include"  # the device headers that every kernel may include
GIT_S = 10.0


def repository_state(source: Path) -> tuple[str, bool]:
    """The commit of the repository that holds ``source``, and whether tracked files differ; ("", False) outside one."""
    folder = source if source.is_dir() else source.parent
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit or _git(folder, "ls-files", "--", str(source)) == "":
        return "", False  # no repository, no git, or a repository that does not track the kernel
    return commit, bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))


def resolved(reference: str) -> str | None:
    """The commit of ``reference`` ("HEAD~1", a branch, a tag) in the repository of the working folder, or None."""
    if reference.startswith("-"):
        return None
    return _git(Path.cwd(), "rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}")


def _git(folder: Path, *arguments: str) -> str | None:
    """The output of git, stripped; None without git or a repository, or after a timeout."""
    try:
        found = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=GIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() if found.returncode == 0 else None


def source_digest(source: Path) -> str:
    """A digest of a kernel's file and of its ``#include "..."`` files, from its folder or the device headers.

    "" where there is no such file.
    """
    parts: dict[Path, bytes] = {}
    waiting = [source.resolve()]
    while waiting:
        path = waiting.pop()
        if path in parts or not path.is_file():
            continue
        parts[path] = path.read_bytes()
        for name in INCLUDE.findall(parts[path].decode(errors="replace")):
            waiting += [(folder / name).resolve() for folder in (path.parent, SHARED) if (folder / name).is_file()][:1]
    return key(*(parts[path] for path in sorted(parts))) if parts else ""
