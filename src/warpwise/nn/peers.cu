// The sum or average of a small tensor over the GPUs of a host, through memory that each of them can write.
//
// NCCL's all-reduce of a few hundred bytes takes longer than the kernels around it. Here a process stores its elements
// to an inbox in the memory of each other GPU, and reads its own inbox.

#include <warpwise/core/packets.cuh>
#include <warpwise/core/previous_kernel.cuh>

constexpr int kThreads = 512;         // a block has an element per thread
constexpr int kWords = 2 * kThreads;  // packets of a block, for elements of up to 8 bytes

// values: (rows, count). Row 0 is replaced by the sums of the rows over `processes` processes, computed in SUM and
// divided by `divisor`. rank: of this process. inbox0 and so on: (2, processes, gridDim.x or more, kWords) packets of
// each process, `pitch` for a sender; null past the last process. exchanges: (gridDim.x), the number of earlier
// exchanges of each block, which alternate between two halves of the inbox: a process that writes to a half has
// received the packets that the others sent after they had read it.
template <class T, class SUM>
__global__ void __launch_bounds__(kThreads) sum_over_peers(T* values, unsigned long long* inbox0,
                                                           unsigned long long* inbox1, unsigned long long* inbox2,
                                                           unsigned long long* inbox3, unsigned long long* inbox4,
                                                           unsigned long long* inbox5, unsigned long long* inbox6,
                                                           unsigned long long* inbox7, unsigned* exchanges, int rows,
                                                           int count, int rank, int processes, int pitch, int divisor) {
  constexpr int kParts = sizeof(SUM) / 4, kProcesses = 8;
  union Parts {
    SUM value;
    unsigned at[kParts];
  };
  unsigned long long* const inboxes[kProcesses] = {inbox0, inbox1, inbox2, inbox3, inbox4, inbox5, inbox6, inbox7};
  warpwise::wait_for_previous_kernel();
  const unsigned number = exchanges[blockIdx.x] + 1;
  const int element = blockIdx.x * kThreads + threadIdx.x;
  const long long half = (number & 1) * static_cast<long long>(processes) * pitch + blockIdx.x * kWords + threadIdx.x;
  if (element < count) {
    Parts own;
    own.value = values[element];
    for (int row = 1; row < rows; ++row) own.value += values[row * count + element];
    const unsigned long long* inbox = nullptr;
#pragma unroll
    for (int peer = 0; peer < kProcesses; ++peer) {
      if (peer == rank) inbox = inboxes[peer] + half;
      if (peer == rank || peer >= processes) continue;
      unsigned long long* const to = inboxes[peer] + half + rank * pitch;
#pragma unroll
      for (int p = 0; p < kParts; ++p) warpwise::send_packet(to + p * kThreads, number, own.at[p]);
    }
    SUM sum = 0;
    for (int peer = 0; peer < processes; ++peer) {  // in one order, so that the sums are equal on all GPUs
      Parts received = own;
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        if (peer == rank) continue;
        received.at[p] = warpwise::receive_packet(inbox + peer * pitch + p * kThreads, number);
      }
      sum += received.value;
    }
    values[element] = static_cast<T>(sum / static_cast<SUM>(divisor));
  }
  __syncthreads();
  if (threadIdx.x == 0) exchanges[blockIdx.x] = number;
}
