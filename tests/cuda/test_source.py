"""Parsing of CUDA sources: tokens, declarations of kernels, and removal of host code."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpwise import cuda
from warpwise.cuda.inline.source import host_code
from warpwise.cuda.source.device_code import device_code, prune
from warpwise.cuda.source.kernels import kernel_of, kernels
from warpwise.cuda.source.lexer import Lines, lex, split

HARD = r"""
#include <cuda_runtime.h>
#define TEXT "// not a comment"
auto raw = R"x(an " unbalanced { quote )y" )x";
char quote = '"', brace = '{', slash = '\'';
int million = 1'000'000;  // an apostrophe isn't a character
/* a { brace in
   a comment */
int after = 0x1p-3 > .5e+3;
"""


def test_strings_characters_and_comments_are_single_tokens() -> None:
    tokens = lex(HARD)
    kinds = {token.text: token.kind for token in tokens}
    assert kinds['R"x(an " unbalanced { quote )y" )x"'] == "string"
    assert kinds["'{'"] == "character"
    assert kinds["1'000'000"] == "number"
    assert kinds["0x1p-3"] == "number"
    assert kinds['#define TEXT "// not a comment"'] == "directive"
    assert not any(token.text == "{" for token in tokens)


def test_a_directive_includes_its_continuation_lines() -> None:
    tokens = lex("#define A(x) \\\n  do { x } \\\n  while (0)\nint y;")
    assert tokens[0].kind == "directive"
    assert tokens[0].text.endswith("while (0)")
    assert [token.text for token in tokens[1:]] == ["int", "y", ";"]


@given(st.text(alphabet="ab {}()<>\"'/*\\#\n;1.:", max_size=60))
def test_tokens_are_in_the_order_of_the_text(text: str) -> None:
    position = 0
    for token in lex(text):
        assert token.start >= position
        assert text[token.start : token.end] == token.text
        position = token.end


def test_line_directives() -> None:
    text = 'a\n#line 40 "other.cuh"\nb\nc\n# 7 "back.cu" 2\nd\n'
    lines = Lines(text, "first.cu")
    assert [lines.at(text.index(letter + "\n")) for letter in "abcd"] == [
        ("first.cu", 1),
        ("other.cuh", 40),
        ("other.cuh", 41),
        ("back.cu", 7),
    ]


def test_split_respects_brackets_and_template_arguments() -> None:
    parts = split(lex("std::pair<int, float> a, f(b, c), d[1, 2]", directives=False))
    assert ["".join(token.text for token in part) for part in parts] == ["std::pair<int,float>a", "f(b,c)", "d[1,2]"]


KERNELS = """
#define THREADS (32 * 8)
#define GLOBAL extern "C" __global__
__global__ void plain(const float* __restrict__ x, float y[], int n);
__global__ void plain(const float* __restrict__ x, float y[], int n) { y[0] = x[n]; }
template <typename T, int N = 4>
static __global__ __launch_bounds__(THREADS, 2) void tuned(T* out, unsigned long long count = 3) {}
namespace a { namespace { __global__ void inner(half2 *const p) {} } }
namespace a::b { void __global__ other(int (*table)[16], void) {} }
GLOBAL void named(dim3 size) {}
// __global__ void commented(int) {}
const char* text = "__global__ void quoted(int) {}";
"""


def test_kernels_with_their_parameters_bounds_and_lines() -> None:
    found = kernels(KERNELS)
    assert list(found) == ["plain", "tuned", "a::inner", "a::b::other", "named"]
    assert found["plain"].parameters == (("const float* __restrict__", "x"), ("float*", "y"), ("int", "n"))
    assert found["plain"].line == 5
    assert found["tuned"].parameters == (("T*", "out"), ("unsigned long long", "count"))
    assert found["tuned"].launch_bounds == 256
    assert found["tuned"].template
    assert found["a::inner"].parameters == (("half2* const", "p"),)
    assert not found["plain"].template
    assert found["plain"].launch_bounds is None


@pytest.mark.parametrize(
    "parameter, expected",
    [
        ("int half", ("int", "half")),
        ("half half", ("half", "half")),
        ("const half", ("const half", "")),
        ("unsigned int", ("unsigned int", "")),
        ("const ns::T", ("const ns::T", "")),
        ("struct S s", ("struct S", "s")),
        ("float* __restrict__ const out", ("float* __restrict__ const", "out")),
        ("const float (*in)[32]", ("const float (*)[32]", "in")),
        ("T (* const __restrict__ rows)[N][4]", ("T (* const __restrict__)[N][4]", "rows")),
        ("int (*)[3]", ("int (*)[3]", "")),
        ("const int (&n)", ("const int (&)", "n")),
        ("float x[2][3]", ("float**", "x")),
    ],
)
def test_the_name_of_a_parameter_is_its_last_identifier_after_a_type(parameter: str, expected: tuple[str, str]) -> None:
    assert kernels(f"__global__ void k({parameter}) {{}}")["k"].parameters == (expected,)


def test_a_kernel_defined_with_a_qualified_name_has_its_namespaces() -> None:
    found = kernels("""
        namespace sort { __global__ void scan(int* x); namespace pairs { template <int n> __global__ void move(); } }
        __global__ void sort::scan(int* sums) {}
        namespace sort { template <int n> __global__ void pairs::move() {} }
        __global__ void ::plain(int n) {}
        template <> __global__ void sort::pairs::move<3>() {}
    """)
    assert list(found) == ["sort::scan", "sort::pairs::move", "plain"]
    assert found["sort::scan"].parameters == (("int*", "sums"),)


@pytest.mark.parametrize(
    "expression, name",
    [
        ("tuned<float, 4>", "tuned"),
        ("a::b::other", "a::b::other"),
        ("::plain", "plain"),
        ("inner", "a::inner"),
        ("nothing", None),
    ],
)
def test_kernel_of_a_name_expression(expression: str, name: str | None) -> None:
    kernel = kernel_of(expression, kernels(KERNELS))
    assert (kernel.name if kernel else None) == name


HOST = """\
#include <iostream>
#include <vector>
#include "cuda_fp16.h"
#include <torch/extension.h>
#define CHECK(call) do { auto e = (call); if (e) exit(1); } while (0)
#define HD __host__ __device__
struct Settings { std::vector<int> sizes; };
struct Shape {
  int rows, columns;
  HD int count() const { return rows * columns; }
  void print() const { std::cout << rows; }
};
static const float table[] = {1.0f, 2.0f};
static const float unused[] = {3.0f};
constexpr int tile(int n) { return n * 2; }
int ceil_div(int a, int b) { return (a + b - 1) / b; }
template <typename T> __device__ T twice(T x) { return x + x; }
__global__ void kernel(Shape s, float* out) { out[0] = twice(table[0]) * s.count() * tile(4); }
__global__ void other(half* h) { h[0] = __float2half(unused[0]); }
int main() {
  std::vector<float> host(4);
  kernel<<<1, 1>>>(Shape{1, 2}, nullptr);
  if (host.size() > 3) { CHECK(cudaDeviceSynchronize()); }
}
PYBIND11_MODULE(name, m) { m.def("main", &main); }
"""


def test_device_code_keeps_line_numbers() -> None:
    code = device_code(HOST)
    assert code.count("\n") == HOST.count("\n")
    for line, (kept, original) in enumerate(zip(code.split("\n"), HOST.split("\n"), strict=True), start=1):
        assert kept.strip() in original or "cuda_bf16" in kept, line


def test_device_code_removes_host_code_that_kernels_do_not_use() -> None:
    code = device_code(HOST)
    for gone in ("iostream", "vector", "Settings", "main", "ceil_div", "PYBIND11_MODULE", "print", "torch/"):
        assert gone not in code, gone
    for kept in (
        "cuda_fp16.h",
        "struct Shape",
        "count()",
        "table[]",
        "unused[]",
        "constexpr int tile",
        "twice",
        "#define HD",
    ):
        assert kept in code, kept


def test_prune_keeps_the_dependencies_of_a_kernel() -> None:
    code = prune(HOST, {"kernel"})
    assert "void kernel" in code
    assert "twice" in code
    assert "void other" not in code
    assert "unused[]" not in code


def test_torch_headers_declare_half_types() -> None:
    code = device_code("#include <torch/types.h>\n__global__ void k(half* x) { x[0] = x[1]; }\n")
    assert code.startswith("#include <cuda_bf16.h>")


@pytest.mark.parametrize(
    "text, kept",
    [
        (
            (
                "struct V { float x; };\n__device__ V& operator+=(V& a, V b) { return a; }\n"
                "__global__ void k(V v) { v += v; }"
            ),
            "operator+=",
        ),
        (
            "struct V { __device__ float operator()(int i) const { return i; } };\n__global__ void k(V v) { v(1); }",
            "operator()",
        ),
        ("auto f = [] __device__ (int x) { return x; };\n__global__ void k(int* p) { p[0] = f(1); }", "auto f"),
        ("enum Mode { FAST, SLOW };\n__global__ void k(int* p) { p[0] = SLOW; }", "enum Mode"),
        ("using real = float;\ntypedef real (*function)(real);\n__global__ void k(function f) {}", "using real"),
        ("#if 0\nint broken( {\n#endif\n__global__ void k(int* p) {}", "void k"),
        (
            (
                "#ifdef A\n__global__ void k(int* p) {\n#else\n__global__ void k(float* p) {\n#endif\n p[0] = 1; }\n"
                "int main() {}"
            ),
            "p[0] = 1",
        ),
        ("#define MAKE(T) __global__ void k_##T(T* p) { p[0] = 1; }\nMAKE(float)\nint main() {}", "MAKE(float)"),
        (
            (
                "template <> __device__ int f<int>(int x);\ntemplate <> __device__ int f<int>(int x) { return x; }\n"
                "__global__ void k() { f<int>(1); }"
            ),
            "f<int>",
        ),
    ],
    ids=["operator", "call", "lambda", "enum", "alias", "if0", "branches", "macro", "specialisation"],
)
def test_declarations_that_kernels_use_are_kept(text: str, kept: str) -> None:
    code = prune(text, {"k", "k_float"})
    assert kept in code
    assert "main" not in code


def test_a_using_declaration_is_kept_with_the_names_that_it_introduces() -> None:
    source = """
    namespace lib {
    __device__ float used() { return 1.0f; }
    __device__ float unused() { return 2.0f; }
    struct Host { void* memory; };
    }
    using lib::used, lib::unused;
    using lib::Host;
    using namespace lib;
    __global__ void k(float* out) { *out = used(); }
    """
    kept = prune(source, {"k"})
    assert "using lib::used, lib::unused;" in kept and "float unused()" in kept and "using namespace lib;" in kept
    assert "Host" not in kept


def test_pragmas_of_removed_declarations_are_removed() -> None:
    text = """#pragma nv_exec_check_disable
template <class F> __host__ __device__ void call(F f) { f(); }
struct Unused {
#pragma hd_warning_disable
  template <class F> __host__ __device__ static void call(F f) { f(); }
};
#pragma unroll
__global__ void k(int* x) { x[0] = 1; }
"""
    pruned = prune(text, ["k"])
    assert "disable" not in pruned and "#pragma unroll" in pruned and pruned.count("\n") == text.count("\n")


PROTOTYPES = """
typedef char Yes;
struct No { char x[2]; };
template <typename T> Yes has_type(typename T::type*);
template <typename T> No has_type(...);
double precise(float x);
torch::Tensor precise(torch::Tensor x);
int print(float x);
int bytes(const char* of);
#define RESULT(x) decltype(precise(x))
template <typename T> struct Traits { static const bool value = sizeof(has_type<T>(0)) == sizeof(Yes); };
struct A { using type = int; };
__global__ void k(float* out, int print) {
  RESULT(1.0f) sum = print;
  out[0] = Traits<A>::value;
  out[1] = Traits<No>::value;
  out[2] = sizeof sum + sizeof(print);
  const int bytes = sizeof(float);
  out[3] = sizeof precise(out[bytes]) + bytes;
}
"""


def test_prototypes_of_host_functions_are_kept_for_the_types_of_their_results() -> None:
    code = prune(PROTOTYPES, ["k"])
    assert "Yes has_type" in code and "No has_type" in code and "double precise" in code
    assert "Tensor" not in code and "int print(" not in code and "int bytes(" not in code
    out = torch.zeros(4)
    module = cuda.load(PROTOTYPES.replace("\ntypedef", "\n#include <torch/torch.h>\ntypedef"))
    module["k"][1, 1](out, 3)
    assert out.tolist() == [1.0, 0.0, 12.0, 12.0]


def test_a_macro_that_declares_the_kernel_of_its_argument() -> None:
    text = """
#define TIMER(...)
#define KERNEL(name) extern "C" __global__ void name
KERNEL(scale)(float* x, int n) {
  TIMER("scale");
  if (threadIdx.x < n) x[threadIdx.x] *= 2;
}
KERNEL(shift)(float* x) {
  TIMER("shift");
  x[threadIdx.x] += 1;
}
void host(float* x) { scale<<<1, 4>>>(x, 3); }
"""
    assert {name: each.parameters for name, each in kernels(text).items()} == {
        "scale": (("float*", "x"), ("int", "n")),
        "shift": (("float*", "x"),),
    }
    assert "+= 1" in (pruned := prune(text, {"shift"})) and "host" not in pruned
    assert "static_cast<void (*)(" in (host := host_code(text, "x.cu")) and ">(&scale)>(ww_names, x, n)" in host
    x = torch.ones(4)
    module = cuda.load(text)
    module["scale"][1, 4](x, 3)
    module["shift"][1, 4](x)
    assert x.tolist() == [3.0, 3.0, 3.0, 2.0]
