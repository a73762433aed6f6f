"""load_inline without a GPU: host code compiled by g++, kernels run and checked by the emulator."""

from pathlib import Path

import pytest
import torch
from examples import square_matrix
from tests.commands import python

from warpwise import cuda
from warpwise.cuda.inline import build, source
from warpwise.cuda.inline import load_inline as inline
from warpwise.cuda.inline.device_names import on_cpu

CUDA = r"""
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor")
#define CHECK_INPUT(x) CHECK_CUDA(x); TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")

__global__ void affine_kernel(const float* x, const float* bias, float* y, float scale, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * scale + (bias ? bias[i] : 0.0f);
}
torch::Tensor affine(torch::Tensor x, std::optional<torch::Tensor> bias, double scale) {
  CHECK_INPUT(x);
  const c10::cuda::CUDAGuard guard(x.device());
  auto y = torch::empty_like(x);
  const int n = x.numel();
  affine_kernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), bias ? bias->data_ptr<float>() : nullptr, y.data_ptr<float>(), scale, n);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

template <typename scalar_t>
__global__ void relu_kernel(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int64_t n) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = x[i] > scalar_t(0) ? x[i] : scalar_t(0);
}
torch::Tensor relu(const torch::Tensor& x) {
  CHECK_INPUT(x);
  auto y = torch::zeros_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "relu", ([&] {
    relu_kernel<scalar_t><<<(x.numel() + 63) / 64, 64>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), x.numel());
  }));
  return y;
}

namespace {
template <typename scalar_t>
__global__ void row_sum_kernel(
    const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> x,
    torch::PackedTensorAccessor32<scalar_t, 1, torch::RestrictPtrTraits> y, int past) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= x.size(0)) return;
  scalar_t sum = 0;
  for (int j = 0; j < x.size(1); j++) sum += x[row][j];
  y[row + past] = sum;
}
}  // namespace
torch::Tensor row_sum(torch::Tensor x, int64_t past) {
  auto y = torch::empty({x.size(0)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "row_sum", [&] {
    row_sum_kernel<scalar_t><<<1, 32>>>(
        x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
        y.packed_accessor32<scalar_t, 1, torch::RestrictPtrTraits>(), past);
  });
  return y;
}

__constant__ float weights[3];
__device__ int launches = 0;
__global__ void filter_kernel(const float* x, float* y, int n) {  // x points at the second element
  const int i = threadIdx.x;
  if (i < n) y[i] = weights[0] * x[i - 1] + weights[1] * x[i] + weights[2] * x[i + 1];
  if (i == 0) launches++;
}
std::tuple<torch::Tensor, int64_t> filter(torch::Tensor x, std::vector<double> given) {
  TORCH_CHECK_VALUE(given.size() == 3, "given: expected 3 weights, got ", given.size());
  const float host[3] = {float(given[0]), float(given[1]), float(given[2])};
  cudaMemcpyToSymbol(weights, host, sizeof host);
  const int n = x.numel() - 2;
  auto y = torch::empty({n}, torch::TensorOptions().dtype(torch::kFloat32).device(torch::kCUDA));
  filter_kernel<<<1, n>>>(x.data_ptr<float>() + 1, y.data_ptr<float>(), n);
  int count = 0;
  cudaMemcpyFromSymbol(&count, launches, sizeof count);
  return {y, count};
}

__global__ void fill_kernel(int* values, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) values[i] = i;
}
std::vector<torch::Tensor> fill(int64_t n, int64_t room) {
  int* device = nullptr;
  TORCH_CHECK(cudaMalloc(&device, room * sizeof(int)) == cudaSuccess);
  fill_kernel<<<(n + 31) / 32, dim3(32)>>>(device, n);
  auto host = torch::empty({n}, torch::kInt32);
  TORCH_CHECK(cudaMemcpy(host.data_ptr<int>(), device, n * sizeof(int), cudaMemcpyDeviceToHost) == cudaSuccess);
  cudaFree(device);
  return {host, torch::full({1}, n, torch::kInt64)};
}

struct Plus { __device__ __half operator()(__half a, __half b) const { return __hadd(a, b); } };
template <class T, class F>
__global__ void apply_kernel(const T* a, const T* b, T* y, F f, T scale) {
  y[threadIdx.x] = f(a[threadIdx.x], b[threadIdx.x]) * scale;
}
torch::Tensor add_half(torch::Tensor a, torch::Tensor b) {
  auto y = torch::empty_like(a);
  auto* pointer = reinterpret_cast<__half*>(y.data_ptr<at::Half>());
  apply_kernel<<<1, a.numel()>>>(  // the template's arguments are deduced
      reinterpret_cast<const __half*>(a.data_ptr<at::Half>()), reinterpret_cast<const __half*>(b.data_ptr<at::Half>()),
      pointer, Plus(), __float2half(2.0f));
  return y;
}

__global__ void large_kernel(float* y) {
  extern __shared__ float tile[];
  tile[threadIdx.x] = 1.0f;
  y[threadIdx.x] = tile[threadIdx.x];
}
template <typename T>
__global__ void copy_kernel(const T* x, T* y) { y[threadIdx.x] = x[threadIdx.x]; }
void launch(torch::Tensor y, int64_t grid, int64_t block, int64_t shared_bytes, bool opt_in) {
  if (opt_in) cudaFuncSetAttribute(large_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  large_kernel<<<grid, block, shared_bytes>>>(y.data_ptr<float>());
}
torch::Tensor copy_unwritten(torch::Tensor like) {
  auto x = torch::empty_like(like), y = torch::empty_like(like);
  copy_kernel<<<1, 8>>>(static_cast<const float*>(x.data_ptr<float>()), y.data_ptr<float>());
  return y;
}

__global__ void add_to(float* y, float value) { y[threadIdx.x] += value; }
__global__ void add_to(int* y, int value) { y[threadIdx.x] += value; }
void add_overloaded(torch::Tensor floats, torch::Tensor integers) {
  add_to<<<1, 4>>>(floats.data_ptr<float>(), 0.5f);
  add_to<<<1, 4>>>(integers.data_ptr<int>(), 2);
}
"""

CPP = r"""
torch::Tensor affine(torch::Tensor x, std::optional<torch::Tensor> bias, double scale);
torch::Tensor relu(const torch::Tensor& x);
torch::Tensor row_sum(torch::Tensor x, int64_t past);
std::tuple<torch::Tensor, int64_t> filter(torch::Tensor x, std::vector<double> given);
std::vector<torch::Tensor> fill(int64_t n, int64_t room);
void launch(torch::Tensor y, int64_t grid, int64_t block, int64_t shared_bytes, bool opt_in);
torch::Tensor copy_unwritten(torch::Tensor like);
torch::Tensor add_half(torch::Tensor a, torch::Tensor b);
void add_overloaded(torch::Tensor floats, torch::Tensor integers);
std::string describe(at::ScalarType dtype, std::optional<std::string> note) {
  return std::string(toString(dtype)) + note.value_or("");
}
"""
FUNCTIONS = {
    "affine": 'x * scale + bias, "elementwise"', "relu": "max(x, 0)", "row_sum": "sums of rows", "filter": "three taps",
    "fill": "0, 1, 2 ...", "launch": "any grid", "copy_unwritten": "reads memory that nobody wrote",
    "describe": "no kernel", "add_half": "2 (a + b)",
    "add_overloaded": "two kernels of one name",
}  # fmt: skip


@pytest.fixture(scope="module")
def extension():
    return cuda.load_inline("warpwise_test_features", CPP, CUDA, functions=FUNCTIONS, device="cpu")


def test_kernels_of_one_name(extension):
    floats, integers = torch.ones(4), torch.ones(4, dtype=torch.int32)
    extension.add_overloaded(floats, integers)
    assert floats.tolist() == [1.5] * 4 and integers.tolist() == [3] * 4


def line_of(text):
    return next(number for number, line in enumerate(CUDA.splitlines(), 1) if text in line)


def prints_the_squares(capsys):
    square_matrix.main()
    return "16., 25., 36." in capsys.readouterr().out


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, which the example then takes")
def test_the_square_matrix_example(capsys):
    assert prints_the_squares(capsys)


@pytest.mark.gpu
def test_the_square_matrix_example_on_a_gpu(capsys, monkeypatch):
    assert prints_the_squares(capsys)
    monkeypatch.setattr(inline, "_loaded", {})
    monkeypatch.setattr(inline, "_build_by_torch", lambda *args: pytest.fail("nvcc was started again"))
    assert prints_the_squares(capsys)
    with pytest.raises(RuntimeError, match="expected a CUDA tensor"):
        square_matrix.build().square_matrix(torch.ones(2, 2))


@pytest.mark.gpu
def test_an_nvcc_error_is_a_compile_error():
    with pytest.raises(cuda.CompileError, match="wrong_name"):
        cuda.load_inline("warpwise_test_nvcc", "void f();", "void f() { wrong_name; }", functions="f")


@pytest.mark.parametrize("n", [1, 255, 256, 1000])
def test_optional_tensor_and_scalars(extension, n):
    x, bias = torch.randn(n), torch.randn(n)
    torch.testing.assert_close(extension.affine(x, bias, 2.5), x * 2.5 + bias)
    torch.testing.assert_close(extension.affine(x, None, 3), x * 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_template_under_dispatch(extension, dtype):
    x = torch.randn(130).to(dtype)
    torch.testing.assert_close(extension.relu(x), x.relu())


def test_dispatch_raises_for_an_unsupported_dtype_as_in_pytorch(extension):
    with pytest.raises(RuntimeError, match="not implemented for 'Int'"):
        extension.relu(torch.ones(3, dtype=torch.int32))


def test_torch_check_raises(extension):
    with pytest.raises(RuntimeError, match="x must be contiguous"):
        extension.affine(torch.ones(4, 4).t()[1:], None, 1.0)
    with pytest.raises(ValueError, match="expected 3 weights, got 2"):
        extension.filter(torch.ones(5), [1.0, 2.0])


def test_half_precision_and_a_functor_by_value(extension):
    a, b = torch.randn(20).half(), torch.randn(20).half()
    torch.testing.assert_close(extension.add_half(a, b), (a + b) * 2)


def test_packed_accessors_are_checked(extension):
    x = torch.randn(8, 5, dtype=torch.float64)[:, 1:4]
    torch.testing.assert_close(extension.row_sum(x, 0), x.sum(1))
    with pytest.raises(cuda.OutOfBounds) as caught:
        extension.row_sum(x, 1)
    finding = caught.value.finding
    assert (finding.variable, finding.index, finding.size) == ("y", 8, 8)


def test_constants_globals_and_pointers_to_inner_elements(extension):
    x = torch.arange(10.0)
    y, first = extension.filter(x, [1.0, -2.0, 4.0])
    torch.testing.assert_close(y, x[:-2] - 2 * x[1:-1] + 4 * x[2:])
    _, second = extension.filter(x, [0.0, 0.0, 0.0])
    assert second == first + 1


def test_an_access_past_the_end_reports_the_line(extension):
    with pytest.raises(cuda.OutOfBounds) as caught:
        extension.fill(40, 40)
    finding = caught.value.finding
    assert (finding.variable, finding.index, finding.size) == ("values", 40, 40)
    assert finding.access.file == "warpwise_test_features.cu"
    assert finding.access.line == line_of("if (i <= n) values[i] = i;")
    assert finding.access.text == "if (i <= n) values[i] = i;"
    here = Path(__file__).read_text().splitlines()
    line = next(number for number, text in enumerate(here, 1) if finding.access.text in text)
    assert finding.access.origin == f"test_inline.py:{line}"
    assert "fill_kernel" in str(caught.value)


def test_device_memory_from_cudamalloc(extension):
    values, count = extension.fill(40, 64)
    assert values.tolist() == list(range(40))
    assert count.item() == 40


def test_memory_from_torch_empty_is_uninitialised(extension):
    with pytest.raises(cuda.UninitializedRead, match="copy_kernel"):
        extension.copy_unwritten(torch.ones(8))


@pytest.mark.parametrize(
    "grid, block, shared_bytes, message",
    [
        (0, 32, 0, "grid.x is 0"),
        (1, 2048, 0, "2,048"),
        (1, 32, 50_000, "cudaFuncSetAttribute"),
        (1, 32, 500_000, "500,000"),
    ],
)
def test_launches_beyond_the_device_limits_raise(extension, grid, block, shared_bytes, message):
    with pytest.raises(cuda.LaunchError, match=message):
        extension.launch(torch.zeros(32), grid, block, shared_bytes, False)


def test_dynamic_shared_memory_after_opt_in(extension):
    y = torch.zeros(32)
    extension.launch(y, 1, 32, 60_000, True)
    assert y.sum().item() == 32


def test_functions_have_docstrings_and_check_their_arguments(extension):
    assert extension.affine.__doc__.startswith(
        "affine(arg0: torch.Tensor, arg1: Optional[torch.Tensor], arg2: float) -> torch.Tensor"
    )
    assert 'x * scale + bias, "elementwise"' in extension.affine.__doc__
    assert extension.describe(torch.float16, "!") == "Half!"
    assert extension.describe(torch.bool, None) == "Bool"
    with pytest.raises(TypeError, match="incompatible function arguments"):
        extension.affine(1.0, None, 2.0)
    with pytest.raises(TypeError, match="Invoked with types: Tensor, float"):
        extension.row_sum(torch.ones(2, 2), 1.0)


def test_the_same_sources_are_loaded_once(extension, monkeypatch):
    monkeypatch.setattr(build, "run", lambda *args: pytest.fail("a compiler was started"))
    assert cuda.load_inline("warpwise_test_features", CPP, [CUDA], functions=FUNCTIONS, device="cpu") is extension


def test_another_process_uses_the_cached_build(extension):
    script = (
        "from tests.cuda.test_inline import *\n"
        "from warpwise.cuda.inline import build\n"
        "build.extension = None\n"
        "made = cuda.load_inline('warpwise_test_features', CPP, CUDA, functions=FUNCTIONS, device='cpu')\n"
        "print(made.fill(3, 4)[0].tolist())"
    )
    done = python(script)
    assert done.stdout.strip() == "[0, 1, 2]", done.stderr


def test_user_defined_bindings():
    module = cuda.load_inline(
        "warpwise_test_bindings",
        """
        torch::Tensor scaled(torch::Tensor x, double by, at::IntArrayRef shape) { return (x * by).reshape(shape); }
        int64_t total(std::vector<int64_t> values) { int64_t sum = 0; for (auto v : values) sum += v; return sum; }
        PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
          m.doc() = "two functions";
          m.def("scaled", &scaled, "x * by", py::arg("x"), py::arg("by") = 2.0, py::arg("shape"));
          m.def("total", &total);
          m.def("is_cuda", [](const at::Tensor& x) { return x.is_cuda(); });
        }
        """,
        device="cpu",
    )
    assert module.__doc__ == "two functions"
    assert module.scaled(torch.ones(4), shape=[2, 2]).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert module.total((1, 2, 3)) == 6
    # Without CUDA sources, the CPU is not presented as a CUDA device.
    assert module.is_cuda(torch.ones(1)) is False


def test_an_error_in_host_code_reports_its_line():
    with pytest.raises(cuda.CompileError, match=r"warpwise_test_error\.cpp:3:.*\n?.*wrong_name"):
        cuda.load_inline(
            "warpwise_test_error", "\nint64_t f(int64_t x) {\n  return wrong_name + x;\n}", functions="f", device="cpu"
        )


def test_an_error_in_a_kernel_reports_its_line_alone():
    kernel = (
        "#include <torch/extension.h>\n__global__ void k(float* x) { x[threadIdx.x] = wrong_name; }\n"
        "void f(torch::Tensor x) { k<<<1, 1>>>(x.data_ptr<float>()); }"
    )
    with pytest.raises(cuda.CompileError, match=r"warpwise_test_kernel\.cu:2:.*wrong_name") as raised:
        cuda.load_inline("warpwise_test_kernel", "void f(torch::Tensor x);", kernel, functions="f", device="cpu")
    assert str(raised.value).endswith("\n    __global__ void k(float* x) { x[threadIdx.x] = wrong_name; }")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"name": "not-a-name", "cpp_sources": ""}, "identifier"),
        ({"name": "a", "cpp_sources": "", "functions": 3}, "functions"),
        ({"name": "a", "cpp_sources": "", "device": "tpu"}, "device"),
        ({"name": "a", "cpp_sources": "", "build_directory": "/no/such/folder", "device": "cpu"}, "build_directory"),
    ],
)
def test_invalid_arguments_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        cuda.load_inline(**arguments)


def test_line_numbers_do_not_change():
    made = on_cpu(source.host_code(CUDA, "x.cu"))
    body = made.split('\n#line 1 "<variables>"')[0]
    assert body.count("\n") == CUDA.count("\n")
    numbered = dict(enumerate(body.splitlines(), 1))
    for text in ("torch::Tensor affine(", "std::vector<torch::Tensor> fill(", "torch::Tensor copy_unwritten("):
        assert text in numbered[line_of(text)]
