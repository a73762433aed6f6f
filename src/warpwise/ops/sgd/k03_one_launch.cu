// All parameters in one launch: up to 12 tensors are arguments of one kernel, and blocks are divided among them.
//
// A launch for one tensor of a few thousand elements takes about as long as a launch for all dozen tensors of a small
// network. A block finds its tensor by comparisons with the first block of each, which are uniform over the block; an
// array of pointers would be indexed in local memory. 16-byte accesses where the tensors are aligned.

#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>

constexpr int kThreads = 256;

struct Step {
  float lr, momentum, weight_decay;
  bool nesterov;

  // g += weight_decay p; b = momentum b + g; p -= lr b, or lr (g + momentum b).
  __device__ void operator()(float& p, float g, float* b) const {
    g += weight_decay * p;
    if (b) {
      *b = momentum * *b + g;
      g = nesterov ? g + momentum * *b : *b;
    }
    p -= lr * g;
  }
};

// Parameters p, gradients g and buffers b, or null, of n elements each; tensor i has the blocks from first_i to
// first_(i + 1), of 4 kThreads elements each. Absent tensors have no blocks.
__global__ void __launch_bounds__(kThreads) sgd(
    float* p0, float* p1, float* p2, float* p3, float* p4, float* p5, float* p6, float* p7, float* p8, float* p9,
    float* p10, float* p11, const float* g0, const float* g1, const float* g2, const float* g3, const float* g4,
    const float* g5, const float* g6, const float* g7, const float* g8, const float* g9, const float* g10,
    const float* g11, float* b0, float* b1, float* b2, float* b3, float* b4, float* b5, float* b6, float* b7, float* b8,
    float* b9, float* b10, float* b11, int n0, int n1, int n2, int n3, int n4, int n5, int n6, int n7, int n8, int n9,
    int n10, int n11, int first0, int first1, int first2, int first3, int first4, int first5, int first6, int first7,
    int first8, int first9, int first10, int first11, float lr, float momentum, float weight_decay, bool nesterov) {
  const int block = blockIdx.x;
  float* p = p0;
  const float* g = g0;
  float* b = b0;
  int n = n0, first = first0;
  if (block >= first1) p = p1, g = g1, b = b1, n = n1, first = first1;
  if (block >= first2) p = p2, g = g2, b = b2, n = n2, first = first2;
  if (block >= first3) p = p3, g = g3, b = b3, n = n3, first = first3;
  if (block >= first4) p = p4, g = g4, b = b4, n = n4, first = first4;
  if (block >= first5) p = p5, g = g5, b = b5, n = n5, first = first5;
  if (block >= first6) p = p6, g = g6, b = b6, n = n6, first = first6;
  if (block >= first7) p = p7, g = g7, b = b7, n = n7, first = first7;
  if (block >= first8) p = p8, g = g8, b = b8, n = n8, first = first8;
  if (block >= first9) p = p9, g = g9, b = b9, n = n9, first = first9;
  if (block >= first10) p = p10, g = g10, b = b10, n = n10, first = first10;
  if (block >= first11) p = p11, g = g11, b = b11, n = n11, first = first11;
  warpwise::wait_for_previous_kernel();
  const Step step = {lr, momentum, weight_decay, nesterov};
  using Pack = warpwise::Pack<float>;
  const bool aligned = warpwise::aligned(p, g, static_cast<const float*>(b));
  const int start = (block - first) * 4 * kThreads;
  const int whole = 4 * static_cast<int>(threadIdx.x) + start;
  if (aligned && whole + 4 <= n) {
    Pack values = *warpwise::packs(p + whole), buffers = {};
    const Pack gradients = *warpwise::packs(g + whole);
    if (b) buffers = *warpwise::packs(b + whole);
#pragma unroll
    for (int e = 0; e < 4; ++e) step(values.at[e], gradients.at[e], b ? &buffers.at[e] : nullptr);
    if (b) *warpwise::packs(b + whole) = buffers;
    *warpwise::packs(p + whole) = values;
    return;
  }
  // Loads of all elements before the first use: one round trip to memory, also for the ends of tensors.
  float values[4] = {}, gradients[4] = {}, buffers[4] = {};
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const int at = aligned ? whole + e : start + e * kThreads + static_cast<int>(threadIdx.x);
    if (at >= n) continue;
    values[e] = p[at];
    gradients[e] = g[at];
    if (b) buffers[e] = b[at];
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const int at = aligned ? whole + e : start + e * kThreads + static_cast<int>(threadIdx.x);
    if (at >= n) continue;
    step(values[e], gradients[e], b ? &buffers[e] : nullptr);
    if (b) b[at] = buffers[e];
    p[at] = values[e];
  }
}
