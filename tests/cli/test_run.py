"""``warpwise run``: whole programs, the findings in their host code and in their kernels, and the exit status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from tests.commands import command, started
from tests.sampled import FULL

HEAD = """
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { \\
    printf("%s: %s\\n", #call, cudaGetErrorString(e)); exit(3); } } while (0)
__global__ void scale(float* x, int n, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}
"""


@pytest.fixture
def run(tmp_path):
    def run(text, *options, arguments=(), head=HEAD, name="program.cu"):
        path = tmp_path / name
        path.write_text(head + text)
        rest = ["--", *arguments] if arguments else []
        return command("run", str(path), *options, "--device", "cpu", *rest)

    return run


def line_of(text, part):
    return next(i for i, line in enumerate((HEAD + text).splitlines(), 1) if part in line)


ADD = """
int main(int argc, char** argv) {
  const int n = atoi(argv[1]);
  std::vector<float> host(n, 2.0f);
  float* x;
  CHECK(cudaMalloc(&x, n * sizeof(float)));
  CHECK(cudaMemcpy(x, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  scale<<<(n + 127) / 128, 128>>>(x, n, 3.0f);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), x, n * sizeof(float), cudaMemcpyDeviceToHost));
  for (float v : host) if (v != 6.0f) { printf("FAIL\\n"); return 4; }
  printf("PASS %d\\n", n);
  CHECK(cudaFree(x));
  return argc > 2 ? atoi(argv[2]) : 0;
}
"""


def test_a_correct_program(run):
    done = run(ADD, "--check", arguments=["1000"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "PASS 1000\n", "")


def test_an_access_out_of_bounds(run):
    text = ADD.replace("<<<(n + 127) / 128, 128>>>(x, n,", "<<<(n + 127) / 128, 128>>>(x, n + 1,")
    done = run(text, arguments=["1000"])
    assert done.returncode == 3
    assert "OutOfBounds" in done.stderr and "x[1000]" in done.stderr and "x[i] *= by" in done.stderr
    assert "illegal memory access" in done.stdout  # the program's own check of errors


def test_a_launch_that_is_not_valid(run):
    done = run(ADD.replace("128>>>", "2048>>>"), arguments=["10"])
    assert done.returncode == 3
    assert "2048" in done.stderr and "invalid configuration argument" in done.stdout


REDUCTION = """
__constant__ float weight[2];
__device__ unsigned int finished;
__global__ void spin(volatile float* x) { while (*x != 0) {} }
__global__ void sum(const float* x, float* out, int n) {
  extern __shared__ float part[];
  float mine = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += x[i] * weight[1];
  part[threadIdx.x] = mine;
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) { atomicAdd(out, part[0]); atomicAdd(&finished, 1u); }
}
int main(int argc, char** argv) {
  const int n = 5000;
  float w[2] = {1, 2}, result = 0, *x, *out, *host;
  CHECK(cudaMallocHost(&host, n * sizeof(float)));
  for (int i = 0; i < n; i++) host[i] = 1;
  CHECK(cudaMalloc(&x, n * sizeof(float)));
  CHECK(cudaMalloc(&out, sizeof(float)));
  CHECK(cudaMemset(out, 0, sizeof(float)));
  CHECK(cudaMemcpyToSymbol(weight, w, sizeof w));
  cudaStream_t stream;
  cudaEvent_t start, stop;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));
  CHECK(cudaMemcpyAsync(x, host, n * sizeof(float), cudaMemcpyHostToDevice, stream));
  CHECK(cudaEventRecord(start, stream));
  sum<<<8, 128, 128 * sizeof(float), stream>>>(x, out, n);
  CHECK(cudaEventRecord(stop, stream));
  CHECK(cudaEventSynchronize(stop));
  float ms = -1;
  CHECK(cudaEventElapsedTime(&ms, start, stop));
  CHECK(cudaMemcpy(&result, out, sizeof(float), cudaMemcpyDeviceToHost));
  unsigned blocks = 0;
  CHECK(cudaMemcpyFromSymbol(&blocks, finished, sizeof blocks));
  cudaDeviceProp p;
  CHECK(cudaGetDeviceProperties(&p, 0));
  int most = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&most, sum, 128, 512));
  printf("%s %u %d %d %d\\n", result == 2 * n ? "PASS" : "FAIL", blocks, ms >= 0, p.major, most);
  if (argc < 2) return 0;
  fflush(stdout);
  if (*argv[1] == 'k') spin<<<1, 1>>>((volatile float*)out);
  if (*argv[1] == 'h') for (volatile int i = 0;; i = i + 1) {}
  return atoi(argv[1]);
}
"""


def test_a_reduction_with_streams_events_and_symbols(run):
    done = run(REDUCTION)
    assert (done.returncode, done.stdout, done.stderr) == (0, "PASS 8 1 9 16\n", "")


def test_the_exit_status_is_the_programs_and_leaks_are_found_with_check_only(run):
    """Of the program above, which frees nothing."""
    done = run(REDUCTION, arguments=["7"])
    assert (done.returncode, done.stderr) == (7, "")
    done = run(REDUCTION, "--check")
    assert done.returncode == 1 and done.stdout == "PASS 8 1 9 16\n"
    assert "Leak: a block of device memory, 20,000 bytes" in done.stderr
    assert f"program.cu:{line_of(REDUCTION, 'cudaMalloc(&x')}" in done.stderr


@pytest.mark.parametrize("where", ["host", "kernel"])
def test_ctrl_c_and_live_output(tmp_path, where):
    """The same program, in an endless loop."""
    path = tmp_path / "program.cu"
    path.write_text(HEAD + REDUCTION)
    words = ["warpwise", "run", str(path), "--device", "cpu", "--", where]
    with started(f"import sys\nfrom warpwise.cli import main\nsys.argv = {words}\nmain()\n") as (process, output, _):
        assert output.readline() == "PASS 8 1 9 16\n"
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGINT)
        process.join(120)
        assert process.exitcode in (130, -signal.SIGINT)


@FULL
def test_a_race_is_found_in_a_program(run):
    done = run(REDUCTION.replace("__syncthreads();", ""))
    assert done.returncode == 1 and "DataRace: sum" in done.stderr


@FULL
def test_memory_that_nobody_wrote(run):
    text = REDUCTION.replace("CHECK(cudaMemset(out, 0, sizeof(float)));", "")
    text = text.replace("CHECK(cudaMemcpyAsync(x,", "if (0) CHECK(cudaMemcpyAsync(x,")
    done = run(text)
    assert done.returncode == 1 and "UninitializedRead: sum" in done.stderr and "read of x[0]" in done.stderr


MANAGED = """
struct Node { float value; Node* next; };
__global__ void total(Node* first, const float& more, float* out) {  // a reference: the address of device memory
  for (Node* at = first; at; at = at->next) *out += at->value;
  *out += more;
}
int main(int argc, char**) {
  float host = 3;
  Node* nodes[3];
  float* out;
  CHECK(cudaMallocManaged(&out, sizeof(float)));
  *out = 0;
  for (int i = 0; i < 3; i++) {
    CHECK(cudaMallocManaged(&nodes[i], sizeof(Node)));
    nodes[i]->value = i + 1;
    nodes[i]->next = i ? nodes[i - 1] : nullptr;
  }
  total<<<1, 1>>>(nodes[2], argc > 1 ? host : nodes[0]->value, out);
  CHECK(cudaDeviceSynchronize());
  printf("%g\\n", *out);
  for (Node* node : nodes) CHECK(cudaFree(node));
  CHECK(cudaFree(out));
}
"""


def test_managed_memory_and_pointers_and_references_to_it(run):
    done = run(MANAGED, "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")
    done = run(MANAGED, arguments=["host"])
    assert done.returncode == 3 and "OutOfBounds: total: 4-byte read" in done.stderr and "program.cu" in done.stderr


@FULL
def test_a_read_of_managed_memory_before_the_synchronization(run):
    text = MANAGED.replace("  CHECK(cudaDeviceSynchronize());\n", "")
    done = run(text)
    assert done.returncode == 1 and done.stdout == "7\n"
    assert "MissingSynchronization" in done.stderr
    assert f"program.cu:{line_of(text, '*out);')}" in done.stderr


@FULL
def test_a_pointer_in_device_memory_to_freed_memory(run):
    text = MANAGED.replace("  total<<<", "  CHECK(cudaFree(nodes[0]));\n  total<<<").replace(
        "Node* node : nodes", "Node* node : {nodes[1]}"
    )
    done = run(text)
    assert done.returncode == 3 and "OutOfBounds: total" in done.stderr
    assert "pointer in a structure" not in done.stderr


@pytest.mark.parametrize(
    "was, now, kind, part",
    [
        ("CHECK(cudaMemcpy(host.data(), x, n *", "(cudaMemcpy(host.data(), x, 2 * n *", "OutOfBounds", "cudaMemcpy"),
        ("CHECK(cudaFree(x));", "cudaFree(x); cudaFree(x);", "DoubleFree", "cudaFree"),
        pytest.param("CHECK(cudaFree(x));", "cudaFree(x + 1); cudaFree(x);", "InvalidFree", "cudaFree", marks=FULL),
        ("CHECK(cudaDeviceSynchronize());", "cudaFree(x);", "UseAfterFree", "cudaMemcpy"),
        pytest.param("CHECK(cudaDeviceSynchronize());", "printf(\"%g\", x[3]);", "HostAccess", "byte 12", marks=FULL),
        pytest.param("scale<<<", "cudaFree(x); scale<<<", "UseAfterFree", "argument 'x'", marks=FULL),
        pytest.param(
            "sizeof(float), cudaMemcpyHostToDevice",
            "4, cudaMemcpyDeviceToHost",
            *("InvalidCopy", "cudaMemcpy"),
            marks=FULL,
        ),
    ],
)  # fmt: skip
def test_an_error_of_host_code_is_found(run, was, now, kind, part):
    assert was in ADD
    text = ADD.replace(was, now).replace("if (v != 6.0f)", "if (0)")
    done = run(text, arguments=["1000"])
    assert done.returncode != 0
    assert kind in done.stderr and part in done.stderr, done.stderr
    assert "program.cu:" in done.stderr


def test_the_line_of_a_host_access_is_that_of_the_access(run):
    text = "int main() {\n  float* x;\n  cudaMalloc(&x, 128);\n  x[0] = 1;\n  scale<<<1, 32>>>(x, 32, 3);\n}\n"
    done = run(text)
    assert f"program.cu:{line_of(text, 'x[0] = 1')}:  x[0] = 1;" in done.stderr, done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_a_gpu_that_is_not_there_is_refused(tmp_path):
    path = tmp_path / "program.cu"
    path.write_text("int main() {}")
    done = command("run", str(path), "--device", "cuda")
    assert done.returncode == 2 and "Invalid value for --device" in done.stderr
    assert "there is no CUDA device here" in done.stderr


@FULL
def test_a_kernel_that_is_never_launched_is_not_compiled(run):
    done = run("__global__ void wrong(float* x) { x[0] = 1 }\nint main() { return 0; }\n")
    assert (done.returncode, done.stderr) == (0, "")


def test_several_files_headers_and_macros(run, tmp_path):
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "kernels.cuh").write_text(
        "#pragma once\n__device__ inline int twice(int x) { return 2 * x; }\nvoid launch(int* x);\n"
    )
    other = tmp_path / "other.cu"
    other.write_text(
        '#include "kernels.cuh"\n__device__ int offset = 1;\n'
        "__global__ void fill(int* x) { x[threadIdx.x] = twice(VALUE) + offset; }\n"
        "void launch(int* x) { fill<<<1, 32>>>(x); }\n"
    )
    done = run(
        '#include "kernels.cuh"\nint main() { int *x, h; cudaMalloc(&x, 128); launch(x);\n'
        'cudaMemcpy(&h, x + 31, 4, cudaMemcpyDeviceToHost); printf("%d\\n", h); cudaFree(x); }\n',
        str(other), "-I", str(tmp_path / "headers"), "-D", "VALUE=20",
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "41\n", "")


@FULL
def test_kernels_print_in_order_with_the_host(run):
    done = run(
        '__global__ void hello() { printf("kernel %d\\n", threadIdx.x); }\n'
        'int main() { printf("before\\n"); hello<<<1, 2>>>(); cudaDeviceSynchronize(); printf("after\\n"); }\n'
    )
    assert done.stdout == "before\nkernel 0\nkernel 1\nafter\n"


@pytest.mark.parametrize(
    "text, part",
    [
        ("#include <cudnn.h>\nint main() {}", "program.cu:12: #include <cudnn.h>: cuDNN has no CPU version"),
        ("void f() {}", "no function main"),
        ("int main() { return missing; }", "program.cu:12"),
        ("__global__ void k(int* x) { *x = missing; }\nint main() { k<<<1, 1>>>(nullptr); }", "program.cu:12"),
    ],
)
def test_what_cannot_run_is_a_clear_error(run, text, part):
    done = run(text)
    assert done.returncode == 2 and part in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_file(tmp_path):
    done = command("run", str(tmp_path / "none.cu"))
    assert done.returncode == 2 and "no file" in done.stderr


def test_a_missing_second_source_and_arguments_that_are_named_like_sources(run, tmp_path):
    text = 'int main(int argc, char** argv) { printf("%s", argv[1]); }'
    (tmp_path / "input.c").write_text("no C")
    done = run(text, str(tmp_path / "kernels.cu"), head="#include <cstdio>\n")
    assert done.returncode == 2 and "kernels.cu'; arguments of the program follow --" in done.stderr
    done = run(text, arguments=[str(tmp_path / "input.c")], head="#include <cstdio>\n")
    assert (done.returncode, done.stdout) == (0, str(tmp_path / "input.c"))


@FULL
def test_random_numbers_of_the_device_and_a_launch_with_spaces(run):
    done = run(
        "#include <curand_kernel.h>\n"
        "__global__ void draw(curandState* const states, float* const x) {\n"
        "  curand_init(7, threadIdx.x, 0, &states[threadIdx.x]);\n"
        "  x[threadIdx.x] = curand_uniform(&states[threadIdx.x]);\n}\n"
        "int main() { curandState* states; float *x, h[32]; cudaMalloc(&states, 32 * sizeof(curandState));\n"
        "cudaMalloc(&x, sizeof h); draw << <1, 32 >> > (states, x); cudaMemcpy(h, x, sizeof h, cudaMemcpyDefault);\n"
        "for (float v : h) if (!(v > 0 && v <= 1)) return 5; }\n"
    )
    assert (done.returncode, done.stderr) == (0, "")


@FULL
@pytest.mark.parametrize("checks", ["bounds", "none"])
def test_fewer_checks(run, checks):
    done = run(ADD, "--checks", checks, arguments=["1000"])
    assert (done.returncode, done.stdout) == (0, "PASS 1000\n")


@FULL
def test_more_allocations_than_slots_for_arguments(run):
    done = run(
        "__global__ void set(int** all, int n) { int i = blockIdx.x; if (i < n) *all[i] = i; }\n"
        "int main() { const int n = 1000; int* host[n]; int** all; cudaMalloc(&all, sizeof host);\n"
        "for (int*& each : host) CHECK(cudaMalloc(&each, 4));\n"
        "cudaMemcpy(all, host, sizeof host, cudaMemcpyHostToDevice); set<<<n, 1>>>(all, n);\n"
        "int last; CHECK(cudaMemcpy(&last, host[n - 1], 4, cudaMemcpyDeviceToHost)); return last == n - 1 ? 0 : 6; }\n"
    )
    assert (done.returncode, done.stderr) == (0, "")


@FULL
def test_a_host_fault_in_a_folder_with_a_space(tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir()
    path = folder / "fault.cu"
    path.write_text(HEAD + "int main(int argc, char** argv) {\n  return atoi(argv[1]);\n}\n")
    done = command("run", str(path), "--device", "cpu")
    assert done.returncode == 139 and "SegmentationFault: the host accesses a null pointer" in done.stderr
    assert "a folder/fault.cu:13:  return atoi(argv[1]);" in done.stderr


@FULL
def test_a_program_is_compiled_by_nvcc(tmp_path):
    from warpwise.cuda.gpu import nvcc
    from warpwise.cuda.program import build, on_gpu

    if nvcc.find() is None:
        pytest.skip("nvcc is not installed")
    path = tmp_path / "add.cu"
    path.write_text(HEAD + ADD)
    assert os.access(on_gpu.executable([path], build.Options(), (9, 0)), os.X_OK)


@pytest.mark.gpu
def test_a_program_on_a_gpu(tmp_path):
    path = tmp_path / "add.cu"
    path.write_text(HEAD + ADD)
    line = [sys.executable, "-m", "warpwise", "run", str(path), "--device", "cuda", "--", "1000", "7"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (7, "PASS 1000\n")
