"""A griffe extension: the ``>>>`` examples of docstrings as code blocks."""

from __future__ import annotations

from typing import Any

from griffe import Extension, Object


class Examples(Extension):
    """Put a fence around each example, which ends at the first line that does not continue it."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is None or ">>>" not in obj.docstring.value:
            return
        lines: list[str] = []
        inside = False
        for line in obj.docstring.value.splitlines():
            belongs = line.lstrip().startswith(">>>") or (inside and bool(line.strip()))
            if belongs != inside:
                lines.append("```python" if belongs else "```")
            inside = belongs
            lines.append(line)
        obj.docstring.value = "\n".join([*lines, "```"] if inside else lines)
