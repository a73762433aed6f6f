"""Files of Triton kernels that ask for a GPU, and launch on it, at their top level."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from warpwise.cli import cli

FILE = """
import torch
import triton
import triton.language as tl

DEVICE = triton.runtime.driver.active.get_active_torch_device()
SMS = triton.runtime.driver.active.utils.get_device_properties(DEVICE.index)["multiprocessor_count"]
IS_HOPPER = torch.cuda.get_device_capability()[0] == 9
TIMER = triton.runtime.driver.active.get_benchmarker()
FILE_OF_CONFIGURATIONS = torch.cuda.get_device_name().replace(" ", "-") + ".json"
assert torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count == SMS


@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


a = torch.rand(100, device=DEVICE)
add[(1,)](a, torch.empty_like(a), 100, BLOCK=128)


@triton.jit
def late(x):
    tl.store(x, 1)
"""


OWN_AUTOTUNERS = """
import triton
import triton.language as tl
from triton.runtime.jit import KernelInterface


class Derived(triton.runtime.Autotuner):
    pass


class Other(KernelInterface):
    def __init__(self, fn, configs):
        self.fn, self.arg_names, self.configs = fn, fn.arg_names, configs

    def run(self, *args, **kwargs):
        raise RuntimeError("times the configurations")


@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


CONFIGS = [triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 64})]
derived = Derived(add, add.arg_names, CONFIGS, ["n"], None, None)
other = Other(add, CONFIGS)
"""


@pytest.mark.parametrize("name", ["derived", "other"])
def test_autotuners_of_a_program_run_the_first_configuration(name: str, tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN_AUTOTUNERS)
    given = ["--arg", "x=f32[100]", "--arg", "y=out:f32[100]", "--arg", "n=100"]
    result = CliRunner().invoke(cli, ["check", str(file), "--kernel", name, "--grid", "1", *given])
    assert result.exit_code == 0, result.output
    assert f"no finding in {name}" in result.output


@pytest.mark.skipif(torch.cuda.is_available(), reason="the launch succeeds")
def test_a_kernel_before_a_launch_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "tutorial.py"
    file.write_text(FILE)
    given = ["--arg", "x=f32[100]", "--arg", "y=out:f32[100]", "--arg", "n=100", "--arg", "BLOCK=128"]
    result = CliRunner().invoke(cli, ["check", str(file), "--kernel", "add", "--grid", "1", *given])
    assert result.exit_code == 0, result.output
    assert "tutorial.py:21: RuntimeError: there is no GPU to launch a kernel on; add is defined before" in result.output
    assert "no finding in add" in result.output
    result = CliRunner().invoke(cli, ["check", str(file), "--kernel", "late", "--grid", "1"])
    assert result.exit_code != 0
    assert "tutorial.py:21: RuntimeError: there is no GPU" in result.output
