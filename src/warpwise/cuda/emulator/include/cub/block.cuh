// CUB's operations of a block for the emulator: BlockReduce, BlockScan, BlockLoad, BlockStore and BlockRadixSort. The
// shared memory of TempStorage is used as CUB documents it, so a missing __syncthreads() before it is used again is
// found. Thread 0 combines the values in the order of the threads.
#pragma once
#include "../ww/cub_algorithms.h"
#include "warp.cuh"

namespace cub {
template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1>
class BlockReduce {
  static constexpr int kThreads = X * Y * Z;

 public:
  struct TempStorage {
    T values[kThreads];
  };
  WW_INLINE_MEMBER explicit BlockReduce(TempStorage& storage) : storage_(storage) {}
  // The result is that of thread 0; other threads get their own input.
  template <class F>
  WW_INLINE_MEMBER T Reduce(T input, F f, int valid = kThreads, WW_LINE) {
    const unsigned rank = ww_thread_rank();
    storage_.values[rank] = input;
    ww_syncthreads(0, 0, line);
    if (rank) return input;
    T result = input;
    for (int i = 1; i < valid && i < kThreads; i++) result = f(result, storage_.values[i]);
    return result;
  }
  template <int N, class F>
  WW_INLINE_MEMBER T Reduce(T (&inputs)[N], F f, WW_LINE) {
    T own = inputs[0];
    for (int i = 1; i < N; i++) own = f(own, inputs[i]);
    return Reduce(own, f, kThreads, line);
  }
  WW_INLINE_MEMBER T Sum(T input, int valid = kThreads, WW_LINE) { return Reduce(input, cub::Sum(), valid, line); }
  template <int N>
  WW_INLINE_MEMBER T Sum(T (&inputs)[N], WW_LINE) {
    return Reduce(inputs, cub::Sum(), line);
  }

 private:
  TempStorage& storage_;
};

template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1>
class BlockScan {
  static constexpr int kThreads = X * Y * Z;

 public:
  struct TempStorage {
    T values[kThreads], prefix;
  };
  WW_INLINE_MEMBER explicit BlockScan(TempStorage& storage) : storage_(storage) {}

  template <class F>
  WW_INLINE_MEMBER void InclusiveScan(T input, T& output, F f, WW_CUB_LINE) {
    output = scanned(input, f, line);
  }
  template <class F>
  WW_INLINE_MEMBER void InclusiveScan(T input, T& output, F f, T& aggregate, WW_CUB_LINE) {
    output = scanned(input, f, line);
    aggregate = storage_.values[kThreads - 1];
  }
  template <class F>
  WW_INLINE_MEMBER void ExclusiveScan(T input, T& output, T initial, F f, WW_CUB_LINE) {
    scanned(input, f, line);
    const unsigned rank = ww_thread_rank();
    output = rank ? f(initial, storage_.values[rank - 1]) : initial;
  }
  template <class F>
  WW_INLINE_MEMBER void ExclusiveScan(T input, T& output, T initial, F f, T& aggregate, WW_CUB_LINE) {
    ExclusiveScan(input, output, initial, f, line);
    aggregate = storage_.values[kThreads - 1];
  }
  // Without an initial value, the output of the first thread is not written.
  template <class F>
  WW_INLINE_MEMBER void ExclusiveScan(T input, T& output, F f, WW_CUB_LINE) {
    scanned(input, f, line);
    const unsigned rank = ww_thread_rank();
    if (rank) output = storage_.values[rank - 1];
  }
  template <class F>
  WW_INLINE_MEMBER void ExclusiveScan(T input, T& output, F f, T& aggregate, WW_CUB_LINE) {
    ExclusiveScan(input, output, f, line);
    aggregate = storage_.values[kThreads - 1];
  }
  // `prefix` gets the sum of the block and returns what precedes the block; the first warp calls it.
  template <class F, class P>
  WW_INLINE_MEMBER void InclusiveScan(T input, T& output, F f, T& aggregate, P& prefix, WW_CUB_LINE) {
    InclusiveScan(input, output, f, aggregate, line);
    output = f(before(prefix, aggregate, line), output);
  }
  template <class F, class P>
  WW_INLINE_MEMBER void InclusiveScan(T input, T& output, F f, P& prefix, WW_CUB_LINE) {
    T aggregate;
    InclusiveScan(input, output, f, aggregate, prefix, line);
  }
  template <class F, class P>
  WW_INLINE_MEMBER void ExclusiveScan(T input, T& output, F f, P& prefix, WW_CUB_LINE) {
    scanned(input, f, line);
    const T start = before(prefix, storage_.values[kThreads - 1], line);
    const unsigned rank = ww_thread_rank();
    output = rank ? f(start, storage_.values[rank - 1]) : start;
  }
  template <int N, class F>
  WW_INLINE_MEMBER void InclusiveScan(T (&inputs)[N], T (&outputs)[N], F f, WW_CUB_LINE) {
    T own[N];
    for (int i = 0; i < N; i++) own[i] = i ? f(own[i - 1], inputs[i]) : inputs[i];
    scanned(own[N - 1], f, line);
    const unsigned rank = ww_thread_rank();
    for (int i = 0; i < N; i++) outputs[i] = rank ? f(storage_.values[rank - 1], own[i]) : own[i];
  }
  template <int N, class F>
  WW_INLINE_MEMBER void ExclusiveScan(T (&inputs)[N], T (&outputs)[N], T initial, F f, WW_CUB_LINE) {
    T own[N];
    for (int i = 0; i < N; i++) own[i] = i ? f(own[i - 1], inputs[i]) : inputs[i];
    scanned(own[N - 1], f, line);
    const unsigned rank = ww_thread_rank();
    const T start = rank ? f(initial, storage_.values[rank - 1]) : initial;
    for (int i = 0; i < N; i++) outputs[i] = i ? f(start, own[i - 1]) : start;
  }
  template <int N, class F>
  WW_INLINE_MEMBER void InclusiveScan(T (&inputs)[N], T (&outputs)[N], F f, T& aggregate, WW_CUB_LINE) {
    InclusiveScan(inputs, outputs, f, line);
    aggregate = storage_.values[kThreads - 1];
  }
  template <int N, class F>
  WW_INLINE_MEMBER void ExclusiveScan(T (&inputs)[N], T (&outputs)[N], T initial, F f, T& aggregate, WW_CUB_LINE) {
    ExclusiveScan(inputs, outputs, initial, f, line);
    aggregate = storage_.values[kThreads - 1];
  }
  template <int N, class F, class P>
  WW_INLINE_MEMBER void InclusiveScan(T (&inputs)[N], T (&outputs)[N], F f, P& prefix, WW_CUB_LINE) {
    InclusiveScan(inputs, outputs, f, line);
    const T start = before(prefix, storage_.values[kThreads - 1], line);
    for (int i = 0; i < N; i++) outputs[i] = f(start, outputs[i]);
  }
  template <int N, class F, class P>
  WW_INLINE_MEMBER void ExclusiveScan(T (&inputs)[N], T (&outputs)[N], F f, P& prefix, WW_CUB_LINE) {
    T own[N];
    InclusiveScan(inputs, own, f, line);
    const T start = before(prefix, storage_.values[kThreads - 1], line);
    const unsigned rank = ww_thread_rank();
    T sum = rank ? f(start, storage_.values[rank - 1]) : start;
    for (int i = 0; i < N; i++) {
      const T next = f(sum, inputs[i]);
      outputs[i] = sum;
      sum = next;
    }
  }

  WW_INLINE_MEMBER void InclusiveSum(T input, T& output, WW_CUB_LINE) {
    InclusiveScan(input, output, cub::Sum(), line);
  }
  WW_INLINE_MEMBER void InclusiveSum(T input, T& output, T& aggregate, WW_CUB_LINE) {
    InclusiveScan(input, output, cub::Sum(), aggregate, line);
  }
  template <class P>
  WW_INLINE_MEMBER void InclusiveSum(T input, T& output, T& aggregate, P& prefix, WW_CUB_LINE) {
    InclusiveScan(input, output, cub::Sum(), aggregate, prefix, line);
  }
  template <class P>
  WW_INLINE_MEMBER void InclusiveSum(T input, T& output, P& prefix, WW_CUB_LINE) {
    InclusiveScan(input, output, cub::Sum(), prefix, line);
  }
  template <class P>
  WW_INLINE_MEMBER void ExclusiveSum(T input, T& output, P& prefix, WW_CUB_LINE) {
    ExclusiveScan(input, output, cub::Sum(), prefix, line);
  }
  WW_INLINE_MEMBER void ExclusiveSum(T input, T& output, WW_CUB_LINE) {
    ExclusiveScan(input, output, T(), cub::Sum(), line);
  }
  WW_INLINE_MEMBER void ExclusiveSum(T input, T& output, T& aggregate, WW_CUB_LINE) {
    ExclusiveScan(input, output, T(), cub::Sum(), aggregate, line);
  }
  template <int N>
  WW_INLINE_MEMBER void InclusiveSum(T (&inputs)[N], T (&outputs)[N], WW_CUB_LINE) {
    InclusiveScan(inputs, outputs, cub::Sum(), line);
  }
  template <int N>
  WW_INLINE_MEMBER void InclusiveSum(T (&inputs)[N], T (&outputs)[N], T& aggregate, WW_CUB_LINE) {
    InclusiveScan(inputs, outputs, cub::Sum(), line);
    aggregate = storage_.values[kThreads - 1];
  }
  template <int N>
  WW_INLINE_MEMBER void ExclusiveSum(T (&inputs)[N], T (&outputs)[N], WW_CUB_LINE) {
    ExclusiveScan(inputs, outputs, T(), cub::Sum(), line);
  }
  template <int N>
  WW_INLINE_MEMBER void ExclusiveSum(T (&inputs)[N], T (&outputs)[N], T& aggregate, WW_CUB_LINE) {
    ExclusiveScan(inputs, outputs, T(), cub::Sum(), line);
    aggregate = storage_.values[kThreads - 1];
  }
  template <int N, class P>
  WW_INLINE_MEMBER void InclusiveSum(T (&inputs)[N], T (&outputs)[N], P& prefix, WW_CUB_LINE) {
    InclusiveScan(inputs, outputs, cub::Sum(), prefix, line);
  }
  template <int N, class P>
  WW_INLINE_MEMBER void ExclusiveSum(T (&inputs)[N], T (&outputs)[N], P& prefix, WW_CUB_LINE) {
    ExclusiveScan(inputs, outputs, cub::Sum(), prefix, line);
  }

 private:
  // Afterwards `values` holds the inclusive scan of all threads.
  template <class F>
  WW_INLINE_MEMBER T scanned(T input, F f, Line line) {
    const unsigned rank = ww_thread_rank();
    storage_.values[rank] = input;
    ww_syncthreads(0, 0, line.number);
    if (!rank)
      for (int i = 1; i < kThreads; i++) storage_.values[i] = f(storage_.values[i - 1], storage_.values[i]);
    ww_syncthreads(0, 0, line.number);
    return storage_.values[rank];
  }
  template <class P>
  WW_INLINE_MEMBER T before(P& prefix, T aggregate, Line line) {
    if (ww_thread_rank() < 32) {
      const T start = prefix(aggregate);
      if (!ww_thread_rank()) storage_.prefix = start;
    }
    ww_syncthreads(0, 0, line.number);
    return storage_.prefix;
  }
  TempStorage& storage_;
};

template <class T, int X, int ITEMS, BlockLoadAlgorithm HOW = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1>
class BlockLoad {
 public:
  struct TempStorage {
    char unused;
  };
  BlockLoad() = default;
  WW_INLINE_MEMBER explicit BlockLoad(TempStorage&) {}
  template <class I>
  WW_INLINE_MEMBER void Load(I from, T (&items)[ITEMS]) {
    for (int i = 0; i < ITEMS; i++) items[i] = from[place(i)];
  }
  template <class I>
  WW_INLINE_MEMBER void Load(I from, T (&items)[ITEMS], int valid) {
    for (int i = 0; i < ITEMS; i++)
      if (place(i) < valid) items[i] = from[place(i)];
  }
  template <class I, class D>
  WW_INLINE_MEMBER void Load(I from, T (&items)[ITEMS], int valid, D otherwise) {
    for (int i = 0; i < ITEMS; i++) items[i] = place(i) < valid ? static_cast<T>(from[place(i)]) : otherwise;
  }

 private:
  static int place(int i) {
    const int rank = int(ww_thread_rank());
    return HOW == BLOCK_LOAD_STRIPED ? i * X * Y * Z + rank : rank * ITEMS + i;
  }
};

template <class T, int X, int ITEMS, BlockStoreAlgorithm HOW = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1>
class BlockStore {
 public:
  struct TempStorage {
    char unused;
  };
  BlockStore() = default;
  WW_INLINE_MEMBER explicit BlockStore(TempStorage&) {}
  template <class O>
  WW_INLINE_MEMBER void Store(O to, T (&items)[ITEMS], int valid = X * Y * Z * ITEMS) {
    for (int i = 0; i < ITEMS; i++)
      if (place(i) < valid) to[place(i)] = items[i];
  }

 private:
  static int place(int i) {
    const int rank = int(ww_thread_rank());
    return HOW == BLOCK_STORE_STRIPED ? i * X * Y * Z + rank : rank * ITEMS + i;
  }
};

// A stable sort of X * ITEMS keys, with values unless V is NullType. Thread 0 merges runs of doubling length.
template <class K, int X, int ITEMS, class V = NullType, int = 4>
class BlockRadixSort {
  static constexpr int kItems = X * ITEMS;
  static constexpr bool kKeysOnly = std::is_same_v<V, NullType>;
  struct Key {
    K key;
  };
  struct KeyAndValue {
    K key;
    V value;
  };
  typedef std::conditional_t<kKeysOnly, Key, KeyAndValue> Pair;

 public:
  struct TempStorage {
    Pair pairs[2][kItems];
  };
  WW_INLINE_MEMBER explicit BlockRadixSort(TempStorage& storage) : storage_(storage) {}
  WW_INLINE_MEMBER void Sort(K (&keys)[ITEMS], WW_LINE) { sort<false>(keys, nullptr, false, line); }
  WW_INLINE_MEMBER void Sort(K (&keys)[ITEMS], V (&values)[ITEMS], WW_LINE) { sort<false>(keys, values, false, line); }
  WW_INLINE_MEMBER void SortDescending(K (&keys)[ITEMS], WW_LINE) { sort<true>(keys, nullptr, false, line); }
  WW_INLINE_MEMBER void SortDescending(K (&keys)[ITEMS], V (&values)[ITEMS], WW_LINE) {
    sort<true>(keys, values, false, line);
  }
  WW_INLINE_MEMBER void SortBlockedToStriped(K (&keys)[ITEMS], WW_LINE) { sort<false>(keys, nullptr, true, line); }
  WW_INLINE_MEMBER void SortBlockedToStriped(K (&keys)[ITEMS], V (&values)[ITEMS], WW_LINE) {
    sort<false>(keys, values, true, line);
  }

 private:
  template <bool DESCENDING>
  WW_INLINE_MEMBER void sort(K* keys, V* values, bool striped, int line) {
    const int rank = int(ww_thread_rank());
    for (int i = 0; i < ITEMS; i++) {
      Pair& own = storage_.pairs[0][rank * ITEMS + i];
      own.key = keys[i];
      if constexpr (!kKeysOnly)
        if (values) own.value = values[i];
    }
    ww_syncthreads(0, 0, line);
    constexpr int kPasses = passes();
    if (!rank)
      for (int pass = 0; pass < kPasses; pass++)
        merge<DESCENDING>(storage_.pairs[pass % 2], storage_.pairs[1 - pass % 2], 1 << pass);
    ww_syncthreads(0, 0, line);
    for (int i = 0; i < ITEMS; i++) {
      const Pair& own = storage_.pairs[kPasses % 2][striped ? i * X + rank : rank * ITEMS + i];
      keys[i] = own.key;
      if constexpr (!kKeysOnly)
        if (values) values[i] = own.value;
    }
  }
  static constexpr int passes() {
    int count = 0;
    while ((1 << count) < kItems) count++;
    return count;
  }
  template <bool DESCENDING>
  WW_INLINE_MEMBER void merge(const Pair* from, Pair* to, int run) {
    for (int start = 0; start < kItems; start += 2 * run) {
      const int middle = start + run < kItems ? start + run : kItems;
      const int end = start + 2 * run < kItems ? start + 2 * run : kItems;
      int a = start, b = middle;
      for (int at = start; at < end; at++) {
        const bool second =
            a == middle || (b < end && (DESCENDING ? from[a].key < from[b].key : from[b].key < from[a].key));
        const Pair& next = second ? from[b++] : from[a++];
        to[at].key = next.key;
        if constexpr (!kKeysOnly) to[at].value = next.value;
      }
    }
  }
  TempStorage& storage_;
};
}  // namespace cub
