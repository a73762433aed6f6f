"""``explain_rung`` at sizes beyond the memory: an index of 32 bits that wraps around is found on a CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton.language as tl

from warpwise import cuda, lab
from warpwise import triton as wt
from warpwise.lab.explain import memory
from warpwise.operation import Case, Cost, Op, Output, Rung, Spec

COLUMNS = 1000


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1 << 30)


def operation(launch: Callable[..., None], language: str = "cuda", empty: bool = False) -> Op:
    """(rows, 1000) -> 2 x + 1, by one rung."""

    def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, torch.Tensor]:
        x = torch.ones(case.sizes["rows"], COLUMNS, device=device)
        return {"x": x[: int(x[0, 0])] if empty else x}

    spec = Spec(
        "toys::explained_rows(Tensor x) -> Tensor",
        {"output": Output()},
        lambda x: 2 * x.double() + 1,
        inputs,
        lambda x: 2 * x + 1,
        lambda x: Cost(8 * x.numel(), 2 * x.numel()),
        sizes=(Case("small", {"rows": 100}),),
    )
    return Op(spec, (Rung("k01_rows", "a block per row", language, launch, source=None),))  # type: ignore[arg-type]


def of_index(index: str) -> Callable[..., None]:
    module = cuda.load(
        f"""__global__ void rows(const float* x, float* y, int n) {{
          {index} = blockIdx.x * n + threadIdx.x;
          if (threadIdx.x < n) y[i] = 2 * x[i] + 1;
        }}""".replace("blockIdx.x * n", "(long long)blockIdx.x * n" if "long" in index else "blockIdx.x * n")
    )

    def launch(y: torch.Tensor, x: torch.Tensor) -> None:
        module["rows"][len(x), 1024](x, cuda.out(y), x.shape[1])

    return launch


@wt.jit
def rows(x_ptr, y_ptr, n, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    at = (row.to(tl.int64) if WIDE else row) * n + column
    tl.store(y_ptr + at, 2 * tl.load(x_ptr + at, mask=column < n) + 1, mask=column < n)


def in_triton(wide: bool) -> Callable[..., None]:
    def launch(y: torch.Tensor, x: torch.Tensor) -> None:
        rows[(len(x),)](x, wt.out(y), x.shape[1], WIDE=wide, BLOCK=1024)

    return launch


def explained(op: Op, count: int) -> tuple[str, str]:
    (found,) = lab.explain_rung(op, "k01", Case("large", {"rows": count}), blocks=4)
    return found.unsupported, found.caveats[-1]


@pytest.mark.parametrize("index,most", [("int i", 2**31), ("unsigned i", 2**32), ("long long i", 2**33)])
def test_an_index_wraps_around_beyond_the_elements_of_its_type(index: str, most: int) -> None:
    op = operation(of_index(index))
    fits, caveat = explained(op, most // COLUMNS - 10)
    assert not fits
    assert "The arguments do not fit into memory: they are zeros" in caveat
    if "long" not in index and "unsigned" not in index:  # an unsigned index wraps around to another element
        assert "an index that wraps around at 32 bits" in explained(op, most // COLUMNS + 10)[0]


@pytest.mark.parametrize("wide", [False, True])
def test_an_index_of_triton(wide: bool) -> None:
    found, _ = explained(operation(in_triton(wide), "triton"), 2**31 // COLUMNS + 10)
    assert ("an index that wraps around at 32 bits" in found) != wide


def test_a_launch_that_is_not_checked() -> None:
    large = Case("large", {"rows": 2**31 // COLUMNS + 10})
    (found,) = lab.explain_rung(operation(of_index("int i")), "k01", large, blocks=4, checks="none")
    assert "wraps around" in found.unsupported and "they are zeros" in found.caveats[-1]


def test_pytorch_does_not_read_what_does_not_fit() -> None:
    inner = of_index("long long i")

    def launch(y: torch.Tensor, x: torch.Tensor) -> None:
        inner(torch.empty_like(y), x.view(-1).view(x.shape))
        inner(y, x.clone() if len(x) > 10**6 else x)

    with pytest.raises(ValueError, match=r"aten.clone.default: PyTorch reads or writes an argument that does not fit"):
        explained(operation(launch), 2**31 // COLUMNS)


def test_shapes_that_depend_on_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1 << 20)
    with pytest.raises(ValueError, match="choose a smaller size"):
        explained(operation(of_index("long long i"), empty=True), 2**31 // COLUMNS)
