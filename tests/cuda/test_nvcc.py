"""Sources that NVRTC refuses: host headers, headers with host code, macros before an include; and nvcc itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.sampled import FULL

import warpwise as ww
from warpwise.cuda.errors import CompileError
from warpwise.cuda.gpu import nvcc
from warpwise.cuda.gpu.flat_source import FlatSource
from warpwise.cuda.source.project import header_folders
from warpwise.cuda.source.signature import parse

pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed")
needs_nvcc = pytest.mark.skipif(nvcc.find() is None, reason=nvcc.ADVICE)

NAMES = """
namespace {
__global__ void hidden(float* x, int n) {  // reads the address of the grid's barrier
  unsigned barrier;
  asm volatile("mov.u32 %0, %%envreg1;" : "=r"(barrier));
  x[0] = n + barrier;
}
}
template <int W, class T> __global__ void val(T* x) { x[0] = W; }
extern "C" __global__ void plain(int* x) { x[0] = 1; }
static __global__ void local(int* x) { x[0] = 1; }
struct Add { __device__ float operator()(float a, float b) const { return a + b; } };
template <class F> __global__ void reduce(float* x, F f) { x[0] = f(x[0], x[1]); }
namespace ns {
__constant__ float weights[9];
static __constant__ int radius;
__global__ void k(float* x) { x[0] = weights[radius]; }
}
"""


def by_nvcc(text: str, expression: str, constants: tuple[str, ...] = ()) -> nvcc.Compiled:
    return nvcc.compile(FlatSource(ww.cuda.load(text), expression, "sm_90a", constants))


@needs_nvcc
@pytest.mark.parametrize(
    "expression, symbol, types",
    [
        ("hidden", "6hiddenEPfi", ["float*", "int"]),
        ("val<4, float>", "_Z3valILi4EfEvPT0_", ["float*"]),
        ("plain", "plain", ["int*"]),
        ("local", "_Z5localPi", ["int*"]),
        ("reduce<Add>", "_Z6reduceI3AddEvPfT_", ["float*", "Add"]),
        ("ns::k", "_ZN2ns1kEPf", ["float*"]),
    ],
)
@pytest.mark.one_in(3)
def test_symbols_types_and_constants_of_nvcc(expression: str, symbol: str, types: list[str]) -> None:
    made = by_nvcc(NAMES, expression, ("ns::weights", "ns::radius"))
    assert made.symbol.endswith(symbol)
    assert made.symbol.encode() + b"\0" in made.cubin
    assert [parameter.text for parameter in parse(made.function_type)] == types
    assert made.registers > 0 and made.cooperative == (expression == "hidden")
    assert all(constant.encode() + b"\0" in made.cubin for constant in made.constants.values())
    assert made.constants.keys() == {"ns::weights", "ns::radius"}


SEVERAL = """
__global__ void dot(const float* a, const float* b, float* c) { c[0] = a[0] * b[0]; }
template <class T> __global__ void cast(const float* a, const float* b, T* c) { c[0] = a[0] + b[0]; }
template __global__ void cast<int>(const float*, const float*, int*);
template __global__ void cast<float>(const float*, const float*, float*);
namespace ns {
__global__ void sum(const float* a, const float* b) {}
__global__ void sum(const float* a, const float* b, float* c) {}
extern "C" __global__ void plain(const float* a, const float* b) {}
namespace { __global__ void hidden(const float* a, const float* b) {} }
}
"""


@needs_nvcc
@pytest.mark.parametrize(
    "expression, symbol",
    [
        ("dot", "_Z3dotPKfS0_Pf"),
        ("cast<int>", "_Z4castIiEvPKfS1_PT_"),
        ("static_cast<void (*)(const float*, const float*, float*)>(&ns::sum)", "_ZN2ns3sumEPKfS1_Pf"),
        ("ns::plain", "plain"),
        ("ns::hidden", "6hiddenEPKfS2_"),
    ],
)
def test_kernels_that_repeat_a_type_in_a_unit_of_several_kernels(expression: str, symbol: str) -> None:
    made = by_nvcc(SEVERAL, expression)
    assert made.symbol.endswith(symbol)
    assert made.symbol.encode() + b"\0" in made.cubin


@needs_nvcc
def test_a_grid_barrier_is_found_in_the_code_of_nvcc() -> None:
    text = "#include <cooperative_groups.h>\n__global__ void k(int* x) { cooperative_groups::this_grid().sync(); }"
    assert by_nvcc(text, "k").cooperative


@needs_nvcc
def test_what_nvrtc_refuses_is_compiled_by_nvcc_and_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    text = """#include <array>
#include <cstdlib>
#include <type_traits>
struct Odd { std::conditional_t<true, lldiv_t, int> parts; };
__global__ void k(Odd* x) { x[0].parts.quot = 1; }
"""
    made = ww.cuda.load(text)["k"].compile("sm_90")
    assert made.compiler == "nvcc"
    monkeypatch.setattr(nvcc, "compile", None)
    assert ww.cuda.load(text)["k"].compile("sm_90") == made


def test_host_code_in_headers_and_headers_that_are_missing(tmp_path: Path) -> None:
    (tmp_path / "common.h").write_text(
        "#include <string>\n#include <cublas_v2.h>\n#include <mpi.h>\n"
        "inline void check(cublasStatus_t s) { if (s) throw std::string(cudaGetErrorString(s)); }\n"
        "constexpr int WIDTH = 4;\n"
    )
    (tmp_path / "k.cu").write_text('#include "common.h"\n__global__ void k(float* x) { x[WIDTH] = 1; }\n')
    kernel = ww.cuda.load(tmp_path / "k.cu")["k"]
    assert kernel.compile("sm_90").registers > 0
    assert kernel.build().sizes == (8,)


@pytest.mark.parametrize(
    "headers",
    ["type_traits", pytest.param("cuda_fp16.h cooperative_groups.h mma.h type_traits", marks=FULL)],
)
def test_macros_with_short_names_before_an_include(headers: str) -> None:
    names = "M N K T A B C F P U"
    text = "".join(f"#define {name} 8\n" for name in names.split())
    text += "".join(f"#include <{header}>\n" for header in headers.split())
    text += "__global__ void k(int* x) { x[M + U] = std::is_same<int, int>::value ? N : K; }\n"
    kernel = ww.cuda.load(text)["k"]
    assert kernel.compile("sm_90").registers > 0
    assert kernel.build().sizes == (8,)


def test_the_expression_may_name_macros_functors_aliases_and_constants() -> None:
    text = """#include <string>
#define TILE 16
constexpr int WIDTH = 8;
using Real = float;
struct Add { __device__ float operator()(float a, float b) const { return a + b; } };
template <int W, int V, class T, class F> __global__ void k(T* x) { x[0] = F()(W, V); }
"""
    kernel = ww.cuda.load(text)["k<TILE, WIDTH, Real, Add>"]
    assert kernel.compile("sm_90").registers > 0
    assert kernel.build().sizes == (8,)


def test_names_that_nvcc_has_without_an_include() -> None:
    text = """#include <algorithm>
extern "C" __global__ void k(uint* x, ushort* y, uint8_t* z, int64_t n) {
    assert(n < INT_MAX);
    if (n == 0) printf("%d", (int)n);
    x[0] = std::max(x[1], std::min((uint)y[0], (uint)z[0])) + (M_PI < FLT_MAX) + (sizeof(size_t) == sizeof(ulong));
}
"""
    made = ww.cuda.load(text)["k"].compile("sm_90")
    assert made.compiler == "nvrtc"
    assert ww.cuda.load(text)["k"].build().sizes == (8, 8, 8, 8)


def test_a_missing_header_is_the_same_error_on_both_sides() -> None:
    kernel = ww.cuda.load('#define N 4\n#include "mine.h"\n__global__ void k(int* x) { x[0] = N; }\n')["k"]
    messages = set()
    for make in (kernel.build, lambda: kernel.compile("sm_90")):
        with pytest.raises(CompileError) as caught:
            make()
        messages.add(str(caught.value))
    (message,) = messages
    assert 'kernel.cu:2: error: cannot open source file "mine.h"' in message


def test_a_kernel_that_needs_a_missing_header_names_it() -> None:
    kernel = ww.cuda.load("#include <cublas_v2.h>\n__global__ void k(cublasStatus_t* x) { x[0] = 1; }\n")["k"]
    with pytest.raises(CompileError, match=r"cublasStatus_t(.|\n)*<cublas_v2.h> \(kernel.cu:1\)"):
        kernel.compile("sm_90")


def test_types_and_macros_of_host_libraries() -> None:
    text = """#include <cufft.h>
#include <ATen/ATen.h>
#include <cublas_v2.h>
template <class T> C10_LAUNCH_BOUNDS_1(256) __global__ void k(cufftComplex* x, T* y, __nv_bfloat16* z, int n) {
    CUDA_KERNEL_LOOP(i, n) { x[i].x = gpuAtomicAdd(y, T(1)) + __bfloat162float(z[i]) + C10_WARP_SIZE; }
}
"""
    kernel = ww.cuda.load(text)["k<float>"]
    assert kernel.compile("sm_90").compiler == "nvrtc"
    assert kernel.build().sizes == (8, 8, 8, 4)


def test_without_nvcc_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "find", lambda: None)
    kernel = ww.cuda.load("__global__ void k(int* x) {\n  x[0] = missing;\n}\n")["k"]
    with pytest.raises(CompileError, match=r"kernel.cu\(2\): error(.|\n)*pip install nvidia-cuda-nvcc"):
        kernel.compile("sm_90")


def test_headers_are_found_in_the_folders_of_a_project(tmp_path: Path) -> None:
    for name, text in {
        "Makefile": "INCLUDE = deep/inc\nFLAGS = -O3 -I$(INCLUDE)\n",
        "include/one.h": "#define ONE 1\n",
        "deep/inc/two.h": '#include "three.h"\n',
        "deep/inc/three.h": "#define THREE 3\n",
        "src/kernels/k.cu": '#include "one.h"\n#include <two.h>\n__global__ void k(int* x) { x[0] = ONE + THREE; }\n',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    kernel = ww.cuda.load(tmp_path / "src" / "kernels" / "k.cu")["k"]
    assert kernel.compile("sm_90").registers > 0
    assert kernel.build().sizes == (8,)


FILLS = "__global__ void fill(float* x) { x[0] = 1; }\n__global__ void fill(int* x, int n) { x[n] = 1; }\n"
FILL_INTEGERS = "static_cast<void (*)(int*, int)>(&fill)"


def test_a_cast_chooses_one_of_several_kernels_of_a_name() -> None:
    kernel = ww.cuda.load(FILLS)[FILL_INTEGERS]
    assert [parameter.text for parameter in parse(kernel.compile("sm_90").function_type)] == ["int*", "int"]
    assert kernel.build().sizes == (8, 4)


@needs_nvcc
@FULL  # as the other symbols of nvcc
def test_a_cast_chooses_one_of_several_kernels_of_a_name_for_nvcc() -> None:
    assert by_nvcc(FILLS, FILL_INTEGERS).symbol == "_Z4fillPii"


def test_folders_that_cmake_names(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "target_include_directories(app PRIVATE ${CMAKE_SOURCE_DIR}/one ${OTHER}/x)\ninclude_directories(two)\n"
    )
    found = [folder.relative_to(tmp_path) for folder in header_folders(tmp_path) if tmp_path in folder.parents]
    assert {Path("one"), Path("two")} <= set(found)
    assert not any("OTHER" in str(folder) for folder in found)


@pytest.mark.parametrize(
    "text, advice",
    [
        ("texture<float> t;\n__global__ void k(float* x) { x[0] = tex1Dfetch(t, 1); }", "pass a cudaTextureObject_t"),
        ("__global__ void k(float* x) { x[0] = __shfl_down(x[0], 1); }", "use those that end in _sync"),
    ],
)
def test_features_that_cuda_has_removed_give_advice_on_both_sides(text: str, advice: str) -> None:
    kernel = ww.cuda.load(text)["k"]
    for make in (kernel.build, lambda: kernel.compile("sm_90")):
        with pytest.raises(CompileError, match=advice):
            make()


@needs_nvcc
def test_an_instruction_that_the_assembler_refuses_is_shown_with_its_line() -> None:
    text = '__global__ void k(float* x) {\n  asm volatile("bogus.f32 %0;" : "=f"(x[0]));\n}\n'
    with pytest.raises(CompileError, match=r"ptxas error .*'bogus'(.|\n)*kernel.cu:2: asm volatile"):
        ww.cuda.load(text)["k"].compile("sm_90")


@needs_nvcc
def test_errors_of_nvcc_are_at_the_users_lines_and_without_warnings(tmp_path: Path) -> None:
    (tmp_path / "twice.h").write_text("#pragma once\n\ninline __device__ int twice(int n) { return 2 * m; }\n")
    (tmp_path / "k.cu").write_text('#include "twice.h"\n__global__ void k(int* x) {\n  int y = twice(3) / 0;\n}\n')
    with pytest.raises(CompileError) as caught:
        ww.cuda.load(tmp_path / "k.cu")["k"].compile("sm_90")
    assert f'{tmp_path / "twice.h"}(3): error: identifier "m" is undefined' in str(caught.value)
    assert "warning" not in str(caught.value)
    assert "ww_" not in str(caught.value)


@needs_nvcc
def test_an_expression_that_is_not_an_instance_does_not_show_our_code() -> None:
    kernel = ww.cuda.load("template <int N, class T> __global__ void k(T* x) { x[0] = N; }")["k<3>"]
    with pytest.raises(CompileError, match="k<3>") as caught:
        kernel.compile("sm_90")
    assert "ww_" not in str(caught.value)


def test_a_nested_launch_is_refused_clearly() -> None:
    text = "__global__ void t(int* x) { x[0] = 1; }\n__global__ void k(int* x) { t<<<1, 1>>>(x); }\n"
    with pytest.raises(ww.cuda.UnsupportedFeature, match=r"kernel.cu:2: kernel k launches .*dynamic parallelism"):
        ww.cuda.load(text)["k"].build()
    with pytest.raises(CompileError, match=r"kernel.cu\(2\): error: .*kernel launch"):
        ww.cuda.load(text)["k"].compile("sm_90")


def test_pytorch_accessors_and_half_types() -> None:
    text = """#include <torch/extension.h>
template <class T>
__global__ void k(const torch::PackedTensorAccessor32<T, 3, torch::RestrictPtrTraits> in, c10::Half* half,
                  at::PackedTensorAccessor64<at::opmath_type<T>, 1> out) {
    auto row = in[blockIdx.x];
    for (int i = threadIdx.x; i < in.size(2); i += blockDim.x) out[i] = row[0][i] + float(half[i]) + out.stride(0);
}
"""
    kernel = ww.cuda.load(text)["k<float>"]
    assert kernel.compile("sm_90").compiler == "nvrtc"
    assert kernel.build().sizes == (32, 8, 24)  # a pointer, sizes and strides


PYTORCH_NUMBERS = """#include <ATen/cuda/detail/TensorInfo.cuh>
#include <ATen/ATen.h>
__device__ at::Half __shfl_down_sync(unsigned mask, at::Half value, unsigned delta) {
    return __shfl_down_sync(mask, value.operator __half(), delta);
}
__device__ float kind(at::Half) { return 1; }
__device__ float kind(__half) { return 2; }
template <class T>
__global__ void k(const T* x, T* y, float* f, T scale, at::cuda::detail::TensorInfo<int, int> info) {
    const int i = threadIdx.x;
    T value = __ldg(x + i) * scale + 1;
    value += T(0.5f);
    y[i] = __shfl_down_sync(0xffffffffu, value, 1);
    if (value < y[i] && i == 3) y[i].x ^= 0x8000;
    f[i] = 2 * at::cuda::detail::IndexToOffset<int, int, -1>::get(i, info) + value * 0.0f;
    if (i == 0) f[0] = kind(value) + 10 * kind(static_cast<__half>(value));
}
"""


def test_pytorchs_numbers_are_types_of_their_own_and_a_tensor_is_described_by_its_strides() -> None:
    kernel = ww.cuda.load(PYTORCH_NUMBERS)["k<at::Half>"]
    assert kernel.compile("sm_90").compiler == "nvrtc"
    x = torch.arange(32, dtype=torch.float16)
    y, f = torch.zeros(32, dtype=torch.float16), torch.zeros(32)
    info = np.zeros(
        (), np.dtype([("data", "u8"), ("sizes", "i4", 25), ("strides", "i4", 25), ("dims", "i4")], align=True)
    )
    info["sizes"][:3], info["strides"][:3], info["dims"] = (2, 4, 4), (100, 1, 10), 3
    assert kernel[1, 32].check(x, y, f, 0.25, info) == []
    value = x * 0.25 + 1.5
    expected = torch.cat([value[1:], value[-1:]])
    expected[3] *= -1
    torch.testing.assert_close(y, expected)
    places = [100 * (i // 16) + i // 4 % 4 + 10 * (i % 4) for i in range(32)]
    assert f.tolist() == [21.0, *(2.0 * place for place in places[1:])]


def test_a_header_is_found_if_one_of_its_name_is_nearest_in_the_checkout(tmp_path: Path) -> None:
    for name, text in {
        ".git/HEAD": "",
        "setup.py": "include_dirs = ['./csrc/own/headers']\n",
        "csrc/own/headers/one.h": "#define ONE 1\n",
        "far/away/two.h": "#define TWO 2\n",
        "near/deep/four.h": "#define FOUR 4\n",
        "other/four.h": "#define FOUR 5\n",
        "near/m.cu": '#include "four.h"\n__global__ void k(int* x) { static_assert(FOUR == 4, ""); x[0] = 1; }\n',
        "first/three.h": "",
        "second/three.h": "",
        "k.cu": '#include "one.h"\n#include "two.h"\n__global__ void k(int* x) { x[0] = ONE + TWO; }\n',
        "l.cu": '#include "three.h"\n__global__ void k(int* x) { x[0] = 1; }\n',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert ww.cuda.load(tmp_path / "k.cu")["k"].compile("sm_90").registers > 0
    assert ww.cuda.load(tmp_path / "near" / "m.cu")["k"].compile("sm_90").registers > 0
    with pytest.raises(CompileError, match="three.h"):
        ww.cuda.load(tmp_path / "l.cu")["k"].compile("sm_90")


def test_host_members_of_pytorchs_types_and_operators_in_an_asm_operand() -> None:
    text = """#include <torch/torch.h>
struct Table {
    int* keys;
    void insert(at::Tensor values);
    __device__ int get(int i) const { return keys[i]; }
};
__global__ void k(Table table, int* x, int n) {
    int y = table.get(0);
    asm volatile("add.s32 %0, %1, %2;" : "=r"(y) : "r"(n >> 1), "r"(1 << (n & 3)));
    x[0] = y;
}
"""
    kernel = ww.cuda.load(text)["k"]
    assert kernel.compile("sm_90").registers > 0
    assert kernel.build().sizes == (8, 8, 4)
