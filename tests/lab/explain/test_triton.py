"""Triton launches explained: accesses from the interpreter, counters from the compiled kernel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.lab.explain import triton_kernels as kernels
from tests.lab.explain.handmade import SECTORS

import warpwise as ww
from warpwise import cuda, machine
from warpwise.lab.explain import Explanation
from warpwise.lab.explain import triton_accesses as accesses
from warpwise.lab.explain.hints import Hint, in_triton
from warpwise.lab.explain.hints.triton_ideas import IDEAS
from warpwise.triton.memory import Memory


def copied(stride: int, n: int = 1024, **options: object) -> Explanation:
    x, y = torch.randn(n * stride), torch.zeros(n)
    made: Explanation = ww.explain(
        kernels.strided_copy[(n // 256,)], x, y, n, STRIDE=stride, BLOCK=256, num_warps=2, **options
    )
    assert not y.any(), "the arguments stay as they are"
    return made


def test_a_dense_copy_asks_for_each_sector_once() -> None:
    made = copied(1)
    loads, stores = made.accesses
    assert (loads.what, loads.tensor, stores.what, stores.tensor) == ("load", "x_ptr", "store", "y_ptr")
    assert loads.bytes == stores.bytes == 4096 and loads.sectors == loads.ideal_sectors == 128
    # 256 elements leave each of 32 lanes 16 bytes: two requests a program.
    assert loads.vector == 16 and loads.requests == 8
    assert Path(loads.file).name == "triton_kernels.py" and loads.line + 1 == stores.line


def test_the_compiled_kernel_is_executed_and_agrees() -> None:
    made = copied(1)
    assert made.agrees and "'y_ptr'" in made.agrees.text and "x_ptr" not in made.agrees.text
    assert made.metrics[SECTORS.format("ld")] == made.metrics[SECTORS.format("st")] == 128
    assert made.block == (64, 1, 1) and made.grid == (4, 1, 1) and made.prediction is not None
    assert made.occupancy is not None and made.resources.registers > 0
    line = made.line(made.accesses[0].line)
    assert line.text.strip().startswith("x = tl.load") and line.counters["sectors"] == 128


@pytest.fixture(scope="module")
def strided() -> Explanation:
    return copied(8, 1 << 16)


def test_interpreter_and_machine_count_the_same_sectors_of_a_strided_load(strided: Explanation) -> None:
    made = strided
    assert made.accesses[0].sectors == 1 << 16 == made.metrics[SECTORS.format("ld")]
    assert made.accesses[0].ideal_sectors == 1 << 13 and made.accesses[0].vector == 4
    assert "8×" in made.text(120).partition("from the interpreter")[2]
    assert any("layout may differ" in text for text in made.caveats)


def test_hints_speak_of_tiles_and_not_of_threads(strided: Explanation) -> None:
    made = strided
    (hint,) = [hint for hint in made.hints if hint.title == "uncoalesced loads"]
    assert "last dimension of the tile" in hint.idea
    words = ("threadIdx", "float4", "__", "each thread", "template", "1.0f", "warp of")
    assert not [hint.idea for hint in made.hints if any(word in hint.idea for word in words)]
    ideas = [in_triton(Hint("OPT", title, "")).idea for title in IDEAS]
    assert not [idea for idea in ideas if not idea or any(word in idea for word in words)]


def test_lanes_run_along_the_axis_whose_addresses_are_neighbours() -> None:
    x = torch.randn(32, 32)
    made = ww.explain(kernels.transposed[(1,)], x, cuda.out(torch.zeros(32, 32)), SIDE=32)
    assert [one.sectors for one in made.accesses] == [128, 128] and made.agrees


def test_a_wrong_kernel_is_not_explained() -> None:
    y = torch.zeros(100)
    with pytest.raises(cuda.OutOfBounds, match=r"write of y_ptr\[100\]"):
        ww.explain(kernels.beyond[(1,)], torch.randn(100), y, 100, BLOCK=128)
    assert not y.any() and Memory.access_hook is None


def test_atomics_are_counted_by_element() -> None:
    made = ww.explain(kernels.added[(2,)], torch.ones(128), torch.zeros(2), BLOCK=64)
    atomic = next(one for one in made.accesses if one.what == "atomic")
    assert atomic.tensor == "sum_ptr" and atomic.requests == 4 and atomic.sectors == 4
    assert made.agrees


def product(**options: object) -> Explanation:
    a, b = (torch.randn(64, 64).half() for _ in range(2))
    c = cuda.out(torch.zeros(64, 64).half())
    made: Explanation = ww.explain(kernels.product[(1,)], a, b, c, SIDE=64, num_warps=4, **options)
    return made


def test_each_target_executes_its_tensor_core_instructions() -> None:
    ampere = product(target="sm_80")
    assert ampere.agrees, ampere.agrees.text
    assert ampere.metrics["sm__inst_executed_pipe_tensor.sum"] > 0
    hopper = product()
    assert hopper.agrees or "GMMA" in hopper.unsupported


def test_what_the_machine_cannot_execute_leaves_the_interpreters_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> object:
        raise machine.Unsupported("product: the interpreter does not know UTMALDG.2D")

    monkeypatch.setattr(machine, "run", refuse)
    made = product()
    assert "UTMALDG" in made.unsupported and made.prediction is None and made.agrees.status == "not compared"
    assert [one.what for one in made.accesses] == ["load", "load", "store"] and made.resources.shared > 0
    assert "UTMALDG" in made.text(100) and "from the interpreter" in made.text(100)


def test_without_the_checked_run_there_are_no_accesses() -> None:
    made = copied(1, checks="none")
    assert not made.accesses and made.agrees.status == "not compared" and made.metrics[SECTORS.format("ld")] == 128


@pytest.mark.parametrize(
    "addresses, mask, itemsize, width",
    [
        (np.arange(128) * 4, None, 4, 4),
        (np.arange(64) * 4, None, 4, 2),  # so that every lane has its part
        (np.arange(128) * 4 + 4, None, 4, 1),  # not aligned
        (np.arange(128) * 8, None, 4, 1),  # gaps
        (np.arange(256) * 2, None, 2, 8),
        (np.arange(128) * 4, np.arange(128) < 64, 4, 4),
        (np.arange(128) * 4, np.arange(128) < 63, 4, 1),
        (np.arange(128) * 4, np.arange(128) < 62, 4, 2),
    ],
)
def test_widths_that_addresses_allow(addresses: np.ndarray, mask: np.ndarray | None, itemsize: int, width: int) -> None:
    assert accesses.vector(addresses.astype(np.uint64), mask, itemsize) == width


def test_requests_count_their_own_sectors() -> None:
    same = np.zeros(64, dtype=np.uint64)
    assert accesses.count(same, None, 4, 1) == (2, 2, 2)
    assert accesses.count(np.arange(64, dtype=np.uint64) * 4, np.arange(64) < 33, 4, 1) == (2, 5, 5)


def test_a_product_in_tf32_agrees_up_to_its_rounding() -> None:
    a, b, c = torch.rand(32, 32), torch.rand(32, 32), torch.zeros(32, 32)
    made = ww.explain(kernels.product_in_tf32[(1,)], a, b, c, SIDE=32, target="sm_80")
    assert made.agrees.status == "yes", made.agrees.text
