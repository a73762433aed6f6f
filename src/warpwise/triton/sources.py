"""The Python function of a kernel whose source text a program has replaced.

Programs that specialise kernels write the text of a kernel, and give it to a ``JITFunction`` of another Python function
with ``_unsafe_update_src``. Triton's compiler parses the text and never looks at the function's code.
"""

from __future__ import annotations

import inspect
import linecache
import textwrap
import weakref
from collections.abc import Callable
from typing import Any

from warpwise.triton.compat import JITFunction

_functions: weakref.WeakKeyDictionary[Any, tuple[str, Callable[..., Any]]] = weakref.WeakKeyDictionary()


def replaced_source(function: JITFunction) -> str | None:
    """Return the kernel's text if it is not that of its Python function, else None."""
    source = getattr(function, "src", None)
    if source is None or source in textwrap.dedent("".join(getattr(function, "raw_src", None) or [source])):
        return None
    return str(source)


def python_function(function: JITFunction) -> Callable[..., Any]:
    """Return ``function.fn``, or what the kernel's replaced text defines, with the globals of ``function.fn``."""
    original, source = function.fn, getattr(function, "src", "")
    found = _functions.get(original)
    if found is None or found[0] != source:
        text = replaced_source(function)
        found = _functions[original] = source, original if text is None else _compiled(original, text)
    return found[1]


def _compiled(original: Callable[..., Any], source: str) -> Callable[..., Any]:
    file = f"<{original.__module__}.{original.__name__} {abs(hash(source)):x}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file  # for findings
    namespace: dict[str, Any] = {}
    exec(compile(source, file, "exec"), original.__globals__, namespace)  # noqa: S102 - the program's own text
    (result,) = (item for item in namespace.values() if inspect.isfunction(item))
    result.__module__ = original.__module__
    return result
