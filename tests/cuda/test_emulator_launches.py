"""Launches on the emulator: timeouts, interrupts, faults, aliasing, poisoned outputs, copy-back and printf."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.interrupting import interrupted
from tests.sampled import FULL

import warpwise
from warpwise import cuda
from warpwise.cuda.emulator import runtime
from warpwise.cuda.errors import KernelTimeout, LaunchError, OutOfBounds, UndefinedBehaviour

SOURCE = r"""
__global__ void spin(volatile int* p) {
  while (*p == 0) {}
}
__global__ void compute(float* p) {
  float x = 1;
  while (x != 0) x = x * 0.5f + 1;
  *p = x;
}
__global__ void wild(float* p, long long i) { p[i] = 1; }
__global__ void divide(int* p, int n) { *p = 5 / n; }
__device__ int deep(int n, int* q) {
  int a[64];
  a[0] = 0;
  a[1 + n % 63] = n;
  return n == 0 ? q[0] : deep(n - 1, a) + a[1 + n % 63];
}
__global__ void recurse(int* p, int n) { *p = deep(n, p); }
__global__ void print(int n) { printf("thread %d of %d: %s\n", threadIdx.x, n, "hello"); }
__global__ void shift(const float* from, float* to, int n) {
  int i = threadIdx.x;
  if (i < n) to[i] = from[i] + 1;
}
__global__ void copy(const float* from, float* to) { to[threadIdx.x] = from[threadIdx.x]; }
__global__ void indices(int* out) {
  int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 10000 + thread;
}
__device__ int launches = 0;
__global__ void count(int* out) { *out = ++launches; }
__global__ void barriers(int* p, int n) {
  for (int i = 0; i < n; i++) __syncthreads();
  if (threadIdx.x == 0) *p = n;
}
__global__ void waits(int* p) {
  for (;;)
    __syncthreads();
}
__global__ void nothing(int* p) {
}
__global__ void brief(int* p) {
  if (threadIdx.x == 0)
    p[0] = 1;
}
"""
MODULE = cuda.load(SOURCE)


@pytest.mark.parametrize("checks", ["all", "bounds", "none"])
@pytest.mark.parametrize("name,dtype", [("spin", "i4"), ("compute", "f4")])
def test_a_kernel_that_does_not_end_times_out(name: str, dtype: str, checks: str) -> None:
    with pytest.raises(KernelTimeout, match="still running") as caught:
        MODULE[name][1, 32](np.zeros(1, dtype), timeout=0.2, checks=checks)
    assert caught.value.finding.access.line in (3, 7)


@pytest.mark.parametrize("checks", ["all", pytest.param("bounds", marks=FULL), "none"])
@pytest.mark.parametrize(
    "name,blocks,text",
    [
        ("waits", 1, r"__syncthreads\(\);"),  # the timeout occurs in a barrier, outside the kernel's code
        ("nothing", 2**31 - 1, r"__global__ void nothing.*"),  # the timeout occurs between two threads
        ("brief", 2**31 - 1, r"__global__ void brief.*|if \(threadIdx.x == 0\)|p\[0\] = 1;"),
        ("spin", 1, r"while \(\*p == 0\) \{\}"),  # yields at every poll: the timer may fire in the scheduler
    ],
)
def test_a_timeout_reports_the_last_known_line(name: str, blocks: int, text: str, checks: str) -> None:
    for attempt in range(4):
        with pytest.raises(KernelTimeout, match="still running") as caught:
            MODULE[name][blocks, 64](np.zeros(1, "i4"), timeout=0.1 + 0.003 * attempt, checks=checks)
        access = caught.value.finding.access
        assert re.fullmatch(text, access.text) and access.line > 0


SPINNING = cuda.load(r"""
#include <cuda/atomic>
__device__ int turn = 0;
__global__ void acquire(int* p) {
  while (atomicCAS(p, 0, 1) != 0) {}  // HERE
}
__global__ void one_of_a_block(int* p) {
  p[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 33)
    while (atomicAdd(&turn, 0) != 1) {  // HERE
    }
  __syncthreads();
  p[threadIdx.x] = 2;
}
__global__ void one_of_a_warp(int* p) {
  p[threadIdx.x] = 1;
  volatile int* flag = &turn;
  if (threadIdx.x == 7)
    while (*flag != 1) {  // HERE
    }
  p[threadIdx.x] = __shfl_sync(~0u, threadIdx.x, 7);
}
__global__ void one_of_a_grid(int* p) {
  p[threadIdx.x] = 1;
  __syncthreads();
  if (blockIdx.x == 1)
    while (cuda::atomic_ref<int>(turn).load(cuda::memory_order_acquire) != 1) {  // HERE
    }
}
__device__ __noinline__ void lock(int* p) {
  while (atomicExch(p, 1) != 0)  // HERE
    __threadfence();  // HERE
}
__global__ void in_a_function(int* p) {
  __syncthreads();
  lock(p);
  __syncthreads();
}
__global__ void one_that_computes(int* p) {
  p[threadIdx.x] = 1;
  __syncthreads();
  float x = 1;
  if (threadIdx.x == 17)
    while (x != 0) x = x * 0.5f + 1;  // HERE
  __syncthreads();
  p[threadIdx.x] = x;
}
""")


@pytest.mark.parametrize("checks", ["all", "bounds", "none"])
@pytest.mark.parametrize(
    "name,blocks,thread",
    [
        ("acquire", 2, None),
        ("one_of_a_block", 1, 33),
        ("one_of_a_warp", 1, 7),
        ("one_of_a_grid", 2, None),
        ("in_a_function", 1, None),
        ("one_that_computes", 1, 17),
    ],
)
def test_a_timeout_names_the_loop_and_a_thread_in_it(name: str, blocks: int, thread: int | None, checks: str) -> None:
    for attempt in range(3):
        with pytest.raises(KernelTimeout, match="still running") as caught:
            SPINNING[name][blocks, 64](np.ones(64, "i4"), timeout=0.02 + 0.003 * attempt, checks=checks)
        access = caught.value.finding.access
        assert access.text.endswith("// HERE"), access
        assert thread is None or access.thread == (thread, 0, 0)
        assert name != "one_of_a_grid" or access.block == (1, 0, 0)


def test_two_installations_can_share_a_cache(tmp_path: Path) -> None:
    """Debug information from a header that another installation precompiled must not hide the kernel's lines."""
    installed = Path(warpwise.__file__).parent
    shutil.copytree(installed, tmp_path / "warpwise", ignore=shutil.ignore_patterns("ops", "lab", "__pycache__"))
    script = f"""
import numpy as np, pytest, warpwise
from warpwise import cuda
assert warpwise.__file__.startswith({str(tmp_path)!r})
with pytest.raises(cuda.errors.KernelTimeout) as caught:
    cuda.load({SOURCE!r})["waits"][1, 64](np.zeros(1, "i4"), timeout=0.05, checks="none")
assert caught.value.finding.access.text == "__syncthreads();", caught.value
"""
    MODULE["waits"].build(checked=False)  # by this installation
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_ctrl_c_ends_a_launch() -> None:
    setup = f"""
from warpwise import cuda
module = cuda.load({SOURCE!r})
def run():
    module["compute"][1, 1](np.zeros(1, "f4"))
x = np.zeros(4, "f4")
module["copy"][1, 4](np.ones(4, "f4"), x), module["compute"].build()  # compile before the interrupt
"""
    body = """
for _ in range(3):
    once(run)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    x[:] = 0
    module["copy"][1, 4](np.ones(4, "f4"), x)
    assert x.tolist() == [1, 1, 1, 1]
"""
    interrupted(setup, body)


def test_launches_from_other_threads() -> None:
    results: list[object] = []

    def work(value: float) -> None:
        x = np.zeros(64, "f4")
        MODULE["copy"][1, 64](np.full(64, value, "f4"), x)
        try:
            MODULE["compute"][1, 1](np.zeros(1, "f4"), timeout=0.1)
        except KernelTimeout:
            results.append((value, float(x.sum())))

    threads = [threading.Thread(target=work, args=(value,)) for value in (1.0, 2.0, 3.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(1.0, 64.0), (2.0, 128.0), (3.0, 192.0)]


def test_faults_in_kernels_without_checks_are_findings() -> None:
    before = [signal.getsignal(each) for each in (signal.SIGSEGV, signal.SIGFPE)]
    with pytest.raises(OutOfBounds, match="elements|not in an argument"):
        MODULE["wild"][1, 1](np.zeros(8, "f4"), 1 << 28, checks="none")
    with pytest.raises(UndefinedBehaviour, match="division"):
        MODULE["divide"][1, 1](np.zeros(1, "i4"), 0, checks="none")
    with pytest.raises(OutOfBounds, match="null"):
        MODULE["wild"][1, 1](None, 4, checks="none")
    assert [signal.getsignal(each) for each in (signal.SIGSEGV, signal.SIGFPE)] == before


@pytest.mark.parametrize("checks", ["all", "none"])
def test_a_stack_overflow_is_a_finding(checks: str) -> None:
    with pytest.raises(OutOfBounds, match="stack overflow"):
        MODULE["recurse"][1, 2](np.zeros(1, "i4"), 1 << 20, checks=checks)
    result = np.zeros(1, "i4")
    MODULE["recurse"][1, 1](result, 10, checks=checks)
    assert result[0] == 55


def test_redzones_find_a_write_past_the_end_without_checks() -> None:
    with pytest.raises(OutOfBounds) as caught:
        MODULE["wild"][1, 1](np.zeros(8, "f4"), 9, checks="none")
    assert (caught.value.finding.variable, caught.value.finding.index) == ("p", 9)


def test_printf_output(capsys: pytest.CaptureFixture[str]) -> None:
    MODULE["print"][1, 3](3)
    assert capsys.readouterr().out == "".join(f"thread {i} of 3: hello\n" for i in range(3))


def test_overlapping_views_alias() -> None:
    x = torch.arange(8.0)
    MODULE["shift"][1, 8](x[:-1], x[1:], 7, checks="none")
    assert x.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert MODULE["copy"][1, 4].check(x[:4], x[4:]) == []
    assert x.tolist() == [0, 1, 2, 3] * 2


def test_disjoint_views_of_one_storage_have_separate_bounds() -> None:
    x = torch.zeros(16)
    finding = MODULE["copy"][1, 9].check(x[:8], x[8:])[0]
    assert (finding.kind, finding.variable, finding.index) == (OutOfBounds, "from", 8)


def test_overlapping_arguments_report_the_nearest_view() -> None:
    x = torch.zeros(16)
    finding = MODULE["shift"][1, 32].check(x[:12], x[8:], 32)[-1]  # after the data races of the overlapping views
    assert (finding.kind, finding.variable, finding.index) == (OutOfBounds, "to", 8)


def test_an_output_is_poisoned_and_nothing_is_written_back_after_a_fatal_finding() -> None:
    x, y = np.ones(8, "f4"), np.full(8, 3, "f4")
    with pytest.raises(OutOfBounds):
        MODULE["copy"][1, 9](x, y)
    assert y.tolist() == [3] * 8
    z = np.full(8, 3, "f4")
    assert [finding.index for finding in MODULE["copy"][1, 5].check(x, cuda.out(z))] == [5]
    assert np.isnan(z[5:]).all()


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
def test_grids_and_blocks_of_three_dimensions(order: str) -> None:
    out = np.zeros((24, 60), "i4")
    MODULE["indices"][(2, 3, 4), (3, 4, 5)](cuda.out(out), order=order, seed=3)
    assert (out == np.arange(24)[:, None] * 10000 + np.arange(60)).all()


def test_device_variables_keep_their_values_between_launches() -> None:
    out = np.zeros(1, "i4")
    for expected in (1, 2, 3):
        MODULE["count"][1, 1](out)
        assert out[0] == expected


def test_many_barriers_in_blocks_of_1024_threads() -> None:
    out = np.zeros(1, "i4")
    MODULE["barriers"][2, 1024](out, 100)
    assert out[0] == 100


def test_too_many_threads_per_block() -> None:
    with pytest.raises(LaunchError, match="1,?024"):
        MODULE["copy"][1, 1025](np.zeros(8, "f4"), np.zeros(8, "f4"))


@FULL  # two builds of 13 s; test_cache.py tests the file lock itself
def test_two_processes_may_build_the_runtime_at_once(tmp_path: object) -> None:
    program = "from warpwise.cuda.emulator import runtime; print(runtime.handle() is not None)"
    environment = {**os.environ, "WARPWISE_CACHE": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [each.communicate(timeout=200)[0] for each in running] == ["True\n"] * 2
    assert len(list((tmp_path / "emulator").glob("libwarpwise_runtime_*.so"))) == 1
    assert runtime.library().name in [path.name for path in (tmp_path / "emulator").iterdir()]


NO_VARIABLES = cuda.load("__global__ void peek(long long at, int* to) { *to = *(int*)at; }\n")
ONE_VARIABLE = cuda.load(
    "__device__ int own[16];\n__global__ void peek(long long at, int* to) { *to = *(int*)at + own[0]; }\n"
)


@pytest.mark.parametrize("distance", [-(1 << 16), 1 << 16])
def test_an_address_near_the_library_belongs_to_no_variable_of_the_compiler(distance: int) -> None:
    for module, expected in ((NO_VARIABLES, "the address is not in an argument"), (ONE_VARIABLE, "'own' has 16")):
        kernel, to = module["peek"], np.zeros(1, "i4")
        ctypes.CDLL(str(kernel.build().library))
        mapped = [
            line.split()[0].split("-")
            for line in Path("/proc/self/maps").read_text().splitlines()
            if line.endswith(str(kernel.build().library))
        ]
        near = int(mapped[0][0], 16) if distance < 0 else int(mapped[-1][1], 16)
        with pytest.raises(OutOfBounds, match=expected):
            kernel[1, 1](near + distance, to)


def test_a_variable_of_another_library_is_none_of_the_kernel(tmp_path: Path) -> None:
    """It is what a kernel accesses that gets a pointer to a global variable of host code."""
    other = cuda.load("__device__ int data[16];\n__global__ void keep(int* to) { *to = data[0]; }\n")["keep"].build()
    kernel, starts = ONE_VARIABLE["peek"], []
    for index in range(64):  # of the same size, so that one is near the kernel's library
        if index == 32:
            ctypes.CDLL(str(kernel.build().library))
        library = ctypes.CDLL(shutil.copy(other.library, tmp_path / f"{index}.so"))
        size = ctypes.c_size_t()
        library.ww_entry_globals.restype = ctypes.POINTER(ctypes.c_uint64)
        starts.append(library.ww_entry_globals(ctypes.byref(size))[1])
    maps = Path("/proc/self/maps").read_text().splitlines()
    own = next(int(line.split("-")[0], 16) for line in maps if line.endswith(str(kernel.build().library)))
    nearest = min(starts, key=lambda start: abs(start - own))
    with pytest.raises(OutOfBounds, match="the address is not in an argument"):
        kernel[1, 1](nearest + 16, np.zeros(1, "i4"))
