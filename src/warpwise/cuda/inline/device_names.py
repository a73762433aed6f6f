"""PyTorch's names for the CUDA device become those for the CPU; the functions of PyTorch that a text uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from warpwise.cuda.inline.source import Edit, apply, moved
from warpwise.cuda.source.lexer import Token, blank, lex

_ON_CPU = {"is_cuda": "is_cpu", "is_cpu": "is_cuda", "cuda": "cpu", "kCUDA": "kCPU"}


def on_cpu(text: str) -> str:
    """Replace PyTorch's names for the CUDA device by those for the CPU.

    ``x.is_cuda()`` becomes ``x.is_cpu()``, ``torch::kCUDA`` becomes ``torch::kCPU``, ``x.cuda()`` becomes ``x.cpu()``.
    Comments and strings do not change, except ``Device("cuda")``.
    """
    edits: list[Edit] = []
    tokens = lex(text)
    for token in tokens:
        if token.kind == "directive" and not re.match(r"#\s*include", token.text):
            edits += _devices(moved(lex(token.text, directives=False), token.start))
    edits += _devices([token for token in tokens if token.kind not in ("comment", "directive")])
    return apply(text, edits)


def _devices(tokens: Sequence[Token]) -> Iterable[Edit]:
    texts = [token.text for token in tokens]
    for index, token in enumerate(tokens):
        before = texts[index - 1] if index else ""
        after = texts[index + 1 : index + 3]
        if token.kind == "string" and re.match(r'"cuda(:\d+)?"$', token.text):
            if before == "(" and index > 1 and texts[index - 2] in ("Device", "device"):
                yield Edit(token.start, token.end, '"cpu"')
        elif token.kind != "identifier":
            continue
        elif token.text == "kCUDA":
            yield Edit(token.start, token.end, "kCPU")
        elif (
            token.text in ("CUDA", "CPU") and before == "," and "TORCH_LIBRARY_IMPL" in texts[max(0, index - 4) : index]
        ):
            # An operator may have both implementations: they are swapped, so that the CUDA one runs.
            yield Edit(token.start, token.end, "CPU" if token.text == "CUDA" else "CUDA")
        elif token.text == "CUDA" and before == "::" and texts[index - 2] in ("DeviceType", "DispatchKey", "Backend"):
            yield Edit(token.start, token.end, "CPU")
        elif token.text in ("is_cuda", "is_cpu", "cuda") and before in (".", "->") and after == ["(", ")"]:
            if texts[max(0, index - 5) : index - 1] == [".", "type", "(", ")"] and token.text == "is_cuda":
                # x.type().is_cuda(), deprecated: the type has no is_cpu().
                yield Edit(tokens[index - 5].start, token.end, ".is_cpu")
            else:
                yield Edit(token.start, token.end, _ON_CPU[token.text])


def functions_of(text: str) -> frozenset[str]:
    """The names that ``text`` uses from ``torch::`` or ``at::``; with ``using namespace``, all names that it calls."""
    code = "".join(blank(t.text) if t.kind in ("comment", "string") else t.text + " " for t in lex(text))
    names = set(re.findall(r"\b(?:torch|at)\s*::\s*(\w+)\b", code))
    if re.search(r"\busing\s+namespace\s+(?:torch|at)\b", code):
        names |= set(re.findall(r"\b(\w+)\s*\(", code))
    return frozenset(names)
