"""Words that hints and pages share."""

from __future__ import annotations

from collections.abc import Iterable


def listed(names: Iterable[str]) -> str:
    """``a``, ``a and b`` or ``a, b and c``; empty for no names."""
    names = list(names)
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)
