// Arrays (rows, columns) of few columns, which one block combines: shared by softmax's k13 and softmax_backward's k10.
#pragma once

#include "columns.cuh"

constexpr int kFewColumns = 64;                 // columns, at most
constexpr int kMostFold = 8;                    // rows of a line of packs, at most
constexpr int kLine = kFewColumns * kMostFold;  // elements of a line, at most
constexpr int kFewThreads = 256;                // threads of a block
constexpr int kFewHeight = 32;                  // threads of a column in the first of two steps

// Thread c < columns returns the combined values of column c. All `threads` of a block, at least `columns`, call this.
template <class Operation>
__device__ typename Operation::Value combined_rows(const typename Operation::Value* values, int rows, int columns,
                                                   int thread, int threads) {
  __shared__ typename Operation::Value scratch[kFewThreads];
  const int height = min(kFewHeight, threads / columns), line = thread / columns;
  const int count = line < min(height, rows) ? warpwise::cdiv(rows - line, height) : 0;
  scratch[thread] = combined<Operation>(values + thread, count, height * columns);
  __syncthreads();
  return combined<Operation>(scratch + thread, thread < columns ? height : 0, columns);
}
