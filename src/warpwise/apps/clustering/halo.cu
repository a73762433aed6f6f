// Rows of the halo, from their owners on other GPUs of the host to this process, through inboxes that each can write.
//
// NCCL needs a gather and a grouped send and receive for each colour of an iteration, 25 to 35 µs. Here one kernel
// stores the rows that this process sends to the inboxes of their receivers, and moves what arrives in its own inbox to
// the halo.

#include <warpwise/core/packets.cuh>
#include <warpwise/core/previous_kernel.cuh>

constexpr int kThreads = 512, kMostProcesses = 8;

// The rows that a process sends are sorted by receiver. Rows ends[p] to ends[p + 1] (exclusive) go to process p, to the
// rows of its inbox that begin at places[p].
struct Sent {
  int ends[kMostProcesses + 1], places[kMostProcesses];
};

// values: (any, width). Rows `sent`: (rows of `to`) are sent; `fetched` rows from row `first` on are replaced by those
// that the other processes send. inbox0 and so on: (2, pitch) packets of each process, null past the last process: rows
// of values, then one word of each process. `number`, 1 in the first exchange, and the half of the inbox that it
// selects: a process that writes to a half has a word of each other process from the exchange before, in which the
// others started after they had read this half. All blocks are resident, so that none waits for one that has not sent.
__global__ void __launch_bounds__(kThreads) swap_rows(float* values, const long long* sent, unsigned long long* inbox0,
                                                      unsigned long long* inbox1, unsigned long long* inbox2,
                                                      unsigned long long* inbox3, unsigned long long* inbox4,
                                                      unsigned long long* inbox5, unsigned long long* inbox6,
                                                      unsigned long long* inbox7, Sent to, long long first, int fetched,
                                                      int width, int rank, int processes, long long pitch,
                                                      unsigned number) {
  unsigned long long* const inboxes[kMostProcesses] = {inbox0, inbox1, inbox2, inbox3, inbox4, inbox5, inbox6, inbox7};
  warpwise::wait_for_previous_kernel();
  const long long half = (number & 1) * pitch, words = pitch - kMostProcesses;
  const int step = gridDim.x * kThreads, thread = blockIdx.x * kThreads + threadIdx.x;
  for (int peer = 0; peer < processes; ++peer) {
    if (peer == rank) continue;
    const int count = (to.ends[peer + 1] - to.ends[peer]) * width;
    unsigned long long* const inbox = inboxes[peer] + half;
    for (int i = thread; i < count; i += step) {
      const int row = i / width, column = i - row * width;
      const float value = values[sent[to.ends[peer] + row] * width + column];
      warpwise::send_packet(inbox + (to.places[peer] + row) * static_cast<long long>(width) + column, number,
                            __float_as_uint(value));
    }
    if (thread == 0) warpwise::send_packet(inbox + words + rank, number, 0);
  }
  const unsigned long long* inbox = nullptr;
#pragma unroll
  for (int peer = 0; peer < kMostProcesses; ++peer) {
    if (peer == rank) inbox = inboxes[peer] + half;
  }
  for (int i = thread; i < fetched * width; i += step) {
    values[first * width + i] = __uint_as_float(warpwise::receive_packet(inbox + i, number));
  }
  if (thread < processes && thread != rank) warpwise::receive_packet(inbox + words + thread, number);
}
