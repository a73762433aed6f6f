"""Compilation with NVRTC on a machine without a GPU."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import warpwise as ww
from warpwise import cache
from warpwise.cuda.errors import CompileError
from warpwise.cuda.gpu import nvcc, nvrtc
from warpwise.cuda.gpu.nvrtc import Compiled
from warpwise.cuda.source import device_code, includes
from warpwise.cuda.source.signature import parse

pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed")

SOURCE = """
#include <vector>
#include <cuda_fp16.h>
struct Affine { float scale; double shift; };
namespace stencil { __constant__ float weights[9]; }
static __constant__ int radius;

template <int N, class T>
__global__ void scaled(T* out, const T* __restrict__ in, Affine map, __half half, float4* wide, int n) {
    __shared__ float tile[N];
    tile[threadIdx.x % N] = map.scale * stencil::weights[radius];
    __syncthreads();
    if (threadIdx.x < n) out[threadIdx.x] = in[threadIdx.x] * (T)tile[n % N];
}

__global__ void plain(int* out) { out[threadIdx.x] = LIMIT; }

int main() { std::vector<int> host; scaled<32, float><<<1, 32>>>(nullptr, nullptr, {}, {}, nullptr, 0); }
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def module() -> ww.cuda.Module:
    return ww.cuda.load(SOURCE, define={"LIMIT": 7})


def test_a_template_compiles_with_its_type_and_resources(module: ww.cuda.Module) -> None:
    made = module["scaled<32, float>"].compile("sm_90")
    assert made.cubin[:4] == b"\x7fELF"
    assert made.target == "sm_90a"
    assert [p.text for p in parse(made.function_type)] == [
        "float*",
        "float const*",
        "Affine",
        "__half",
        "float4*",
        "int",
    ]
    assert made.shared == 128
    assert 8 <= made.registers <= 64
    assert (made.stack, made.spill_stores, made.spill_loads) == (0, 0, 0)
    assert not made.cooperative


def test_targets_give_different_code(module: ww.cuda.Module) -> None:
    assert module["plain"].cubin("sm_80") != module["plain"].cubin("sm_90")
    assert nvrtc.architecture("sm_80") == "sm_80"
    assert nvrtc.architecture("10.0") == "sm_100a"


def test_the_module_target_is_the_default(module: ww.cuda.Module) -> None:
    assert ww.cuda.load(SOURCE, define={"LIMIT": 7}, target="sm_75")["plain"].compile().target == "sm_75"


def test_register_spills_are_reported() -> None:
    source = """__global__ void __launch_bounds__(1024, 2) k(float* x) {
        float v[64];
        for (int i = 0; i < 64; ++i) v[i] = x[i * 1024 + threadIdx.x];
        for (int r = 0; r < 3; ++r) {
            #pragma unroll
            for (int i = 0; i < 64; ++i) v[i] = v[i] * v[(i * 7 + 1) % 64] + v[(i + 13) % 64];
        }
        #pragma unroll
        for (int i = 0; i < 64; ++i) x[i * 1024 + threadIdx.x] = v[i];
    }"""
    made = ww.cuda.load(source)["k"].compile("sm_90")
    assert made.registers <= 32
    assert made.spill_stores > 0
    assert made.spill_loads > 0


def test_a_grid_barrier_requires_a_cooperative_launch() -> None:
    source = """#include <cooperative_groups.h>
    __global__ void whole(int* x) { cooperative_groups::this_grid().sync(); x[0] = 1; }
    __global__ void part(int* x) { cooperative_groups::this_thread_block().sync(); x[0] = 1; }"""
    module = ww.cuda.load(source)
    assert module["whole"].compile("sm_90").cooperative
    assert not module["part"].compile("sm_90").cooperative


def test_a_kernel_that_waits_for_the_previous_one_is_launched_before_its_end() -> None:
    source = """#include <warpwise/core/previous_kernel.cuh>
    __global__ void waits(int* x) { warpwise::wait_for_previous_kernel(); x[0] = 1; }
    __global__ void plain(int* x) { x[0] = 1; }"""
    module = ww.cuda.load(source)
    assert module["waits"].compile("sm_90").programmatic
    assert not module["waits"].compile("sm_80").programmatic
    assert not module["plain"].compile("sm_90").programmatic


def test_programmatic_dependent_launch_without_an_include(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "find", lambda: None)
    source = """__global__ void k(float* x) {
      cudaGridDependencySynchronize();
      x[threadIdx.x] = 1;
      cudaTriggerProgrammaticLaunchCompletion();
    }"""
    kernel, x = ww.cuda.load(source)["k"], torch.zeros(32)
    assert kernel.compile("sm_90").programmatic
    assert kernel[1, 32].check(x) == []
    assert x.tolist() == [1] * 32


def test_constants_are_found_by_their_cpp_names(module: ww.cuda.Module) -> None:
    made = nvrtc.compile(module, "scaled<32, float>", "sm_90", ("stencil::weights", "radius"))
    assert made.constants.keys() == {"stencil::weights", "radius"}
    assert all(symbol.encode() in made.cubin for symbol in made.constants.values())


def test_constexpr_functions_in_constants() -> None:
    source = """constexpr int twice(int n) { return 2 * n; }
    __global__ void k(int* x) {
        __shared__ int s[twice(8)];
        s[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = s[twice(8) - 1 - threadIdx.x];
    }"""
    assert ww.cuda.load(source)["k"].compile("sm_90").shared == 64


def test_errors_report_the_users_lines(module: ww.cuda.Module) -> None:
    broken = ww.cuda.load("// one\n__global__ void k(int* x) {\n  x[0] = missing;\n}\n")
    with pytest.raises(
        CompileError, match=r'k does not compile for sm_90a:\nkernel.cu\(3\): error: identifier "missing"'
    ):
        broken["k"].compile("sm_90")
    with pytest.raises(CompileError, match="does not compile"):
        module["scaled<32>"].compile("sm_90")


def test_a_missing_toolkit_header_gives_install_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(includes, "toolkit", lambda: ())
    module = ww.cuda.load("#include <mma.h>\n__global__ void k() {}\n")
    with pytest.raises(
        CompileError, match=r"mma.h is one of the CUDA toolkit's headers: .*pip install nvidia-cuda-runtime"
    ):
        module["k"].compile("sm_90")
    other = ww.cuda.load('#include "mine.h"\n__global__ void k() {}\n')
    with pytest.raises(CompileError, match="mine.h") as caught:
        other["k"].compile("sm_90")
    assert "pip install" not in str(caught.value)


def test_standard_headers() -> None:
    headers = (
        "stdio.h stdlib.h string.h math.h float.h limits.h stdint.h stddef.h assert.h cstdio cstdlib cstring cassert "
        "cmath"
        " cfloat climits cstdint cstddef limits type_traits utility tuple array complex cuda_pipeline.h"
    )
    includes_ = "".join(f"#include <{header}>\n" for header in headers.split())
    text = """
template <class T> __global__ void k(T* y, std::int64_t n) {
    static_assert(std::is_same<T, float>::value && INT_MAX > 0, "");
    uint32_t i = threadIdx.x;
    assert(i < 1024);
    if (i < n) y[i] = std::sqrt(y[i]) + (y[i] > FLT_MAX ? std::numeric_limits<T>::infinity() : INFINITY) + (float)M_PI;
}
"""
    assert ww.cuda.load(includes_ + text)["k<float>"].compile("sm_80").registers > 0


def test_math_macros_without_an_include() -> None:
    text = "__global__ void k(float* y) { y[0] = isnan(y[1]) ? NAN : -INFINITY; }"
    assert ww.cuda.load(text)["k"].compile("sm_90").registers > 0


@pytest.mark.parametrize(
    "text, expression",
    [
        ("template <class T> __global__ void k(T* x) { x[0] = T(float(x[0]) + 1); }", "k<__half>"),
        ("template <class T> __global__ void k(T* x) { x[0] = T(float(x[0]) + 1); }", "k<__nv_bfloat16>"),
        ("__global__ void k(float* x) { x[0] = __half2float(__float2half(x[0])) + 1; }", "k"),
    ],
)
def test_half_types_without_an_include_as_on_a_cpu(text: str, expression: str) -> None:
    kernel = ww.cuda.load(text)[expression]
    assert kernel.compile("sm_90").cubin[:4] == b"\x7fELF"
    dtype = {"k<__half>": torch.float16, "k<__nv_bfloat16>": torch.bfloat16}.get(expression, torch.float32)
    x = torch.ones(1, dtype=dtype)
    kernel[1, 1](x)
    assert x.item() == 2


def test_a_source_chooses_the_operators_of_half_types() -> None:
    text = """
    #define __CUDA_NO_HALF_OPERATORS__
    #include <cuda_fp16.h>
    __device__ __half operator+(__half a, __half b) { return __hsub(a, b); }
    __global__ void k(__half* x) { x[0] = x[1] + x[2]; }
    """
    assert ww.cuda.load(text)["k"].compile("sm_90").cubin[:4] == b"\x7fELF"


def test_a_second_compile_uses_the_cache_and_a_damaged_entry_is_replaced(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "__global__ void k(int* x) { x[0] = 1; }"
    first = ww.cuda.load(source)["k"].compile("sm_90")
    (entry,) = (own_cache / "cubin").iterdir()
    with monkeypatch.context() as patched:
        patched.setattr(nvrtc, "_compile", None)
        assert ww.cuda.load(source)["k"].compile("sm_90") == first
    entry.write_bytes(entry.read_bytes()[:-100])
    again = ww.cuda.load(source)["k"].compile("sm_90")
    assert (again.cubin, again.symbol, again.function_type) == (first.cubin, first.symbol, first.function_type)


def test_the_cache_key_covers_headers_defines_and_constants(tmp_path: Path, own_cache: Path) -> None:
    (tmp_path / "value.cuh").write_text("#define VALUE 1\n")
    kernel = tmp_path / "k.cu"
    kernel.write_text('#include "value.cuh"\n__global__ void k(int* x) { x[0] = VALUE + MORE; }\n')
    first = ww.cuda.load(kernel, define={"MORE": 1})["k"].cubin("sm_90")
    assert ww.cuda.load(kernel, define={"MORE": 2})["k"].cubin("sm_90") != first
    (tmp_path / "value.cuh").write_text("#define VALUE 5\n")
    assert ww.cuda.load(kernel, define={"MORE": 1})["k"].cubin("sm_90") != first
    assert len(list((own_cache / "cubin").iterdir())) == 3


@pytest.mark.parametrize("edited", ["lexer", "directives", "declarations", "reach", "kernels", "device_code"])
def test_the_cache_key_changes_with_the_modules_that_extract_device_code(
    edited: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(Path(device_code.__file__ or "").parent, tmp_path / "source")
    monkeypatch.setattr(device_code, "__file__", str(tmp_path / "source" / "device_code.py"))
    before = device_code.code_digest.__wrapped__()
    with (tmp_path / "source" / f"{edited}.py").open("a") as file:
        file.write("# edited\n")
    after = device_code.code_digest.__wrapped__()
    assert after != before

    module, keys = ww.cuda.load("__global__ void k() {}"), list[Path]()
    monkeypatch.setattr(cache, "load", lambda path: keys.append(path))
    monkeypatch.setattr(cache, "save", lambda path, data: None)
    monkeypatch.setattr(
        nvrtc, "_compile", lambda *args: Compiled("k", "", "", "", 0, 0, 0, 0, 0, False, False, {}, "", b"")
    )
    for value in (before, after):
        monkeypatch.setattr(nvrtc, "code_digest", lambda value=value: value)
        nvrtc.compile(module, "k", "sm_90")
    assert keys[0] != keys[1]


def test_several_threads_may_be_the_first_to_compile() -> None:
    program = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from warpwise.cuda.gpu import nvrtc\n"
        "with ThreadPoolExecutor(8) as pool: print(len(set(pool.map(lambda _: nvrtc._cuda_core(), range(8)))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr
