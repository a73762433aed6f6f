"""The package in ``examples/third_party``, imported without being installed: verified, differentiated, compiled."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from warpwise import lab, operation
from warpwise.lab.verify.gradient import verify_gradient

HOME = Path(__file__).parents[1] / "examples" / "third_party"


@pytest.fixture(scope="module")
def package() -> Iterator[ModuleType]:
    """The module that the entry point of the package names, as ``operation.load_entry_points`` imports it."""
    tomllib = pytest.importorskip("tomllib", reason="new in Python 3.11")
    tomllib = pytest.importorskip("tomllib", reason="new in Python 3.11")
    entry = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]["entry-points"]["warpwise.ops"]["mypackage"]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HOME)
        __import__(entry)
        yield sys.modules[entry]
        operation.unregister("mypackage::silu_mul")
        for name in ("mypackage.silu_mul", "mypackage"):
            del sys.modules[name]


def arguments(dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(5, 7, dtype=dtype, generator=generator, requires_grad=True) for _ in range(2)]


def test_it_is_registered_by_its_own_namespace(package: ModuleType) -> None:
    assert operation.get("silu_mul") is operation.get("mypackage::silu_mul") is package.SILU_MUL
    gate, up = arguments(torch.float64)
    torch.testing.assert_close(torch.ops.mypackage.silu_mul(gate, up), torch.nn.functional.silu(gate) * up)


def test_its_rung_is_right(package: ModuleType) -> None:
    op = package.SILU_MUL
    verdict = lab.verify(op, op.rungs[0], device="cpu", seeds=(0,))
    assert verdict.right, str(verdict)
    assert op.spec.dtypes == tuple({result.dtype: None for result in verdict.cases})


def test_its_gradient_is_right(package: ModuleType) -> None:
    verdict = verify_gradient(package.SILU_MUL, device="cpu")
    assert verdict.right, str(verdict)
    assert torch.autograd.gradcheck(package.silu_mul, arguments(torch.float64))
    assert torch.autograd.gradgradcheck(package.silu_mul, arguments(torch.float64))


@pytest.mark.parametrize("rung", [None, "k01"])
def test_it_compiles_into_one_graph_with_its_gradient(package: ModuleType, rung: str | None) -> None:
    gate, up = arguments(torch.float32)
    torch._dynamo.reset()
    compiled = torch.compile(package.silu_mul, fullgraph=True, backend="aot_eager")
    output, expected = compiled(gate, up, rung=rung), torch.nn.functional.silu(gate) * up
    torch.testing.assert_close(output, expected)
    gradients = torch.autograd.grad(output.sum(), (gate, up))
    torch.testing.assert_close(gradients, torch.autograd.grad(expected.sum(), (gate, up)))


def test_wrong_arguments(package: ModuleType) -> None:
    gate, up = arguments(torch.float32)
    with pytest.raises(ValueError, match=r"silu_mul: expected up of gate's shape \(5, 7\), got \(5, 6\)"):
        package.silu_mul(gate, up[:, 1:])
    with pytest.raises(TypeError, match=r"silu_mul: expected gate of dtype .* got torch.int64"):
        package.silu_mul(gate.long(), up)


def test_the_module_is_short() -> None:
    assert sum(len(path.read_text().splitlines()) for path in (HOME / "mypackage").glob("*.py")) <= 120
