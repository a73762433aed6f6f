// Columns of contiguous (outer, length, inner) arrays, distributed over the threads of a block: shared by softmax's k09
// and softmax_backward's k07.
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pack.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>

constexpr int kClusterColumns = 64;  // of a cluster's blocks, at most

// e^(x - max) without a NaN from -inf - -inf: for a set without finite elements, the base is 0.
__device__ inline float base(float max) { return max == warpwise::minus_infinity() ? 0.0f : max; }

// united: the sum of a set, `all`, and of eight others.
struct Sums : warpwise::Sum {
  static __device__ float united(float all, const float (&some)[8]) {
    return all + (((some[0] + some[1]) + (some[2] + some[3])) + ((some[4] + some[5]) + (some[6] + some[7])));
  }
};

// Maximum and sum of elements of T. The exponentials of the eight sets do not depend on each other.
template <class T>
struct MaxAndSumOf : warpwise::MaxAndSum {
  static __device__ Value united(Value all, const Value (&some)[8]) {
    float max = all.max;
#pragma unroll
    for (int s = 0; s < 8; ++s) max = fmaxf(max, some[s].max);
    float sum = all.sum * warpwise::exponential<T>(all.max - base(max));
#pragma unroll
    for (int s = 0; s < 8; ++s) sum += some[s].sum * warpwise::exponential<T>(some[s].max - base(max));
    return {max, sum};
  }
};

// Combines `count` values, `step` apart, eight at a time.
template <class Operation>
__device__ typename Operation::Value combined(const typename Operation::Value* values, int count, long long step) {
  typename Operation::Value all = Operation::identity();
#pragma unroll 1
  for (int first = 0; first < count; first += 8) {
    typename Operation::Value some[8];
#pragma unroll
    for (int s = 0; s < 8; ++s) some[s] = first + s < count ? values[(first + s) * step] : Operation::identity();
    all = Operation::united(all, some);
  }
  return all;
}

// Resident blocks of an SM, at least, if a thread has `values` words that stand for `held` registers: 64 registers in
// all hold 16 words, or 24 floats; a thread that holds a longer column alone has up to 128.
constexpr int blocks_of_sm(int threads, int values, int held) {
  return (values <= 16 || held <= 24 ? 1024 : 512) / threads;
}

// A pack of 2 or 4 bytes in one register, of 8 or 16 in two or four; as separate elements two halves would take two.
template <int BYTES>
struct Word {
  using type = unsigned;
};
template <>
struct Word<2> {
  using type = unsigned short;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<16> {
  using type = uint4;
};

// Column c begins at element (c / inner) * length * inner + c % inner; its elements are `inner` apart. W divides inner,
// and packs of W elements are aligned. Block: (lanes, height), up to THREADS; a thread has W columns, and VALUES packs
// at once. Grid: (cdiv(columns, lanes * W), parts); a part has `share` elements of each column.
template <class T, int W, int THREADS, int VALUES>
struct ColumnTile {
  static constexpr int kBytes = W * sizeof(T);
  using Pack = warpwise::Pack<T, kBytes>;
  using Word = typename Word<kBytes>::type;
  int height, line, first, last;
  long long column, start, inner;

  __device__ ColumnTile(long long columns, long long inner, int length, int share)
      : height(blockDim.y), line(threadIdx.y), inner(inner) {
    column = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * W;
    start = column;
    if (inner < columns) start += column / inner * (length - 1) * inner;
    last = column < columns ? min(length, (static_cast<int>(blockIdx.y) + 1) * share) : 0;
    first = static_cast<int>(blockIdx.y) * share + line;
  }

  // Elements of a column in one batch of loads, and the first row of this thread's last batch; below `first` if it has
  // none.
  __device__ int batch() const { return height * VALUES; }
  __device__ int last_batch() const { return first + (last > first ? (last - first - 1) / batch() : -1) * batch(); }

  static __device__ Word word(const Pack& pack) { return *reinterpret_cast<const Word*>(&pack); }
  static __device__ float element(Word word, int w) {
    return warpwise::to_float(reinterpret_cast<const Pack*>(&word)->at[w]);
  }

  // All loads are in flight at once. Rows past the last one are `fill`.
  __device__ void load(const T* x, int row, float fill, Word (&words)[VALUES]) const {
    const T* from = x + start + row * inner;
    const long long step = height * inner;
    if (row + (VALUES - 1) * height < last) {
#pragma unroll
      for (int v = 0; v < VALUES; ++v, from += step) words[v] = *reinterpret_cast<const Word*>(from);
      return;
    }
    Pack filled;
#pragma unroll
    for (int w = 0; w < W; ++w) filled.at[w] = warpwise::from_float<T>(fill);
#pragma unroll
    for (int v = 0; v < VALUES; ++v, row += height, from += step) {
      words[v] = row < last ? *reinterpret_cast<const Word*>(from) : word(filled);
    }
  }

  __device__ void store(T* y, int row, const Word (&words)[VALUES]) const {
    T* to = y + start + row * inner;
    const long long step = height * inner;
    if (row + (VALUES - 1) * height < last) {
#pragma unroll
      for (int v = 0; v < VALUES; ++v, to += step) *reinterpret_cast<Word*>(to) = words[v];
      return;
    }
#pragma unroll
    for (int v = 0; v < VALUES; ++v, row += height, to += step) {
      if (row < last) *reinterpret_cast<Word*>(to) = words[v];
    }
  }

  template <class Value>
  static __device__ Value* storage() {
    __shared__ Value of_threads[THREADS * W];
    return of_threads;
  }

  // Combines the values of the first `lines` lines of threads of each column, in two steps; all threads of the block
  // call this once, with one number.
  template <class Operation>
  __device__ void combine(typename Operation::Value (&own)[W], int lines) const {
    auto* const of_threads = storage<typename Operation::Value>();
    if (height == 1) return;
    const int lanes = blockDim.x, pitch = lanes * W;
    int groups = 1;  // of lines; about the square root of their number
    while (groups * groups < lines) groups *= 2;
    if (lines <= 16) groups = lines;  // one step: two batches of `combined` take less time than a barrier
    auto* const here = of_threads + line * pitch + threadIdx.x;
#pragma unroll
    for (int w = 0; w < W; ++w) here[w * lanes] = own[w];
    __syncthreads();
    if (groups < lines) {
      if (line < groups) {
#pragma unroll
        for (int w = 0; w < W; ++w) {
          own[w] = combined<Operation>(here + w * lanes, warpwise::cdiv(lines - line, groups), groups * pitch);
          here[w * lanes] = own[w];
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int w = 0; w < W; ++w)
      own[w] = combined<Operation>(of_threads + w * lanes + threadIdx.x, min(groups, lines), pitch);
  }
  template <class Operation>
  __device__ void combine(typename Operation::Value (&own)[W]) const {
    combine<Operation>(own, height);
  }

  // The same for partial: (parts, columns), of all parts of each column.
  template <class Operation>
  __device__ void combine_parts(const typename Operation::Value* partial, long long columns,
                                typename Operation::Value (&all)[W]) const {
    const int parts = gridDim.y, count = column < columns && line < parts ? warpwise::cdiv(parts - line, height) : 0;
#pragma unroll
    for (int w = 0; w < W; ++w) {
      all[w] = combined<Operation>(partial + line * columns + column + w, count, height * columns);
    }
    combine<Operation>(all, min(height, parts));
  }

  // The same for the parts of each column in the CLUSTER blocks of a cluster, which hold at most kClusterColumns. Every
  // block must call cluster_wait before it returns: others read its values.
  template <class Operation, int CLUSTER>
  __device__ void combine_cluster(typename Operation::Value (&own)[W]) const {
    using Value = typename Operation::Value;
    __shared__ __align__(16) float of_block[kClusterColumns][4];  // ld_shared_cluster_v4 reads four floats
    const int lanes = blockDim.x;
    combine<Operation>(own);
    if (line == 0) {
#pragma unroll
      for (int w = 0; w < W; ++w) {
        float four[4] = {};
        memcpy(four, &own[w], sizeof(Value));
        memcpy(of_block[w * lanes + threadIdx.x], four, sizeof(four));
      }
    }
    warpwise::sm90::cluster_sync();
    auto* const of_columns = storage<Value>();
    if (line == 0) {
#pragma unroll
      for (int w = 0; w < W; ++w) {
        const unsigned address = warpwise::shared_address(of_block[w * lanes + threadIdx.x]);
        Value some[8];
#pragma unroll
        for (int rank = 0; rank < 8; ++rank) {
          some[rank] = Operation::identity();
          if (rank >= CLUSTER) continue;
          float four[4];
          warpwise::sm90::ld_shared_cluster_v4(four, address, rank);
          memcpy(&some[rank], four, sizeof(Value));
        }
        of_columns[w * lanes + threadIdx.x] = Operation::united(Operation::identity(), some);
      }
    }
    warpwise::sm90::cluster_arrive_relaxed();
    __syncthreads();
#pragma unroll
    for (int w = 0; w < W; ++w) own[w] = of_columns[w * lanes + threadIdx.x];
  }
};
