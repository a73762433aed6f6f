"""A first CUDA extension: a kernel, a C++ function that launches it on tensors, and one Python call.

On a machine with a GPU, nvcc builds the source, which runs on the GPU. On any other machine g++ builds the C++ part of
the same source, and the kernel is emulated with every access checked.

    python examples/square_matrix.py
"""

import torch

from warpwise.cuda import load_inline

CUDA_SOURCE = r"""
// result[row][col] = matrix[row][col]^2, one thread per element.
__global__ void square_matrix_kernel(const float* matrix, float* result, int width, int height) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < height && col < width) {
    const int index = row * width + col;
    result[index] = matrix[index] * matrix[index];
  }
}

torch::Tensor square_matrix(torch::Tensor matrix) {
  TORCH_CHECK(matrix.is_cuda(), "matrix: expected a CUDA tensor");
  TORCH_CHECK(matrix.dim() == 2 && matrix.is_contiguous(), "matrix: expected a contiguous (height, width)");
  TORCH_CHECK(matrix.scalar_type() == torch::kFloat32, "matrix: expected float32, got ", matrix.scalar_type());
  const auto height = matrix.size(0);
  const auto width = matrix.size(1);
  auto result = torch::empty_like(matrix);

  const dim3 threads(16, 16);
  const dim3 blocks((width + threads.x - 1) / threads.x, (height + threads.y - 1) / threads.y);
  square_matrix_kernel<<<blocks, threads>>>(matrix.data_ptr<float>(), result.data_ptr<float>(), width, height);
  return result;
}
"""
CPP_SOURCE = "torch::Tensor square_matrix(torch::Tensor matrix);"


def build():
    """Build the extension module, or load it from the cache."""
    return load_inline("square_matrix_extension", CPP_SOURCE, CUDA_SOURCE, functions=["square_matrix"])


def main() -> None:
    extension = build()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    matrix = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device=device)
    print(extension.square_matrix(matrix))
    large = torch.randn(100, 37, device=device)
    torch.testing.assert_close(extension.square_matrix(large), large * large)
    print(f"(100, 37) on {device}: equal to PyTorch")


if __name__ == "__main__":
    main()
