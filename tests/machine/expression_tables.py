"""Tables of CUDA expressions with expected values, executed as SASS on arrays of operands."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.machine.raw_launch import Pointer, aligned_copy

from warpwise import cuda, machine

_NUMPY = {
    "int": np.int32, "unsigned": np.uint32, "long long": np.int64, "unsigned long long": np.uint64, "float": np.float32,
    "double": np.float64, "__half": np.uint16, "__half2": np.uint32, "__nv_bfloat16": np.uint16,
    "__nv_bfloat162": np.uint32,
}  # fmt: skip
_THREADS = 64


@dataclass(frozen=True)
class Table:
    """A kernel that evaluates expressions of ``a``, ``b``, ``c`` (arrays of the C types ``inputs``).

    ``rows`` are pairs of an expression and a function that returns the expected value; ``setup`` is code before them.
    """

    name: str
    inputs: tuple[str, ...]
    output: str
    rows: tuple[tuple[str, Callable[..., Any]], ...]
    setup: str = ""

    def kernel(self) -> str:
        pointers = ", ".join(f"const {kind}* A{place}" for place, kind in enumerate(self.inputs))
        named = zip(self.inputs, "abc", strict=False)
        loads = " ".join(f"{kind} {name} = A{place}[i];" for place, (kind, name) in enumerate(named))
        stores = "\n".join(f"  out[{row} * n + i] = {text};" for row, (text, _) in enumerate(self.rows))
        return (
            f'extern "C" __global__ void {self.name}({pointers}, {self.output}* out) {{\n'
            f"  int n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;\n  {loads} {self.setup}\n"
            f"{stores}\n}}\n"
        )


@functools.cache
def _cubin(source: str, first: str, target: str) -> bytes:
    return cuda.load(source)[first].compile(target).cubin


def evaluate(preamble: str, tables: Sequence[Table], table: Table, target: str, *operands: np.ndarray) -> np.ndarray:
    """Return the values of all expressions: (rows, n). The kernels of ``tables`` are compiled once per target."""
    source = preamble + "".join(each.kernel() for each in tables)
    program = machine.load_program(_cubin(source, tables[0].name, target), table.name)
    count = len(operands[0])
    assert count % _THREADS == 0
    arrays = [aligned_copy(np.ascontiguousarray(each)) for each in operands]
    arrays.append(aligned_copy(np.zeros((len(table.rows), count), _NUMPY[table.output])))
    packed = [
        Pointer(f"argument{place}", each.ctypes.data, each.nbytes, each.itemsize, each.ctypes.data)
        for place, each in enumerate(arrays)
    ]
    counts = machine.run(program, (count // _THREADS, 1, 1), (_THREADS, 1, 1), 0, packed)
    return counts.outputs[packed[-1].name].view(arrays[-1].dtype).reshape(arrays[-1].shape)


def integers(kind: type[np.integer[Any]], count: int, seed: int = 0) -> np.ndarray:
    """Random integers of all magnitudes, and edge cases."""
    random, info = np.random.default_rng(seed), np.iinfo(kind)
    edges = [0, 1, 2, 3, 7, 31, 32, 33, 127, 128, 255, 256, 65535, 65536, info.max, info.max - 1, info.min,
             info.min + 1, -1 if info.min else info.max // 3]  # fmt: skip
    wide = random.integers(info.min, info.max, count, dtype=kind, endpoint=True)
    shifts = random.integers(0, info.bits, count).astype(kind)
    which = random.integers(0, 4, count)
    return np.select([which == 0, which == 1], [random.choice(np.array(edges, kind), count), wide >> shifts], wide)


def floats(kind: type[np.floating[Any]], count: int, seed: int = 0) -> np.ndarray:
    """Normally distributed numbers, random bit patterns (including subnormals and NaNs), and edge cases."""
    random, info = np.random.default_rng(seed), np.finfo(kind)
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[np.dtype(kind).itemsize]
    edges = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, info.max, info.min, info.tiny, info.smallest_subnormal,
             0.5, 1.5, 2.5, -2.5, 7.25, 100.0]  # fmt: skip
    any_bits = random.integers(0, np.iinfo(bits).max, count, dtype=bits, endpoint=True).view(kind)
    which = random.integers(0, 4, count)
    with np.errstate(all="ignore"):
        usual = (random.standard_normal(count) * np.exp(2 * random.standard_normal(count))).astype(kind)
        return np.select([which == 0, which == 1], [random.choice(np.array(edges, kind), count), any_bits], usual)


def check_integers(table: Table, found: np.ndarray, values: Any) -> None:
    """Assert that each row equals its function of ``values``, modulo 2**bits."""
    mask = (1 << 8 * found.dtype.itemsize) - 1
    unsigned = found.view(f"u{found.dtype.itemsize}")
    for row, (text, function) in enumerate(table.rows):
        expected = np.broadcast_to(np.asarray(function(values), object), found.shape[1:])
        wrong = [place for place, value in enumerate(expected) if int(value) & mask != int(unsigned[row, place])]
        assert not wrong, (
            f"{text}: {len(wrong)} of {found.shape[1]} wrong; place {wrong[0]}: "
            f"expected {int(expected[wrong[0]]) & mask:#x}, got {int(unsigned[row, wrong[0]]):#x}"
        )
