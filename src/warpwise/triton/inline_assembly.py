"""``tl.inline_asm_elementwise``: the PTX interpreter of the CUDA emulator executes the assembly, once for ``pack``
elements.

A statement becomes a CUDA kernel of one thread, which loops over the groups of elements. As in Triton's compiler, an
element of at least 32 bits has a register of its own, and smaller elements of a group share registers of 32 bits.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton.language as tl

from warpwise.cuda import load
from warpwise.cuda.errors import CompileError, UnsupportedFeature
from warpwise.cuda.launch.launcher import Launcher
from warpwise.triton.compat import TensorHandle, numpy_dtype

Array = np.ndarray[Any, np.dtype[Any]]

_CONSTANTS = ("n", "i")
_CTYPES = {"r": "unsigned", "f": "unsigned", "h": "unsigned short", "l": "unsigned long long",
           "d": "unsigned long long", "c": "unsigned char", "b": "unsigned char"}  # fmt: skip
# The elements of a block are in no warp on the CPU, and the addresses are not those of the host.
_OF_MEMORY_OR_WARPS = frozenset({
    "activemask", "atom", "bar", "barrier", "clusterlaunchcontrol", "cp", "cvta", "discard", "elect", "fence",
    "isspacep", "ld", "ldmatrix", "ldu", "mapa", "match", "mbarrier", "membar", "mma", "movmatrix", "multimem",
    "prefetch", "prefetchu", "red", "redux", "shfl", "st", "stmatrix", "tcgen05", "tensormap", "vote", "wgmma",
})  # fmt: skip
_OF_A_THREAD = re.compile(r"%(laneid|warpid|nwarpid|n?tid|n?ctaid|lanemask_\w+|cluster\w*|ncluster\w*)\b")


@dataclass
class Results:
    """The results of a statement, as Triton's ``inline_asm_elementwise`` reads them."""

    handles: list[TensorHandle]

    def get_result(self, number: int) -> TensorHandle:
        return self.handles[number]


def run(assembly: str, constraints: str, operands: list[TensorHandle], types: list[tl.dtype], pack: int) -> Results:
    """Execute ``assembly`` on each ``pack`` elements of the operands, in row-major order."""
    shape = np.shape(operands[0].data) if operands else (1,)
    groups = -(-int(np.prod(shape)) // pack)
    columns = [_registers(operand, groups, pack) for operand in operands]
    dtypes = [kind.scalar for kind in types]
    widths = [pack // _elements_per_register(dtype, pack) for dtype in dtypes]
    inputs = np.concatenate(columns, axis=1) if columns else np.empty((groups, 0), dtype=np.uint64)
    names = _names(constraints, sum(widths), inputs.shape[1])
    constants = {number: _constant(names[number], inputs[:, number - sum(widths)])
                 for number in range(sum(widths), len(names)) if names[number] in _CONSTANTS}  # fmt: skip
    launcher = _launcher(assembly, tuple(names), sum(widths), tuple(constants.items()))
    registers = np.zeros((groups, sum(widths) + inputs.shape[1]), dtype=np.uint64)
    registers[:, sum(widths) :] = inputs
    findings = launcher.check(torch.from_numpy(registers), groups, checks="none")
    if findings:
        message = findings[0].message.removeprefix("inline PTX: ")
        raise findings[0].kind(f"inline PTX: {message}, in: {_one_line(assembly)}")
    parts = np.split(registers[:, : sum(widths)], np.cumsum(widths)[:-1], axis=1)
    return Results([_elements(part, dtype, shape, pack) for part, dtype in zip(parts, dtypes, strict=True)])


def _bits(dtype: tl.dtype) -> int:
    return 64 if dtype.is_ptr() else int(dtype.primitive_bitwidth)


def _elements_per_register(dtype: tl.dtype, pack: int) -> int:
    count = min(max(1, 32 // _bits(dtype)), pack)
    if pack % count:
        raise CompileError(
            f"inline_asm_elementwise: pack={pack} is not a multiple of the {count} {dtype} in a register"
        )
    return count


def _registers(operand: TensorHandle, groups: int, pack: int) -> Array:
    """The registers of an operand, (groups, registers of a group); missing elements of the last group are 0."""
    dtype = operand.dtype.scalar
    count, width = _elements_per_register(dtype, pack), operand.data.dtype.itemsize
    bits = np.zeros(groups * pack, dtype=np.uint64)
    values = np.ascontiguousarray(operand.data).reshape(-1)
    bits[: values.size] = values.view(f"u{width}")
    shifts = np.arange(count, dtype=np.uint64) * np.uint64(_bits(dtype))
    return np.bitwise_or.reduce(bits.reshape(groups, pack // count, count) << shifts, axis=2)


def _elements(registers: Array, dtype: tl.dtype, shape: tuple[int, ...], pack: int) -> TensorHandle:
    count, wanted = _elements_per_register(dtype, pack), numpy_dtype(dtype)
    shifts = np.arange(count, dtype=np.uint64) * np.uint64(_bits(dtype))
    bits = (registers[:, :, None] >> shifts).reshape(-1)[: int(np.prod(shape))]
    if wanted == np.bool_:
        return TensorHandle((bits & np.uint64(1)).astype(np.bool_).reshape(shape), dtype)
    return TensorHandle(bits.astype(f"u{wanted.itemsize}").view(wanted).reshape(shape), dtype)


def _names(constraints: str, outputs: int, inputs: int) -> list[str]:
    """The constraints of the operands, without clobbers."""
    names = [name for each in constraints.split(",") if (name := each.strip()) and not name.startswith("~")]
    if len(names) != outputs + inputs or sum(name.startswith("=") for name in names) != outputs:
        raise CompileError(
            f"inline_asm_elementwise: constraints: expected {outputs} outputs and {inputs} inputs, "
            f"one for each register of a group, got {constraints!r}"
        )
    return names


def _constant(constraint: str, values: Array) -> str:
    """The text of an operand that must be a constant."""
    if values.size and (values != values[0]).any():
        raise CompileError(
            f"inline_asm_elementwise: the constraint {constraint!r} needs a constant, got a block of several values"
        )
    return hex(int(values[0])) if values.size else "0"


@functools.lru_cache(maxsize=256)
def _launcher(assembly: str, names: tuple[str, ...], outputs: int, constants: tuple[tuple[int, str], ...]) -> Launcher:
    _check(assembly)
    return load(_source(assembly, names, outputs, dict(constants)))["inline_assembly"][1, 1]


def _check(assembly: str) -> None:
    """Raise ``UnsupportedFeature`` for an instruction that accesses memory or depends on the thread."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", assembly, flags=re.DOTALL)
    for statement in text.split(";"):
        found = re.match(r"[\s{}]*(?:[\w$]+:[\s{}]*)*(?:@!?\S+\s+)?([a-z]\w*)((?:[.:]\w+)*)", statement)
        if found and found[1] in _OF_MEMORY_OR_WARPS:
            name = found[1] + found[2]
            raise UnsupportedFeature(f"inline PTX: {name} accesses memory or other threads; run on a GPU")
    if found := _OF_A_THREAD.search(text):
        raise UnsupportedFeature(f"inline PTX: {found[0]} depends on the thread that holds an element; run on a GPU")


def _source(assembly: str, names: tuple[str, ...], outputs: int, constants: dict[int, str]) -> str:
    """The statement as CUDA C++: ``registers`` holds the outputs and the inputs of each group.

    ``constants`` has the text of each operand that is a constant instead of a register, by its number.
    """
    operands: list[str] = []
    before: list[str] = []
    texts: list[str] = []
    for number, name in enumerate(names):
        texts.append(constants.get(number, f"%{len(operands)}"))
        if number in constants:
            continue
        letter = name.lstrip("=&")
        if number >= outputs and letter.isdigit() and int(letter) < outputs:  # the register of an output
            texts[number] = f"%{letter}"
            before.append(f"o{letter} = registers[{number}];")
            letter = names[int(letter)].lstrip("=&")
        if letter not in _CTYPES:
            raise UnsupportedFeature(f"inline PTX: the constraint {name!r} is not supported on the CPU; run on a GPU")
        kind = _CTYPES[letter]
        if number < outputs:
            before.insert(0, f"{kind} o{number} = 0;")
            operands.append(f'"+{letter}"(o{number})')
        else:
            operands.append(f'"{letter}"(static_cast<{kind}>(registers[{number}]))')
    text = json.dumps(_template(assembly, texts))
    after = " ".join(f"registers[{number}] = o{number};" for number in range(outputs))
    return (
        'extern "C" __global__ void inline_assembly(unsigned long long* registers, long long groups) {\n'
        f"  for (long long i = 0; i < groups; ++i, registers += {len(names)}) {{\n"
        f"    {' '.join(before)}\n"
        f"    asm volatile({text} : {', '.join(operands[:outputs])} : {', '.join(operands[outputs:])});\n"
        f"    {after}\n"
        "  }\n"
        "}\n"
    )


def _template(assembly: str, operands: list[str]) -> str:
    """Translate LLVM's ``$0`` and ``$$`` to CUDA's ``%0`` and ``$``."""

    def replaced(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        number = int(found[1] or found[2])
        if number >= len(operands):
            raise CompileError(f"inline_asm_elementwise: {found[0]}: the constraints name {len(operands)} registers")
        return operands[number]

    return re.sub(r"\$\$|\$(\d+)|\$\{(\d+)\}", replaced, assembly)


def _one_line(assembly: str) -> str:
    text = " ".join(assembly.split())
    return text if len(text) <= 100 else text[:97] + "..."
