"""The parameters of a kernel, read from its demangled function type.

The CPU's compiler gives ``void (*)(int, float const*)`` for ``&kernel``; NVRTC gives
``void ww_signature<void (*)(int, float const*)>()`` for a template instantiated with that type. Both forms are parsed
here, so that arguments are packed by the same types on CPU and GPU.
"""

from __future__ import annotations

import ctypes
import functools
import re
from dataclasses import dataclass

_CLOSES = {"<": ">", "(": ")", "[": "]"}
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|restrict)\b")
_INTEGER_SPELLINGS = {
    "signed": "int", "signed int": "int", "unsigned": "unsigned int",
    "short int": "short", "signed short": "short", "unsigned short int": "unsigned short",
    "long int": "long", "signed long": "long", "unsigned long int": "unsigned long",
    "long long int": "long long", "signed long long": "long long", "unsigned long long int": "unsigned long long",
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """One parameter's type: ``float const*`` has the element "float", ``pointers`` 1 and ``const`` true.

    ``extent`` is the number of elements of the array that a pointer to an array points to: 16 for ``float (*) [16]``.
    ``const`` is true if the pointee of a pointer or reference is const; it has no meaning for a value.
    """

    text: str
    element: str
    pointers: int = 0
    const: bool = False
    reference: bool = False
    extent: int = 1


def split(text: str) -> list[str]:
    """Split a parameter list at its outermost commas: ``"a, b<c, d>"`` gives two."""
    parts: list[str] = []
    stack: list[str] = []
    start = 0
    for position, letter in enumerate(text):
        if letter in _CLOSES:
            stack.append(_CLOSES[letter])
        elif stack and letter == stack[-1]:
            stack.pop()
        elif letter == "," and not stack:
            parts.append(text[start:position].strip())
            start = position + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _element(text: str) -> str:
    name = " ".join(_QUALIFIERS.sub(" ", text).split())
    return _INTEGER_SPELLINGS.get(name, name)


def parse_parameter(text: str) -> Parameter:
    """One parameter type as a demangler prints it."""
    text = " ".join(text.split())
    array = re.fullmatch(r"(.+?) ?\(\*(?: ?const)?\) ?((?:\[\d+\] ?)+)", text)
    if array:
        extent = 1
        for size in re.findall(r"\d+", array[2]):
            extent *= int(size)
        return Parameter(text, _element(array[1]), 1, bool(re.search(r"\bconst\b", array[1])), extent=extent)
    if re.search(r"\(\*", text):  # a pointer to a function: opaque, passed by value
        return Parameter(text, text)
    body = text
    reference = body.endswith("&")
    body = body.rstrip("& ")
    inner = body.rfind(">") + 1  # asterisks before this belong to template arguments
    outside, *pointers = body[inner:].split("*")
    head = body[:inner] + outside
    # In `T const* const*` the pointee of the last asterisk is qualified by the const in front of it.
    pointee = pointers[-2] if len(pointers) > 1 else re.sub(r"<.*>", "", head)
    const = bool(pointers or reference) and bool(re.search(r"\bconst\b", pointee))
    return Parameter(text, _element(head), len(pointers), const, reference)


@functools.lru_cache(maxsize=1024)
def parse(function_type: str) -> tuple[Parameter, ...]:
    """The parameters of ``void (*)(int, float const*)``, or of the same type inside ``ww_signature<...>``.

    Raises ``ValueError`` if the text is not the type of a function that returns void.
    """
    text = function_type.strip()
    wrapped = re.fullmatch(r"void ww_signature<(.*)>\(\)", text, re.DOTALL)
    if wrapped:
        text = wrapped[1].strip()
    match = re.fullmatch(r"void ?\(\*?\) ?\((.*)\)", text, re.DOTALL)
    if not match:
        raise ValueError(f"expected the type of a kernel, void (*)(...), got {function_type!r}")
    inner = match[1].strip()
    return () if inner in ("", "void") else tuple(parse_parameter(part) for part in split(inner))


def demangle(symbol: str) -> str:
    """The C++ name of an Itanium-ABI symbol, by ``__cxa_demangle`` of libstdc++.

    Raises ``ValueError`` if ``symbol`` is not a mangled name, and ``OSError`` if libstdc++ is not installed.
    """
    library = _libstdcxx()
    status = ctypes.c_int()
    result = library.__cxa_demangle(symbol.encode(), None, None, ctypes.byref(status))
    if status.value != 0 or not result:
        raise ValueError(f"{symbol!r} is not a mangled C++ name")
    try:
        return ctypes.string_at(result).decode()
    finally:
        _libc_free()(result)


@functools.lru_cache(maxsize=1)
def _libstdcxx() -> ctypes.CDLL:
    library = ctypes.CDLL("libstdc++.so.6")
    library.__cxa_demangle.restype = ctypes.c_void_p
    library.__cxa_demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    return library


@functools.lru_cache(maxsize=1)
def _libc_free() -> ctypes._NamedFuncPointer:
    free = ctypes.CDLL(None).free
    free.argtypes, free.restype = [ctypes.c_void_p], None
    return free
