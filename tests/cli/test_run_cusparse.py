"""``warpwise run``: cuSPARSE's generic API, compared with NumPy."""

from __future__ import annotations

import numpy as np
from tests.commands import command

PROGRAM = """
#include <cstdio>
#include <cusparse.h>
template <class T, size_t N>
static T* device(const T (&values)[N]) {
  T* made;
  cudaMalloc(&made, sizeof values);
  cudaMemcpy(made, values, sizeof values, cudaMemcpyHostToDevice);
  return made;
}
static void show(const float* values, int count) {
  float h[16];
  cudaMemcpy(h, values, count * sizeof(float), cudaMemcpyDeviceToHost);
  for (int i = 0; i < count; i++) printf("%g ", h[i]);
  printf("\\n");
}
int main() {
  // [[2, 0, 0, 1], [3, 4, 0, 0], [0, 5, 6, 0]]
  const int offsets[4] = {0, 2, 4, 6}, columns[6] = {0, 3, 0, 1, 1, 2}, rows[6] = {1, 1, 2, 2, 3, 3};
  const int from_one[6] = {1, 4, 1, 2, 2, 3};
  const float values[6] = {2, 1, 3, 4, 5, 6}, ones[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  float *v = device(values), *x = device(ones), *y = device(ones), alpha = 2, beta = -1, zero = 0;
  int *o = device(offsets), *c = device(columns);
  cusparseHandle_t handle;
  cusparseSpMatDescr_t a, coo;
  cusparseDnVecDescr_t dx, dy;
  cusparseDnMatDescr_t b, d;
  cusparseCreate(&handle);
  cusparseCreateCsr(&a, 3, 4, 6, o, c, v, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F);
  cusparseCreateCoo(&coo, 3, 4, 6, device(rows), device(from_one), v, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ONE,
                    CUDA_R_32F);
  cusparseCreateDnVec(&dx, 4, x, CUDA_R_32F);
  cusparseCreateDnVec(&dy, 3, y, CUDA_R_32F);
  size_t bytes;
  void* buffer;
  cusparseSpMV_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha, a, dx, &beta, dy, CUDA_R_32F,
                          CUSPARSE_SPMV_ALG_DEFAULT, &bytes);
  cudaMalloc(&buffer, bytes);
  cusparseSpMV(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha, a, dx, &beta, dy, CUDA_R_32F,
               CUSPARSE_SPMV_ALG_DEFAULT, buffer);
  show(y, 3);
  cusparseSpMV(handle, CUSPARSE_OPERATION_TRANSPOSE, &alpha, coo, dy, &zero, dx, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT,
               buffer);
  show(x, 4);
  cudaMemcpy(x, ones, sizeof ones, cudaMemcpyHostToDevice);
  cusparseCreateDnMat(&b, 4, 2, 2, x, CUDA_R_32F, CUSPARSE_ORDER_ROW);
  cusparseCreateDnMat(&d, 3, 2, 3, y, CUDA_R_32F, CUSPARSE_ORDER_COL);
  cusparseSpMM(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha, a, b, &zero, d,
               CUDA_R_32F, CUSPARSE_SPMM_ALG_DEFAULT, buffer);
  show(y, 6);
  cusparseSDDMM(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_TRANSPOSE, &alpha, d, b, &beta, a,
                CUDA_R_32F, CUSPARSE_SDDMM_ALG_DEFAULT, buffer);
  show(v, 6);
  // lower triangle of [[2], [3, 4], [., 5, 6]] as the first three columns
  cudaMemcpy(v, values, sizeof values, cudaMemcpyHostToDevice);
  cusparseSpMatDescr_t square;
  cusparseCreateCsr(&square, 3, 3, 6, o, c, v, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                    CUDA_R_32F);
  cusparseFillMode_t lower = CUSPARSE_FILL_MODE_LOWER;
  cusparseSpMatSetAttribute(square, CUSPARSE_SPMAT_FILL_MODE, &lower, sizeof lower);
  cusparseSpSVDescr_t solution;
  cusparseSpSV_createDescr(&solution);
  cusparseDnVecDescr_t right;
  cusparseCreateDnVec(&right, 3, x, CUDA_R_32F);
  cusparseSpSV_solve(handle, CUSPARSE_OPERATION_TRANSPOSE, &alpha, square, right, dy, CUDA_R_32F,
                     CUSPARSE_SPSV_ALG_DEFAULT, solution);
  show(y, 3);
  cusparseDnMatDescr_t dense;
  cusparseCreateDnMat(&dense, 3, 4, 4, x, CUDA_R_32F, CUSPARSE_ORDER_ROW);
  cusparseSparseToDense(handle, a, dense, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, buffer);
  show(x, 12);
  cusparseDenseToSparse_analysis(handle, dense, a, CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, buffer);
  cusparseDenseToSparse_convert(handle, dense, a, CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, buffer);
  show(v, 6);
  cusparseCreateDnVec(&dy, 17, y, CUDA_R_32F);
  printf("%d", cusparseSpMV(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha, a, dx, &beta, dy, CUDA_R_32F,
                            CUSPARSE_SPMV_ALG_DEFAULT, buffer));
}
"""


def test_cusparse_computes_numpys_results(tmp_path):
    path = tmp_path / "program.cu"
    path.write_text(PROGRAM)
    done = command("run", str(path), "--device", "cpu")
    printed = done.stdout.splitlines()
    a = np.array([[2.0, 0, 0, 1], [3, 4, 0, 0], [0, 5, 6, 0]])
    ones = np.arange(1.0, 17)
    y = 2 * a @ ones[:4] - ones[:3]
    b = ones[:8].reshape(4, 2)
    product = 2 * a @ b
    sampled = (2 * product @ b.T - a)[a != 0]
    square = np.tril(a[:, :3])
    solution = np.linalg.solve(square.T, 2 * ones[:3])
    dense = a.copy()
    expected = [y, 2 * a.T @ y, product.T.ravel(), sampled, solution, dense.ravel(), a[a != 0]]
    assert len(printed) == len(expected) + 1, done.stderr
    for line, values in zip(printed, expected, strict=False):
        np.testing.assert_allclose([float(word) for word in line.split()], values, rtol=1e-5)
    assert printed[-1] == "6" and done.returncode == 1
    assert "OutOfBounds: cusparseSpMV: 68 bytes exceed the block (device memory of 64 bytes" in done.stderr
