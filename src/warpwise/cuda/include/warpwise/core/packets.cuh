// Words for another GPU of the host, in packets of 8 bytes: 4 bytes of data and the number of the exchange. The 8 bytes
// of a store become visible together, so that no fence and no barrier are needed.
#pragma once

namespace warpwise {

constexpr unsigned kMostPolls = 1u << 30;  // several minutes, after which the kernel fails

__device__ inline void send_packet(unsigned long long* to, unsigned number, unsigned word) {
  *static_cast<volatile unsigned long long*>(to) = static_cast<unsigned long long>(number) << 32 | word;
}

// Polls until the packet with this number has arrived, and returns its word.
__device__ inline unsigned receive_packet(const unsigned long long* from, unsigned number) {
  const auto* const slot = static_cast<const volatile unsigned long long*>(from);
  unsigned long long packet = *slot;
  for (unsigned polls = 0; packet >> 32 != number; packet = *slot) {
    if (++polls == kMostPolls) __trap();
  }
  return static_cast<unsigned>(packet);
}

}  // namespace warpwise
