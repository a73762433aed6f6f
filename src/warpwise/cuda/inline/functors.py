"""Device code that host code calls: function objects that the algorithms of Thrust call on a CPU."""

from __future__ import annotations

from collections.abc import Iterable

from warpwise.cuda.source.declarations import Declaration, Macro, declarations

_CALL = "operator()"


def called_on_host(found: Iterable[Declaration], defined: dict[str, Macro]) -> frozenset[str]:
    """The names of the device functions that host functions or call operators name, directly or through others."""
    device: dict[str, frozenset[str]] = {}
    words = {_CALL}
    pending = list(found)
    while pending:
        each = pending.pop()
        if each.kind == "record" and each.body:
            pending += declarations(each.tokens[each.body[0] + 1 : each.body[1]], defined, record=True)
        elif each.kind == "function" and each.body and each.kernel:
            continue
        elif each.kind == "function" and each.body and each.device and not is_call_operator(each):
            for name in each.names:
                device[name] = device.get(name, frozenset()) | each.words
        else:
            words |= each.words
    reached: set[str] = set()
    while new := (words & device.keys()) - reached:
        reached |= new
        words = words.union(*(device[name] for name in new))
    return frozenset({_CALL, *reached})


def is_call_operator(function: Declaration) -> bool:
    head = [token.text for token in function.tokens[: function.head]]
    return any(head[i : i + 3] == ["operator", "(", ")"] for i in range(len(head)))
