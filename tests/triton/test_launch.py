"""Launches: device selection, breakpoints, autotuning, PyTorch interoperability."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from tests.commands import interpreter
from torch._subclasses.fake_tensor import FakeTensorMode

from warpwise import triton as wt
from warpwise.cuda import ArgumentError, OutOfBounds
from warpwise.triton.kernel import JITFunction

# Triton 3.9 warns at each compilation that the default of fp fusion will change.
pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION:UserWarning")


@wt.jit
def scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x * factor, mask=offsets < n)


@wt.jit
def with_breakpoint(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    breakpoint()  # noqa: T100
    tl.store(x_ptr + tl.arange(0, BLOCK), x + 1)


def test_breakpoint_shows_block_values(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []

    def hook(*args: Any, **kwargs: Any) -> None:
        frame = sys._getframe(1)
        assert frame.f_code.co_filename == __file__
        assert frame.f_code.co_name == "with_breakpoint"
        seen.append({name: repr(value) for name, value in frame.f_locals.items()})

    monkeypatch.setattr(sys, "breakpointhook", hook)
    x = torch.arange(4).bfloat16()
    with_breakpoint[2](x, BLOCK=4, checks="bounds")
    assert len(seen) == 2
    assert x.tolist() == [2, 3, 4, 5]
    assert seen[0]["x"] == "array([0., 1., 2., 3.], dtype=float32)"
    assert seen[1]["x"] == "array([1., 2., 3., 4.], dtype=float32)"
    assert seen[0]["x_ptr"] == "x_ptr + 0"
    assert seen[0]["BLOCK"] == "4"


@pytest.fixture
def compiled_launches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Replace GPU launches by a recorder of their arguments."""
    launched: list[tuple[Any, ...]] = []

    def run(self: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        launched.append((self, grid, args, kwargs))

    monkeypatch.setattr(JITFunction, "run", run)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    return launched


def fake(device: str) -> torch.Tensor:
    with FakeTensorMode():
        return torch.empty(8, device=device)


def test_device_is_chosen_by_the_tensors(compiled_launches: list[tuple[Any, ...]]) -> None:
    x, on_gpu = torch.ones(8), fake("cuda:0")
    out = torch.empty(8)
    scale[1](x, wt.out(out), 8, 2.0, BLOCK=8)
    assert (out == 2).all()
    assert not compiled_launches
    scale[3](on_gpu, wt.out(on_gpu), 8, 2.0, BLOCK=8, num_warps=2)
    ((kernel, grid, args, meta),) = compiled_launches
    assert kernel is scale
    assert grid == (3,)
    assert meta == {"BLOCK": 8, "num_warps": 2}
    assert args[0] is on_gpu and args[1] is on_gpu, "cuda.out must be unwrapped"
    scale[1](x, wt.out(out), 8, 3.0, BLOCK=8)
    assert (out == 3).all()
    assert len(compiled_launches) == 1


@pytest.mark.parametrize("order", [("cuda:0", "cpu"), ("cpu", "cuda:0"), ("cuda:0", "cuda:1")])
def test_tensors_on_two_devices(order: tuple[str, str], compiled_launches: list[tuple[Any, ...]]) -> None:
    x, out = (torch.ones(8) if device == "cpu" else fake(device) for device in order)
    message = f"scale: expected all tensors on one device, got x_ptr on {order[0]}, out_ptr on {order[1]}"
    with pytest.raises(ArgumentError, match=message):
        scale[1](x, out, 8, 2.0, BLOCK=8)
    with pytest.raises(ArgumentError, match=message):
        scale[1](x, wt.out(out), 8, 2.0, BLOCK=8)
    assert not compiled_launches


def test_numpy_arrays_with_cuda_tensors(compiled_launches: list[tuple[Any, ...]]) -> None:
    with pytest.raises(ArgumentError, match="out_ptr a NumPy array"):
        scale[1](fake("cuda:0"), torch.ones(8).numpy(), 8, 2.0, BLOCK=8)
    assert not compiled_launches


CONFIGS = [wt.Config({"BLOCK": 4}, num_warps=1), wt.Config({"BLOCK": 16}, num_warps=2)]


@wt.autotune(CONFIGS, key=["n"])
@wt.jit
def tuned(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) * factor, mask=offsets < n)


@triton.autotune(CONFIGS, key=["n"])
@wt.jit
def tuned_above_jit(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) * 2, mask=offsets < n)


def test_triton_autotune_above_jit_runs_on_a_cpu_with_checks() -> None:
    x, out = torch.arange(100.0), torch.empty(100)
    tuned_above_jit[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, wt.out(out), 100)
    assert torch.equal(out, 2 * x)
    with pytest.raises(OutOfBounds):
        tuned_above_jit[(25,)](x, torch.empty(90), 100)


tuned_by_triton = wt.jit(triton.autotune(CONFIGS, key=["n"])(triton.jit(tuned.jit_function.fn)))
guided = wt.heuristics({"BLOCK": lambda args: wt.next_power_of_2(args["n"])})(wt.jit(tuned.jit_function.fn))


@pytest.mark.parametrize("kernel", [tuned, tuned_by_triton, guided], ids=["wt", "triton", "heuristics"])
def test_tuned_kernels_run_and_compile_without_a_gpu(kernel: wt.TunedKernel) -> None:
    x, out = torch.randn(10), torch.empty(10)
    kernel[lambda meta: (wt.cdiv(10, meta["BLOCK"]),)](x, wt.out(out), 10, 2.0)
    assert torch.equal(out, 2 * x)
    assert kernel[1].check(x, wt.out(out), 10, 2.0) == (
        [] if kernel is guided else kernel[1].check(x, wt.out(out), 10, 2.0)
    )
    assert kernel.compile_for(x, out, 10, 2.0).num_warps == (4 if kernel is guided else 1)


def test_a_tuned_kernel_has_the_attributes_of_triton_s_autotuner() -> None:
    assert tuned.configs == CONFIGS
    assert tuned.keys == ["n"]
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = tuned.no_such_name


def test_wrap_triton_accepts_a_kernel() -> None:
    assert isinstance(scale.jit_function, triton.JITFunction)
    assert torch.library.wrap_triton(scale.jit_function) is not None


def test_interpreter_works_with_triton_interpret_set() -> None:
    script = """
import torch
from tests.triton.test_launch import scale
from warpwise import cuda, triton as wt
x, out = torch.ones(8), torch.empty(8)
scale[1](x, wt.out(out), 8, 2.0, BLOCK=8)
try:
    scale.compile_for(x, out, 8, 2.0, BLOCK=8)
except cuda.CompileError as error:
    print(out.sum().item(), error)
"""
    done = interpreter(script, TRITON_INTERPRET="1")
    assert done.stdout.startswith("16.0 scale: TRITON_INTERPRET was set")


@pytest.mark.gpu
def test_same_kernel_on_cpu_and_gpu() -> None:
    x = torch.randn(1000)
    out, on_gpu = torch.empty(1000), torch.empty(1000, device="cuda")
    scale[lambda meta: (wt.cdiv(1000, meta["BLOCK"]),)](x, wt.out(out), 1000, 2.5, BLOCK=128)
    scale[lambda meta: (wt.cdiv(1000, meta["BLOCK"]),)](x.cuda(), wt.out(on_gpu), 1000, 2.5, BLOCK=128)
    assert torch.equal(out, on_gpu.cpu())
    assert torch.equal(out, x * 2.5)
    findings = scale[8].check(x.cuda(), on_gpu, 2000, 2.5, BLOCK=256)
    assert findings
    assert findings[0].variable == "x_ptr"
    assert torch.equal(out, on_gpu.cpu())
    tuned[lambda meta: (wt.cdiv(1000, meta["BLOCK"]),)](x.cuda(), wt.out(on_gpu), 1000, 3.0)
    assert torch.equal(on_gpu.cpu(), x * 3.0)


@wt.jit
def fill(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


def test_launch_options_of_amd() -> None:
    x = torch.zeros(8)
    fill[1](x, 8, waves_per_eu=2, matrix_instr_nonkdim=16, kpack=1, num_stages=1)
    assert x.tolist() == 8 * [1]
    with pytest.raises(ArgumentError, match="'waves_per_eu' is neither a parameter nor"):
        fill.compile_for(torch.empty(8, device="meta"), 8, waves_per_eu=2)


@wt.autotune([triton.Config({"BLOCK": 8}), triton.Config({"BLOCK": 16})], ["n"], None, ["out_ptr"])
@wt.jit
def tuned_scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x * factor, mask=offsets < n)


def test_the_configuration_that_ran_is_the_best_one() -> None:
    x, out = torch.randn(16), torch.zeros(16)
    tuned_scale[2](x, out, 16, 2.0)
    assert tuned_scale.best_config.kwargs == {"BLOCK": 8}
    torch.testing.assert_close(out, 2 * x)


class Remembering(triton.runtime.Autotuner):
    """An autotuner of a program: its own ``run`` times all configurations."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        timings = {config: self._bench(*args, config=config, **kwargs) for config in self.configs}
        self.best_config = min(timings, key=lambda config: timings[config])
        return self.fn.run(*args, **kwargs, **self.best_config.all_kwargs())


def test_an_autotuner_of_a_program_chooses_the_first_configuration() -> None:
    configs = [triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 8})]
    kernel = Remembering(scale, scale.arg_names, configs, ["n"], None, None)
    x, out = torch.randn(16), torch.zeros(16)
    kernel[1](x, out, 16, 2.0)
    assert kernel.best_config is configs[0]
    torch.testing.assert_close(out, 2 * x)


def test_a_launch_returns_the_compiled_kernel() -> None:
    x, out = torch.randn(16), torch.zeros(16)
    launched = scale[1](x, out, 16, 2.0, BLOCK=16, num_warps=2, waves_per_eu=2)
    compiled = scale.compile_for(x, out, 16, 2.0, BLOCK=16, num_warps=2)
    assert launched.n_regs == compiled.registers > 0
    assert (launched.n_spills, launched.shared, launched.name) == (compiled.spills, compiled.shared, "scale")
    assert launched.asm["ptx"] == compiled.ptx
    assert (launched.metadata.shared, launched.metadata.num_warps) == (compiled.shared, 2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton warms up by its driver")
def test_a_warm_up_without_a_gpu_is_launched_later() -> None:
    x, out = torch.randn(16), torch.zeros(16)
    warm = scale.warmup(torch.float32, torch.float32, 16, 2.0, BLOCK=16, num_warps=1, grid=(1,))
    warm._init_handles()
    assert warm.n_regs > 0
    assert warm.metadata.num_warps == 1
    warm[1, 1, 1](x, out, 16, 2.0, 16)
    torch.testing.assert_close(out, 2 * x)
    assert all(each.n_regs > 0 for each in tuned_scale.warmup(x, out, 16, 2.0, grid=(1,)))
