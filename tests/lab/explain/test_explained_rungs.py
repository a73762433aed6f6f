"""``explain_rung``: each launch of a rung, the case that is checked and the one that is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.lab.explain.handmade import SECTORS

from warpwise import cuda, lab, operation
from warpwise.cuda.launch.intercept import INTERCEPTORS
from warpwise.device.target import sm_count
from warpwise.lab.explain import memory
from warpwise.lab.explain.model.hardware import hardware
from warpwise.lab.explain.rungs import checkable
from warpwise.operation import Case, Cost, Op, Output, Rung, Spec


def toy() -> Op:
    """An operation whose one rung launches two kernels, the second on what the first wrote."""
    module = cuda.load(
        """
        __global__ void twice(const float* x, float* y, int n) {
          int i = blockIdx.x * 64 + threadIdx.x; if (i < n) y[i] = 2 * x[i];
        }
        __global__ void once_more(float* y, int n) {
          int i = blockIdx.x * 64 + threadIdx.x; if (i < n) y[i] += 1;
        }
        """
    )

    def launch(y: torch.Tensor, x: torch.Tensor) -> None:
        n = x.numel()
        module["twice"][-(-n // 64), 64](x, cuda.out(y), n)
        module["once_more"][-(-n // 64), 64](y, n)

    spec = Spec(
        "toys::explained_toy(Tensor x) -> Tensor",
        {"output": Output()},
        lambda x: 2 * x.double() + 1,
        lambda case, dtype, device, seed: {"x": torch.ones(case.sizes["n"], device=device)},
        lambda x: 2 * x + 1,
        lambda x: Cost(8 * x.numel(), 2 * x.numel()),
        sizes=(Case("large", {"n": 2**28}), Case("small", {"n": 200})),
    )
    rungs = (
        Rung("k01_two", "two launches", "cuda", launch, source=None),  # type: ignore[arg-type]
        Rung("k02_none", "no kernel", "python", lambda y, x: y.copy_(2 * x + 1), source=None),  # type: ignore[arg-type]
    )
    return Op(spec, rungs)


def test_every_launch_of_a_rung_is_explained_on_what_those_before_left() -> None:
    found = lab.explain_rung(toy(), "k01", "small")
    assert [one.kernel for one in found] == ["twice", "once_more"]
    assert all(one.agrees for one in found), [one.agrees.text for one in found]
    assert found.time == sum(one.prediction.time for one in found if one.prediction)
    assert str(found).count(f"predicted on one {hardware(None).name}") == 2 and not INTERCEPTORS
    assert [one["kernel"] for one in found.to_dict()] == ["twice", "once_more"]


def test_a_rung_that_is_counted_alone_has_the_grid_of_the_target() -> None:
    module = cuda.load("__global__ void one(float* y) { y[blockIdx.x] = 1; }")

    def launch(y: torch.Tensor, x: torch.Tensor) -> None:
        module["one"][sm_count(x), 1](y)

    rung = Rung("k01_sms", "a block per SM", "cuda", launch, source=None)  # type: ignore[arg-type]
    op = Op(toy().spec, (rung,))
    assert [lab.explain_rung(op, "k01", "small", checks=checks)[0].grid[0] for checks in ("none", "all")] == [132, 1]


def test_a_rung_that_does_not_take_the_first_size_is_explained_at_another() -> None:
    import warpwise.ops  # noqa: F401 - registers the operations

    op = operation.get("potts_em_step")
    case = checkable(op, torch.float32, op.rung("k07"))
    assert case.attributes["bfloat16"] and case.sizes["domains"] == 32 and case.sizes["n"] < 10**6
    large = replace(op.spec.sizes[4], sizes={"n": 10**6, "domains": 64, "width": 16, "restarts": 1})
    assert checkable(op, torch.float32, op.rung("k07"), large).sizes["domains"] == 64


def test_a_rung_is_checked_small_and_counted_large() -> None:
    op = toy()
    assert checkable(op, torch.float32).sizes["n"] == 2**21
    large = Case("too_large", {"n": 2**22})
    found = lab.explain_rung(op, "k01", large, blocks=4)
    assert all("4194304 is too large to be checked on a CPU" in one.caveats[0] for one in found)
    assert found[0].metrics[SECTORS.format("st")] == 2**22 / 8
    assert "did not fill" in found[1].caveats[0]


def test_a_size_beyond_the_address_space_is_refused_before_anything_is_allocated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    huge = Case("huge", {"n": 1 << 40})
    with pytest.raises(ValueError, match=r"huge\(n=1099511627776\) has .* GB of .* choose a smaller size"):
        lab.explain_rung(toy(), "k01", huge)
    monkeypatch.setattr(memory, "available", lambda: 1000)
    assert memory.fits(333) and not memory.fits(334)
    with pytest.raises(ValueError, match="choose a smaller size"):
        lab.explain_rung(toy(), "k01")


def test_the_bytes_of_a_case_are_those_of_its_arguments_and_outputs() -> None:
    op = toy()
    args = op.spec.arguments(op.spec.sizes[0], torch.float32, torch.device("cpu"), 0)
    nbytes = sum(each.nbytes for each in (*args, *op.allocate(*args)))
    assert memory.argument_bytes(op, op.spec.sizes[0], torch.float32) == nbytes


def test_a_rung_without_a_kernel_has_nothing_to_explain() -> None:
    with pytest.raises(ValueError, match=r"k02_none \(python\) launches no GPU kernel"):
        lab.explain_rung(toy(), "k02", "small")
    with pytest.raises(ValueError, match="no size 'medium'; there are large, small"):
        lab.explain_rung(toy(), "k01", "medium")


def test_a_rung_for_gpus_alone_is_executed_unchecked() -> None:
    op = toy()
    own = replace(op.rungs[0], devices=("cuda",))
    with pytest.raises(ValueError, match=r"runs on cuda, not on cpu; checks='none' \(--trusted\)"):
        lab.explain_rung(op, own, "small")
    found = lab.explain_rung(op, own, "small", checks="none")
    assert [one.agrees.status for one in found] == ["not compared"] * 2 and found[0].metrics[SECTORS.format("st")] == 25
