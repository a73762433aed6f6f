"""Compilation for the emulator: names, the cache, include folders, and compile errors."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from warpwise import cuda
from warpwise.cuda.emulator import compiler, toolchain
from warpwise.cuda.emulator.compiler import build
from warpwise.cuda.launch.kernel import build_together

NAMES = """
namespace deep { namespace er {
struct Box { double size; char kind; };
template <typename T, int N> __global__ void fill(T* x, Box box, const unsigned char* mask) { x[threadIdx.x] = T(N); }
} }
extern "C" __global__ void plain(long long n, const float4* v, half h) {}
#include <cuda_fp16.h>
__global__ void overloaded(float* x) { x[0] = 1; }
__global__ void overloaded(int* x) { x[0] = 2; }
"""


def test_a_template_in_a_namespace() -> None:
    made = build(NAMES, "names.cu", "deep::er::fill<float, 2 + 3>")
    assert made.function_type == "void (*)(float*, deep::er::Box, unsigned char const*)"
    assert made.sizes == (8, 16, 8)
    assert made.library.exists()


def test_a_cast_selects_an_overload() -> None:
    made = build(NAMES.replace("half h", "int h"), "names.cu", "static_cast<void (*)(int*)>(&overloaded)")
    assert made.function_type == "void (*)(int*)"


@pytest.mark.parametrize("name", ["div", "exp", "abs", "min", "index", "time"])
def test_a_kernel_may_have_the_name_of_a_library_function(name: str) -> None:
    text = f"#include <algorithm>\n__global__ void {name}(const float* x, float (*y)[4], int n = 3) {{ y[0][0] = *x; }}"
    module = cuda.load(text)
    assert module[name].build().function_type == "void (*)(float const*, float (*) [4], int)"
    assert name in module[name].compile("sm_90").symbol


def test_several_kernels_of_one_name_are_told_apart_by_their_parameters() -> None:
    module = cuda.load("""
__global__ void twice(float* x) { x[threadIdx.x] *= 2; }
__global__ void twice(int* x) { x[threadIdx.x] *= 2; }
""")
    with pytest.raises(cuda.CompileError, match=r"twice: several functions have this name; name one by its parameters"):
        module["twice"][1, 4](np.ones(4, np.float32))
    x = np.ones(4, np.int32)
    module["static_cast<void (*)(int*)>(twice)"][1, 4](x)
    assert x.tolist() == [2, 2, 2, 2]


def test_an_unknown_template_argument_is_not_called_an_overload() -> None:
    module = cuda.load("template <typename T> __global__ void fill(T* y) { y[threadIdx.x] = 1; }")
    with pytest.raises(cuda.CompileError, match="foo.* was not declared") as raised:
        module["fill<foo>"][1, 4](np.ones(4, np.float32))
    assert "several functions" not in str(raised.value)


def test_a_template_argument_of_the_wrong_kind_is_not_called_an_overload() -> None:
    text = """
enum class Mode { sum, max };
template <Mode M, int N = 4> __global__ void fold(int* x) { x[0] = N; }
template <> __global__ void fold<Mode::max, 8>(int* x) { x[0] = 1; }
template <class T> __global__ void either(T* x) {}
template <class T> __device__ void either(T* x, int n) {}
"""
    with pytest.raises(cuda.CompileError, match="fold<3>: <3> does not fit fold, which has <Mode M, int N = 4>"):
        build(text, "fold.cu", "fold<3>")
    with pytest.raises(cuda.CompileError, match="either<int>: several functions have this name"):
        build(text, "fold.cu", "either<int>")


@pytest.mark.parametrize(
    "declared, error", [("float x[N]", "N.*"), ("Missing x", "Missing.*"), ("float x[blockDim.x]", ".*")]
)
def test_a_wrong_shared_declaration_is_one_error_at_its_line(declared: str, error: str) -> None:
    text = f"__global__ void k(float* y) {{\n  __shared__ {declared};\n  y[0] = 1;\n}}\n"
    with pytest.raises(cuda.CompileError) as raised:
        build(text, "shared.cu", "k")
    heading, *lines = str(raised.value).splitlines()
    assert heading == "shared.cu: kernel k does not compile:"
    assert re.match(f"shared.cu:2: error: .*{error}", lines[0])
    assert lines[1:] == [f"    __shared__ {declared};"]


def test_a_missing_template_argument_is_named() -> None:
    missing = r"fill<float>: no template argument for int N; deep::er::fill has <typename T, int N>"
    with pytest.raises(cuda.CompileError, match=missing):
        build(NAMES, "names.cu", "deep::er::fill<float>")


def test_a_second_build_uses_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "__global__ void once(int* x) { x[0] = 1; }"
    first = build(text, "once.cu", "once")

    def refuse(*_: object) -> None:
        raise RuntimeError("compiled again")

    monkeypatch.setattr(compiler, "_compile", refuse)
    assert build(text, "once.cu", "once") == first
    with pytest.raises(RuntimeError, match="compiled again"):
        build(text, "once.cu", "once", define={"N": 2})


TOGETHER = """
template <int N> __global__ void fill(int* x) { x[threadIdx.x] = N; }
template <int N> __global__ void past_the_end(int* x) { x[N] = 1; }
"""


def test_kernels_of_a_source_are_built_by_one_compiler_run(monkeypatch: pytest.MonkeyPatch) -> None:
    module = cuda.load(TOGETHER)
    expressions = ["fill<1>", "fill<2>", "past_the_end<2>"]
    build_together(module[expression] for expression in expressions)
    monkeypatch.setattr(compiler, "_compile", None)
    builds = [module[expression].build() for expression in expressions]
    assert len({made.library for made in builds}) == 1
    assert [made.entry for made in builds] == [0, 1, 2]
    x = np.zeros(2, np.int32)
    module["fill<2>"][1, 2](x)
    assert x.tolist() == [2, 2]
    finding = module["past_the_end<2>"][1, 1].check(x)[0]
    assert finding.kind is cuda.OutOfBounds and finding.kernel == "past_the_end<2>"
    assert finding.access is not None and finding.access.line == 3


@pytest.mark.parametrize(
    "text",
    [
        "template <int N> __global__ void k(int* x) { static_assert(N < 3); x[0] = N; }",
        "__device__ int calls; template <int N> __global__ void k(int* x) { x[0] = ++calls; }",
        "template <int N> __global__ void k(int* x) { int sum; for (int i = 0; i < N; ++i) sum += x[i]; x[0] = sum; }",
    ],
    ids=["one does not compile", "global variables", "an uninitialised variable"],
)
def test_kernels_that_are_built_one_by_one(text: str) -> None:
    module = cuda.load(text)
    build_together([module["k<1>"], module["k<2>"], module["k<3>"]])
    assert module["k<1>"].build().library != module["k<2>"].build().library


def test_definitions_target_and_arch() -> None:
    text = "__global__ void k(int* x) { x[0] = N; x[1] = __CUDA_ARCH__; x[2] = FLAG; }"
    made = cuda.load(text, define={"N": 7, "FLAG": True}, target="sm_80")
    x = np.zeros(3, np.int32)
    made["k"][1, 1](x)
    assert x.tolist() == [7, 800, 1]
    with pytest.raises(cuda.CompileError, match="expected a target such as 'sm_90', got 'gfx90a'"):
        build(text, "k.cu", "k", target="gfx90a")


def test_user_headers(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "helper.cuh").write_text(
        '#pragma once\n#include "deep/more.h"\n#include <vector>\n'
        "template <int N> __global__ void from_header(int* x) {\n  __shared__ int s[N];\n  s[threadIdx.x] = FACTOR;\n"
        "  __syncthreads();\n  x[threadIdx.x] = s[N - 1 - threadIdx.x];\n}\n"
    )
    (tmp_path / "deep" / "more.h").write_text("#ifndef MORE\n#define MORE\n#define FACTOR 6\n#endif\n")
    text = '#include "helper.cuh"\n#include "helper.cuh"\n__global__ void mine(int* x) { x[0] = FACTOR; }\n'
    x = np.zeros(4, np.int32)
    cuda.load(text, include=[tmp_path])["from_header<4>"][1, 4](x)
    assert x.tolist() == [6, 6, 6, 6]
    (tmp_path / "deep" / "more.h").write_text("#define FACTOR 8\n")  # a changed header causes a new build
    cuda.load(text, include=[tmp_path])["mine"][1, 1](x)
    assert x[0] == 8


def test_an_error_shows_the_users_line_and_text() -> None:
    with pytest.raises(cuda.CompileError) as caught:
        build("__global__ void k(float* x) {\n  x[0] = missing;\n}\n", "folder/wrong.cu", "k")
    assert "folder/wrong.cu:2: error: ‘missing’ was not declared in this scope" in str(caught.value)
    assert "x[0] = missing;" in str(caught.value)


def test_a_missing_brace_is_reported_once_at_the_brace_that_is_open():
    with pytest.raises(cuda.CompileError) as caught:
        build("\n__global__ void k(float* x) {\n  if (threadIdx.x < 8) {\n    x[0] = 1;\n}\n", "k.cu", "k")
    assert str(caught.value) == (
        "k.cu: kernel k does not compile:\nk.cu:2: error: this '{' has no matching '}'\n"
        "    __global__ void k(float* x) {"
    )
    assert "warpwise_device" not in str(caught.value)


def test_an_error_in_a_header_gives_its_file(tmp_path: Path) -> None:
    (tmp_path / "bad.cuh").write_text("#define OK 1\n\n__device__ int f() { return nothing; }\n")
    with pytest.raises(cuda.CompileError, match=r"bad\.cuh:3: error: ‘nothing’ was not declared"):
        build('#include "bad.cuh"\n__global__ void k(int* x) { x[0] = f(); }', "k.cu", "k", include=[tmp_path])


@pytest.mark.parametrize(
    "text, expression, message",
    [
        ("__global__ void scale(float* x) {}", "scael", "no kernel 'scael'; did you mean scale"),
        ("int main() {}", "k", "no __global__ function in this source"),
        ("__global__ void k(float* x) {}", "3", "is not a kernel's name"),
        ("template <int N> __global__ void k(float* x) { x[0] = N; }", "k<float>", "k<float>"),
        ("__global__ void k(float* x);", "k", "declared, but defined neither in this file"),
    ],
    ids=["typo", "none", "number", "argument", "undefined"],
)
def test_expressions_that_are_not_kernels_raise(text: str, expression: str, message: str) -> None:
    with pytest.raises(cuda.CompileError) as caught:
        build(text, "k.cu", expression)
    assert message in str(caught.value)


def test_an_unsupported_library_raises_only_if_it_is_used() -> None:
    text = (
        "#include <cute/tensor.hpp>\n__global__ void uses(float* x) {\n  typedef cute::Int<32> Size;\n}\n"
        "__global__ void plain(float* x) { x[0] = 1; }\n"
    )
    with pytest.raises(cuda.UnsupportedFeature, match=r"k\.cu:3: kernel uses uses cute"):
        build(text, "k.cu", "uses")
    assert build(text, "k.cu", "plain").sizes == (8,)


def test_a_missing_compiler_raises_with_install_advice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WARPWISE_CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(cuda.CompileError, match=r"install g\+\+"):
        toolchain.command()
    monkeypatch.setenv("WARPWISE_CXX", "no-such-compiler -m64")
    with pytest.raises(cuda.CompileError, match="no-such-compiler"):
        toolchain.command()


def test_constants_are_exported_with_their_sizes() -> None:
    text = (
        "namespace n { __constant__ float w[8]; }\n"
        "__global__ void k(float* x) { x[threadIdx.x] = n::w[threadIdx.x]; }\n"
    )
    module = cuda.load(text)
    module.set_constant("n::w", np.arange(8, dtype=np.float32))
    x = np.zeros(8, np.float32)
    module["k"][1, 8](x)
    np.testing.assert_array_equal(x, np.arange(8))


def test_fma_contraction() -> None:
    """a * b + c is rounded once: (1 + 2^-12)^2 - 1 keeps the term 2^-24."""
    text = "__global__ void k(float* x) { x[1] = x[0] * x[0] - 1.0f; x[2] = __fadd_rn(__fmul_rn(x[0], x[0]), -1.0f); }"
    for checks in ("all", "none"):
        x = np.array([1 + 2.0**-12, 0, 0], np.float32)
        cuda.load(text)["k"][1, 1](x, checks=checks)
        assert x[1] == np.float32(2.0**-11 + 2.0**-24)
        assert x[2] == np.float32(2.0**-11)


def test_local_arrays_may_be_read_as_vectors() -> None:
    """A common idiom: four halves in registers, loaded and stored by 8-byte accesses."""
    text = """#include <cuda_fp16.h>
__global__ void k(half* x, half* y) {
  half before, parts[4], after;
  *reinterpret_cast<float2*>(parts) = *reinterpret_cast<float2*>(x + 4 * threadIdx.x);
  before = parts[0];
  after = parts[3];
  parts[0] = after;
  parts[3] = before;
  *reinterpret_cast<float2*>(y + 4 * threadIdx.x) = *reinterpret_cast<float2*>(parts);
}
"""
    x, y = np.arange(16, dtype=np.float16), np.empty(16, np.float16)
    cuda.load(text)["k"][1, 4](x, cuda.out(y))
    assert y.reshape(4, 4).tolist() == [[4 * i + 3, 4 * i + 1, 4 * i + 2, 4 * i] for i in range(4)]
