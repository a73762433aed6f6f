"""machine.run: memory, sampled blocks, counters, errors, interrupts."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.interrupting import interrupted
from tests.machine.launching import agree, machine_run

from warpwise import cuda, machine
from warpwise.cuda.gpu import nvrtc
from warpwise.machine.block_sampling import sample_blocks
from warpwise.machine.memory import ALIGNMENT, copy_buffers

SOURCE = """
extern "C" __global__ void scale(const float* x, float* y, float factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * factor;
}
extern "C" __global__ void edges(const int* x, int* y, int width, int height) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column >= width || row >= height) return;
  int sum = x[row * width + column];
  if (column > 0) sum += x[row * width + column - 1];
  if (row + 1 < height) sum += x[(row + 1) * width + column];
  y[row * width + column] = sum;
}
extern "C" __global__ void shift(float* x, const float* same, int n) {
  const int i = threadIdx.x;
  const float value = i + 1 < n ? same[i + 1] : 0;
  __syncthreads();
  x[i] = value;
}
extern "C" __global__ void where(const float* x, const float* absent, unsigned long long* y) {
  y[0] = (unsigned long long)x;
  y[1] = (unsigned long long)absent;
}
__device__ int calls;
extern "C" __global__ void dynamic(int* y) {
  extern __shared__ int shared[];
  shared[threadIdx.x * 7] = threadIdx.x;
  __syncthreads();
  y[threadIdx.x] = shared[(31 - threadIdx.x) * 7] + atomicAdd(&calls, 1) * 0;
}
extern "C" __global__ void endless(volatile int* y) {
  while (y[0] == 0) {
  }
}
"""


@pytest.fixture(scope="module")
def module() -> cuda.Module:
    return cuda.load(SOURCE)


def test_counters_of_a_small_launch(module: cuda.Module) -> None:
    """100 floats in 2 blocks of 64 threads: 4 warps, 4 active lanes in the last."""
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    counts = agree(module["scale"][2, 64], (x, y, 3.0, 100))
    assert (counts.blocks, counts.blocks_run, counts.warps, counts.sampled) == (2, 2, 4, False)
    for opcode in ("LDG", "STG"):
        assert counts.total("executed", opcode) == counts.total("requests", opcode) == 4
        assert counts.total("threads_on", opcode) == 100
        assert counts.total("bytes", opcode) == 400
        assert counts.total("sectors", opcode) == counts.total("ideal_sectors", opcode) == 13
    assert (counts.sectors_read, counts.sectors_written) == (13, 13)
    assert counts.total("threads") >= counts.total("threads_on")
    assert counts.warp_cycles >= counts.mean_warp_cycles > 100
    issued = counts.column("executed").sum() + counts.column("stall_cycles").sum()
    assert issued == pytest.approx(counts.mean_warp_cycles * counts.warps)


def test_arguments_are_not_modified(module: cuda.Module) -> None:
    x, y = np.ones(64, np.float32), np.full(64, 5, np.float32)
    counts = machine_run(module["scale"][1, 64], (x, y, 3.0, 64))
    assert (x == 1).all() and (y == 5).all()
    assert (counts.outputs["y"].view(np.float32) == 3).all()
    assert set(counts.outputs) == {"y"}
    assert [(each.name, each.nbytes, each.element_bytes) for each in counts.buffers] == [("x", 256, 4), ("y", 256, 4)]


def test_overlapping_views_share_memory(module: cuda.Module) -> None:
    x = np.arange(40, dtype=np.float32)
    counts = machine_run(module["shift"][1, 32], (x[:32], x[:33], 33))
    np.testing.assert_array_equal(counts.outputs["x"].view(np.float32), x[1:33])
    first, second = (each.address for each in counts.buffers)
    assert first == second


def test_addresses_keep_their_alignment(module: cuda.Module) -> None:
    storage = np.zeros(4096, np.float32)
    y = np.zeros(2, np.uint64)
    for offset in (0, 1, 33, 1000):
        counts = machine_run(module["where"][1, 1], (storage[offset : offset + 8], None, y))
        address, absent = counts.outputs["y"].view(np.uint64)
        assert address % ALIGNMENT == 4 * offset % ALIGNMENT
        assert absent == 0


def test_gaps_between_buffers(module: cuda.Module) -> None:
    kernel = module["scale"]
    arrays = [np.zeros(n, np.float32) for n in (1, 1000, 77)]
    bound = [kernel.binder(kernel.build()).cpu((array, array, 1.0, 1))[0] for array in arrays]
    segments, _ = copy_buffers(bound)
    ends = [(each.address, each.address + each.data.nbytes) for each in segments]
    assert all(end + 65536 <= start for (_, end), (start, _) in itertools.pairwise(ends))


@pytest.mark.parametrize("blocks", [1, 9, 40])
def test_sampled_counters_equal_those_of_all_blocks(module: cuda.Module, blocks: int) -> None:
    """Edges and corners are separate strata, so sampling is exact for regular kernels."""
    width, height = 16 * 21 - 5, 4 * 17 - 1
    x = np.random.default_rng(0).integers(0, 9, (height, width)).astype(np.int32)
    launcher, arguments = module["edges"][(21, 17), (16, 4)], (x, np.zeros_like(x), width, height)
    full, sampled = agree(launcher, arguments), machine_run(launcher, arguments, blocks=blocks)
    assert sampled.sampled and sampled.blocks_run < 60 and sampled.blocks == 21 * 17
    for name in ("executed", "threads", "threads_on", "requests", "bytes"):
        np.testing.assert_array_equal(sampled.column(name), full.column(name), err_msg=name)


@given(st.tuples(*[st.integers(1, 40)] * 3), st.integers(1, 500))
def test_sampling_weights_add_up_to_the_grid(grid: tuple[int, int, int], wanted: int) -> None:
    numbers, weights = sample_blocks(grid, wanted)
    total = grid[0] * grid[1] * grid[2]
    assert (np.diff(numbers.astype(np.int64)) > 0).all()
    assert numbers[0] == 0 and numbers[-1] == total - 1
    assert len(numbers) <= min(total, wanted + 27)
    assert weights is None if len(numbers) == total and wanted >= total else weights.sum() == total


def test_runs_are_deterministic(module: cuda.Module) -> None:
    """clock64 counts the warp's own cycles, so loops that wait by the clock are deterministic too."""
    source = (
        "__global__ void k(long long* y) { long long t = clock64(); while (clock64() - t < 500); y[threadIdx.x] = t; }"
    )
    clocked = cuda.load(source)["k"][3, 64]
    first, second = (machine_run(clocked, (np.zeros(64, np.int64),)) for _ in range(2))
    np.testing.assert_array_equal(first.table, second.table)
    np.testing.assert_array_equal(first.outputs["y"], second.outputs["y"])
    assert first.warp_cycles == second.warp_cycles > 500


def test_dynamic_shared_memory_and_variables(module: cuda.Module) -> None:
    agree(module["dynamic"][1, 32, 4 * 32 * 7], (np.zeros(32, np.int32),))
    with pytest.raises(machine.MachineFault, match="bytes at shared address"):
        machine_run(module["dynamic"][1, 32, 4 * 32 * 7 - 64], (np.zeros(32, np.int32),))


def test_invalid_arguments(module: cuda.Module) -> None:
    compiled = nvrtc.compile(module, "scale", "sm_90")
    program = machine.load_program(compiled.cubin, compiled.symbol)
    with pytest.raises(ValueError, match="expected 4 arguments, got 0"):
        machine.run(program, (1, 1, 1), (32, 1, 1), 0, [])
    with pytest.raises(ValueError, match="expected 1 to 1024 threads"):
        machine.run(program, (1, 1, 1), (32, 33, 1), 0, [])
    with pytest.raises(ValueError, match="blocks=0"):
        machine_run(module["scale"][1, 32], (np.zeros(1, np.float32), np.zeros(1, np.float32), 1.0, 1), blocks=0)


def test_unsupported_instruction_raises_only_if_executed(module: cuda.Module) -> None:
    compiled = nvrtc.compile(module, "scale", "sm_90")
    program = machine.load_program(compiled.cubin, compiled.symbol)
    assert machine.unsupported(program) == []
    assert set(machine.pipes(program)) >= {"fma", "lsu", "alu"}

    def broken(opcode: str) -> machine.Program:
        changed = [
            dataclasses.replace(each, opcode="XYZZY", text="XYZZY R1") if each.opcode == opcode else each
            for each in program.instructions
        ]
        return dataclasses.replace(program, instructions=tuple(changed))

    x, y = np.zeros(32, np.float32), np.zeros(32, np.float32)
    bound = module["scale"].binder(module["scale"].build()).cpu((x, y, 1.0, 32))
    assert machine.unsupported(broken("STG")) == ["XYZZY R1"]
    with pytest.raises(machine.Unsupported, match="unsupported instruction XYZZY R1"):
        machine.run(broken("STG"), (1, 1, 1), (32, 1, 1), 0, bound)
    machine.run(broken("NOP"), (1, 1, 1), (32, 1, 1), 0, bound)


def test_keyboard_interrupt() -> None:
    setup = f"""
from tests.machine.launching import machine_run
from warpwise import cuda
endless = cuda.load({SOURCE!r})["endless"][1, 32]
def run():
    machine_run(endless, (np.zeros(1, np.int32),), timeout=60)
machine_run(endless, (np.ones(1, np.int32),))  # compile first
"""
    interrupted(setup, "for _ in range(3):\n    once(run)")


def test_keyboard_interrupt_after_overlapping_runs() -> None:
    """Interpreter and emulator run at once: each installs and restores a SIGINT handler over the other's."""
    setup = f"""
from tests.machine.launching import machine_run
from warpwise import cuda, machine
endless = cuda.load({SOURCE!r})["endless"][1, 32]
def as_machine_code(timeout):
    try: machine_run(endless, (np.zeros(1, np.int32),), timeout=timeout)
    except machine.LaunchTimeout: pass
def emulated(timeout):
    try: endless(np.zeros(1, np.int32), timeout=timeout)
    except cuda.KernelTimeout: pass
as_machine_code(0.01), emulated(0.01)
before = signal.getsignal(signal.SIGINT)
"""
    body = """
for first, second in ((emulated, as_machine_code), (as_machine_code, emulated), (emulated, as_machine_code)):
    threads = [threading.Thread(target=first, args=(0.3,)), threading.Thread(target=second, args=(0.45,))]
    for thread in threads:
        thread.start()
        time.sleep(0.15)
    for thread in threads:
        thread.join()
    assert signal.getsignal(signal.SIGINT) is before
    once(lambda: time.sleep(20))
    once(lambda: as_machine_code(60))
    once(lambda: emulated(60))
"""
    interrupted(setup, body)
