"""The commit of the repository that holds a kernel."""

from __future__ import annotations

import subprocess
from pathlib import Path

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


def in_repository() -> bool:
    """True if the working folder is in a git repository, and there is git."""
    return _git(Path.cwd(), "rev-parse", "--git-dir") is not None


def _git(folder: Path, *arguments: str) -> str | None:
    """The output of git, stripped; None without git or a repository, or after a timeout."""
    try:
        found = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=GIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() if found.returncode == 0 else None
