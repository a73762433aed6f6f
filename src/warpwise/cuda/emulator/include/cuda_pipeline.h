// cuda_pipeline.h for the emulator: the pipeline primitives, cuda::pipeline and nvcuda::experimental::pipeline.
#pragma once
#include "cuda/pipeline"
#include "cuda_awbarrier.h"
#include "cuda_pipeline_primitives.h"

namespace nvcuda {
namespace experimental {

// The groups of cp.async of one thread. A batch is the number of a group.
class pipeline {
 public:
  pipeline() = default;
  pipeline(const pipeline&) = delete;
  pipeline& operator=(const pipeline&) = delete;

  WW_MEMBER size_t commit() {
    ww_copy_commit();
    return committed_++;
  }
  // As in CUDA's header, it leaves as many groups pending as were committed from `batch` on, at most 8.
  WW_MEMBER void wait(size_t batch) {
    const size_t pending = committed_ > batch ? committed_ - batch : 0;
    ww_copy_wait(static_cast<unsigned>(pending < 8 ? pending : 8));
  }
  template <unsigned N>
  WW_MEMBER void wait_prior() {
    ww_copy_wait(N);
  }
  WW_MEMBER void commit_and_wait() {
    commit();
    wait_prior<0>();
  }
  WW_MEMBER void arrive_on(awbarrier& barrier) { ww_barrier_track_copies(&barrier.state_); }
  template <cuda::thread_scope Scope>
  WW_MEMBER void arrive_on(cuda::barrier<Scope>& barrier) {
    ww_barrier_track_copies(&barrier);
  }

 private:
  size_t committed_ = 0;
};

template <size_t N, class T>
WW_INLINE auto segment(T* pointer) -> T (*)[N] {
  return reinterpret_cast<T(*)[N]>(pointer);
}

// CUDA's header copies the first piece of a type again in place of its other pieces.
template <class T>
WW_INLINE void memcpy_async(T& to, const T& from, pipeline&, WW_LINE) {
  constexpr size_t kPiece = alignof(T) < 16 ? alignof(T) : 16;
  if (kPiece >= 4 && sizeof(T) > kPiece)
    ww_fail(WW_UNDEFINED,
            "memcpy_async of nvcuda::experimental copies only the first 4, 8 or 16 bytes of a type that is larger than "
            "its alignment: use cuda::memcpy_async",
            line);
  if (kPiece >= 4)
    ww::copy_async(&to, &from, sizeof(T), 0, line);
  else
    to = from;
}
template <class T, size_t To, size_t From>
WW_INLINE void memcpy_async(T (*to)[To], const T (*from)[From], pipeline&, WW_LINE) {
  constexpr size_t kBytes = sizeof *to, kCopied = sizeof *from;
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "a copy has 4, 8 or 16 bytes");
  static_assert(kCopied <= kBytes, "the source must not be larger than the destination");
  __pipeline_memcpy_async(to, from, kBytes, kBytes - kCopied, line);
}

}  // namespace experimental
}  // namespace nvcuda
