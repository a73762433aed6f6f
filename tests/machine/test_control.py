"""Control flow in SASS against the emulator: divergence, calls, barriers, spin waits, faults, uniform registers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from tests.machine.launching import agree, machine_run
from tests.machine.raw_launch import ARCHITECTURES, launch
from tests.sampled import FULL, thinned

from warpwise import cuda, machine

TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100")
SOME = thinned(TARGETS, every=2)  # NVRTC takes longer for the file than all tests of a target


@pytest.fixture(scope="module")
def module() -> cuda.Module:
    loaded = cuda.load(Path(__file__).with_name("control.cu"))
    loaded.set_constant("offsets", np.arange(16, dtype=np.int32) * 7)
    return loaded


def _numbers(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(1).integers(0, 100, n, dtype=np.int32), np.zeros(n, np.int32)


@pytest.mark.parametrize("target", SOME)
@pytest.mark.parametrize("name", ["nested", "early_return", "switches", "calls", "warp_primitives"])
def test_divergence_agrees_with_the_emulator(module: cuda.Module, name: str, target: str) -> None:
    """Blocks with a partial last warp, except for warp primitives, whose member masks name all lanes."""
    block = 64 if name == "warp_primitives" else 75
    x, y = _numbers(3 * block)
    counts = agree(module[name][3, block], (x, y), target)
    assert counts.total("threads_on") < 32 * counts.total("executed")


@pytest.mark.parametrize("target", SOME)
def test_barriers_agree_with_the_emulator(module: cuda.Module, target: str) -> None:
    x, y = _numbers(3 * 96)
    counts = agree(module["barriers"][3, 96], (x, y), target)
    assert counts.barriers == 3 * 4 + 6
    x, y = _numbers(128)  # not emulated: the emulator reports that some threads never reach the barrier
    counts = machine_run(module["barriers_after_exit"][1, 128], (x, y), target)
    np.testing.assert_array_equal(counts.outputs["y"].view(np.int32)[:70], x[69::-1])
    agree(module["named_barriers"][1, 96], _numbers(96), target)


@pytest.mark.parametrize("target", SOME)
def test_generic_addresses_and_thread_indices(module: cuda.Module, target: str) -> None:
    agree(module["spaces"][1, 32], _numbers(32), target)
    agree(module["indices"][(2, 3, 2), (5, 3, 4)], (np.zeros(720, np.int32),), target)


@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
def test_spin_lock_between_lanes_of_a_warp(module: cuda.Module, target: str) -> None:
    lock, y = np.zeros(1, np.int32), np.zeros(1, np.int32)
    agree(module["spin"][2, 48], (lock, y), target)


def test_spin_wait_for_a_later_block(module: cuda.Module) -> None:
    flags, y = np.zeros(6, np.int32), np.zeros(6 * 40, np.int32)
    agree(module["wait_for_next"][6, 40], (flags, y))
    with pytest.raises(machine.NeedsAllBlocks, match="run all blocks"):
        machine_run(module["wait_for_next"][400, 32], (np.zeros(400, np.int32), np.zeros(400 * 32, np.int32)), blocks=8)


@pytest.mark.parametrize("target", ["sm_90", pytest.param("sm_80", marks=FULL), pytest.param("sm_100", marks=FULL)])
def test_grid_synchronisation(module: cuda.Module, target: str) -> None:
    x, y = _numbers(4 * 50)
    counts = agree(module["grid_sync"][4, 50], (x, y), target)
    assert counts.program.cooperative
    assert counts.blocks_run == 4


def test_faults_name_source_lines(module: cuda.Module) -> None:
    y = np.zeros(64, np.int32)
    with pytest.raises(machine.MachineFault, match=r"deadlock in block \(0, 0, 0\).*BAR\.SYNC.*control\.cu:\d+"):
        machine_run(module["deadlocks"][1, 32], (y,))
    with pytest.raises(machine.MachineFault, match=r"trap: .*control\.cu:\d+"):
        machine_run(module["traps"][1, 64], (np.arange(64, dtype=np.int32), y))
    with pytest.raises(machine.MachineFault, match=r"STG\.E.*in no argument and no variable.*control\.cu:\d+"):
        machine_run(module["out_of_bounds"][1, 1], (y, 64))
    machine_run(module["out_of_bounds"][1, 1], (y, 63))
    assert not y.any()


@pytest.mark.parametrize("target", SOME)
def test_printf_is_ignored_and_assert_faults(module: cuda.Module, target: str) -> None:
    x, y = _numbers(32)
    counts = machine_run(module["prints"][1, 32], (x, y), target)
    np.testing.assert_array_equal(counts.outputs["y"].view(np.int32), x)
    x[7] = 100
    with pytest.raises(machine.MachineFault, match=r"device-side assert failed.*lanes 0x00000080.*control\.cu"):
        machine_run(module["prints"][1, 32], (x, y), target)


def test_timeout_of_an_endless_kernel(module: cuda.Module) -> None:
    with pytest.raises(machine.LaunchTimeout, match=r"still running after 0\.2 s"):
        machine_run(module["endless"][1, 32], (np.zeros(1, np.int32),), timeout=0.2)


INTERRUPTED = """__global__ void k(const double* a, double* o) {
  int i = threadIdx.x;
  double x = a[i], s = 0;
  if (i & 1)
    for (int k = 1; k < 200; k++) s += tgamma(x + k * 0.01);
  else
    for (int k = 1; k < 200; k++) s += erf(x) * pow(x, k * 0.01);
  o[i] = s;
}"""


@pytest.mark.parametrize("target", thinned(ARCHITECTURES, every=4, first=3))
def test_uniform_registers_in_divergent_branches(target: str) -> None:
    """Each side of a divergent branch keeps its own uniform registers, which hold polynomial coefficients here."""
    a, found = np.linspace(0.5, 9, 32), np.zeros(32)
    launch(INTERRUPTED, target, 1, 32, a.copy(), found)
    steps = [k * 0.01 for k in range(1, 200)]
    sides = (
        lambda x: math.erf(x) * sum(x**step for step in steps),
        lambda x: sum(math.gamma(x + step) for step in steps),
    )
    np.testing.assert_allclose(found, [sides[lane & 1](x) for lane, x in enumerate(a.tolist())], rtol=1e-13)
