// The end of a network in three launches: pooling of the last block, a hidden layer with relu, last layer and loss, and
// the gradient of the pooled images.
//
// The pooling, the hidden layer, the loss, the gradient of the hidden layer's input, and the sums over
// channels that the block's gradient needs are five launches, each of which waits for the one before. Tiles whose
// columns are whole channels join them: a block pools the part of the hidden layer's input that it multiplies, the loss
// adds the products of the blocks, and the gradient of a channel is in one block, which adds it.

#include "../forward/transposed_sum.cuh"
#include "slab.cuh"

#include <warpwise/core/previous_kernel.cuh>

// y: (n, k, h, w), the convolution; partials: (k, parts, 3), of its statistics; w1: (units, k plane), plane = (h / 2)
// (w / 2). mean, var: (k); out: (n, k, plane), the maxima of 2 x 2 windows of relu(gamma (y - mean) / sqrt(var + eps) +
// beta); products: (slabs, n, units), the parts of out w1^T of kChannels channels each. Grid: (tiles of kRows images,
// slabs). Dynamic shared memory: (kRows + kUnits, pitch) floats, with a pitch of 4 modulo 8, so that the rows of a
// fragment are in distinct banks; kRows kChannels planes of y; `partials` of kChannels channels. WORD: bytes of a copy,
// 16 if h w is a multiple of 4 and y is aligned, else 4.
template <int WORD>
__global__ void __launch_bounds__(kThreads) pool_and_multiply(const float* y, const float* partials, const float* gamma,
                                                              const float* beta, const float* w1, float* mean,
                                                              float* var, float* out, float* products, int parts, int n,
                                                              int k, int h, int w, int units, int pitch, float eps) {
  constexpr int kPlanes = kRows * kChannels / kWarps, kStep = kWarp * WORD / 4;  // planes per warp; floats
  extern __shared__ __align__(16) float shared[];
  __shared__ Channel channels[kChannels];
  const int size = h * w, ow = w / 2, plane = h / 2 * ow, features = k * plane, first_row = blockIdx.x * kRows;
  float *const weights = shared + kRows * pitch, *const pixels = weights + kUnits * pitch;
  float* const statistics = pixels + kRows * kChannels * size;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Slab slab(blockIdx.y * kChannels, k, plane);
  warpwise::wait_for_previous_kernel();

#pragma unroll 1
  for (int i = threadIdx.x; i < slab.count * 3 * parts; i += kThreads)
    warpwise::mma::cp_async<4>(warpwise::shared_address(statistics + i), partials + 3ll * slab.channel * parts + i,
                               true);
#pragma unroll 1
  for (int row = warp; row < kRows; row += kWarps) {
    const bool inside = first_row + row < n;
    const float* const from = y + (static_cast<long long>(inside ? first_row + row : 0) * k + slab.channel) * size;
    const unsigned to = warpwise::shared_address(pixels + row * kChannels * size);
#pragma unroll 1
    for (int at = lane * (WORD / 4); at < slab.count * size; at += kStep)
      warpwise::mma::cp_async<WORD>(to + 4 * at, from + at, inside);
  }
  __pipeline_commit();
  copy_weights(weights, w1, slab.begin, 8 * slab.tiles, units, features, pitch);
  constexpr int kPads = kThreads / kRows;  // the columns of other channels
  const int row_of_pad = threadIdx.x / kPads, pad = threadIdx.x % kPads;
  const int column = pad < kPads / 2 ? pad : 8 * slab.tiles - kPads + pad;
  if (column >= 0 && slab.channel_of(column) < 0) shared[row_of_pad * pitch + column] = 0.0f;
  const int own = slab.channel + min(warp, slab.count - 1);
  const float scale = gamma[own], shift = beta[own];
  __pipeline_wait_prior(1);
  __syncthreads();
  if (warp < slab.count) {
    float m, v;
    combine(statistics + 3 * warp * parts, parts, m, v);
    if (lane == 0) {
      channels[warp] = {m, scale * rsqrtf(v + eps), shift};
      if (blockIdx.x == 0) {
        mean[own] = m;
        var[own] = v;
      }
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int window = lane; window < plane; window += kWarp) {
    const int r = window / ow, c = window - r * ow;
#pragma unroll 2
    for (int p = 0; p < kPlanes; ++p) {
      const int row = warp * (kPlanes / kChannels) + p / kChannels, channel = p % kChannels;
      if (channel >= slab.count) continue;
      const Channel of = channels[channel];
      const float* const from = pixels + (row * kChannels + channel) * size + 2 * r * w + 2 * c;
      float best = 0.0f;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float normal = (from[e / 2 * w + e % 2] - of.mean) * of.scale + of.shift;
        if (normal > best || normal != normal) best = normal;
      }
      const bool inside = first_row + row < n;
      const int at = channel * plane + window;
      shared[row * pitch + slab.skipped + at] = inside ? best : 0.0f;
      if (inside) out[static_cast<long long>(first_row + row) * features + slab.channel * plane + at] = best;
    }
  }
  __pipeline_wait_prior(0);
  __syncthreads();

  float sums[kTiles][4] = {};
  const int first_unit = warp * 8 * kTiles;
  multiply<true>(sums, shared, pitch, weights + first_unit * pitch, pitch, slab.tiles);
#pragma unroll
  for (int i = 0; i < 2 * kTiles; ++i) {
    const int row = first_row + lane / 4 + i % 2 * 8, unit = first_unit + i / 2 * 8 + lane % 4 * 2;
    const warpwise::Pack<float, 8> pair = {sums[i / 2][i % 2 * 2], sums[i / 2][i % 2 * 2 + 1]};
    if (row < n && unit < units)
      *warpwise::packs<8>(products + (static_cast<long long>(blockIdx.y) * n + row) * units + unit) = pair;
  }
}

// The reduction over classes of a value that two adjacent lanes hold.
template <class Operation>
__device__ inline float reduce_classes(float value) {
#pragma unroll
  for (int distance = 2; distance < kWarp; distance *= 2)
    value = Operation::combine(value, __shfl_xor_sync(warpwise::kFullMask, value, distance));
  return value;
}

// products: (slabs, n, units), whose sum and b1: (units) are the argument of relu; w2: (classes, units), b2: (classes)
// or null, target: (n). hidden: (n, units) of relu, d_hidden: (n, units), the gradient of its argument; d: (n,
// kClasses), the gradient of the logits; losses: (n + 1), the losses of the rows, then the number of rows that are not
// ignored. Grid: cdiv(n, kLossRows) blocks. The previous kernel writes `products` and accesses none of the other
// arguments, which are read while it runs.
__global__ void __launch_bounds__(kLossRows* kWarp) loss_of_rows(
    const float* products, const float* b1, const float* w2, const float* b2, const long long* target, float* hidden,
    float* d_hidden, float* d, float* losses, int n, int units, int classes, int slabs, long long ignore_index) {
  constexpr int kBatch = 16;  // slabs whose loads are in flight together
  const int lane = threadIdx.x % kWarp, row = blockIdx.x * kLossRows + threadIdx.x / kWarp;
  const int own = min(row, n - 1), unit = min(4 * lane, units - 4), c = lane / 2;
  const bool inside = 4 * lane < units;
  Quad of_w[kClasses];
#pragma unroll
  for (int i = 0; i < kClasses; ++i) of_w[i] = *warpwise::packs(w2 + min(i, classes - 1) * units + unit);
  Quad x = *warpwise::packs(b1 + unit);
  const float bias = b2 && c < classes ? b2[c] : 0.0f;
  const long long wanted = target[own];
  float counted = 0.0f;
#pragma unroll 4
  for (int other = lane; other < n; other += kWarp) counted += target[other] != ignore_index ? 1.0f : 0.0f;
  counted = warpwise::warp_reduce<warpwise::Sum>(counted);
  const float factor = counted > 0.0f ? 1.0f / counted : 0.0f;  // d is 0 if all rows are ignored

  warpwise::wait_for_previous_kernel();
  const float* from = products + static_cast<long long>(own) * units + unit;
  const long long distance = static_cast<long long>(n) * units;
#pragma unroll 1
  for (int start = 0; start < slabs; start += kBatch) {
    Quad parts[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      parts[i] = *warpwise::packs(from);
      if (start + i + 1 < slabs) from += distance;
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) x.at[e] += start + i < slabs ? parts[i].at[e] : 0.0f;
    }
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) x.at[e] = !inside || x.at[e] < 0.0f ? 0.0f : x.at[e];  // NaN is kept

  float sums[kClasses] = {};
#pragma unroll
  for (int i = 0; i < kClasses; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[i] += x.at[e] * of_w[i].at[e];
  }
  const float product = warpwise::transposed_sum(sums);
  const float logit = c < classes ? product + bias : warpwise::minus_infinity();
  const float max = reduce_classes<warpwise::Max>(logit);
  const float power = c < classes ? expf(logit - max) : 0.0f;
  const float powers = reduce_classes<warpwise::Sum>(power);
  const bool counts = wanted != ignore_index;
  const float gradient = counts ? (power / powers - (c == wanted ? 1.0f : 0.0f)) * factor : 0.0f;
  Quad of_x = {};
#pragma unroll
  for (int i = 0; i < kClasses; ++i) {
    const float of_class = __shfl_sync(warpwise::kFullMask, gradient, 2 * i);
#pragma unroll
    for (int e = 0; e < 4; ++e) of_x.at[e] += i < classes ? of_class * of_w[i].at[e] : 0.0f;
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) of_x.at[e] = x.at[e] > 0.0f ? of_x.at[e] : 0.0f;
  const bool known = wanted >= 0 && wanted < classes;
  const float chosen = __shfl_sync(warpwise::kFullMask, logit, known ? 2 * static_cast<int>(wanted) : 0);
  if (row >= n) return;
  if (inside) {
    *warpwise::packs(d_hidden + static_cast<long long>(row) * units + unit) = of_x;
    *warpwise::packs(hidden + static_cast<long long>(row) * units + unit) = x;
  }
  if (lane % 2 == 0) d[row * kClasses + c] = gradient;
  if (lane > 0) return;
  const float loss = known ? logf(powers) - (chosen - max) : __int_as_float(0x7fffffff);
  losses[row] = counts ? loss : 0.0f;
  if (row == 0) losses[n] = counted;
}

// dw: (classes, units) = d^T hidden and db: (classes), the sums of d, or null; the loss, the sum of `losses` over the
// number of rows. A warp adds every kWarps-th row for 32 adjacent elements; the sums of the warps are added in order.
// Grid: cdiv(classes (units + 1), 32), and a block for the loss.
__global__ void __launch_bounds__(kThreads) add_rows(const float* d, const float* hidden, const float* losses,
                                                     float* dw, float* db, float* loss, int n, int units, int classes) {
  warpwise::wait_for_previous_kernel();
  __shared__ float warp_sums[kWarps][kWarp];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, elements = classes * (units + 1);
  const bool of_loss = blockIdx.x + 1 == gridDim.x;
  const int at = blockIdx.x * kWarp + lane, c = min(at, elements - 1) / (units + 1);
  const int unit = min(at, elements - 1) - c * (units + 1);
  float sum = 0.0f;
  if (of_loss) {
    for (int row = threadIdx.x; row < n; row += kThreads) sum += losses[row];
  } else {
#pragma unroll 16
    for (int row = warp; row < n; row += kWarps) {
      const float x = hidden[static_cast<long long>(row) * units + min(unit, units - 1)];
      sum += d[row * kClasses + c] * (unit < units ? x : 1.0f);
    }
  }
  warp_sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0) return;
#pragma unroll
  for (int other = 1; other < kWarps; ++other) sum += warp_sums[other][lane];
  if (of_loss) {
    sum = warpwise::warp_reduce<warpwise::Sum>(sum);
    if (lane == 0) *loss = sum / losses[n];
  } else if (at < elements && unit < units) {
    dw[c * units + unit] = sum;
  } else if (at < elements && db) {
    db[c] = sum;
  }
}

// (y - mean) / sqrt(var + eps) at the first maximum above 0 of a window of y: (h, w), or 0.
__device__ inline float normal_at_maximum(const float* y, int w, int window, const Channel& channel, float rstd) {
  const float* const from = y + window / (w / 2) * 2 * w + window % (w / 2) * 2;
  float best = 0.0f, found = 0.0f;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const float distance = from[e / 2 * w + e % 2] - channel.mean, normal = distance * channel.scale + channel.shift;
    if (normal > best) {
      best = normal;
      found = distance * rstd;
    }
  }
  return found;
}

// dx: (n, k, plane) = d_hidden w1, d_hidden: (n, units); sums: (k, gridDim.x, 2), of kRows images each, the sums of g
// and of g (y - mean) / sqrt(var + eps) at the maximum, g the part of dx where out: (n, k, plane) is positive. There
// the normalised value is (out - beta) / gamma; where |gamma| is small beside |beta|, it is computed from y. Grid: as
// for pool_and_multiply. Dynamic shared memory: d_hidden: (kRows, kPitchOfUnits), then w1 as in pool_and_multiply, with
// a pitch of 8 modulo 16. The previous kernel writes `d_hidden` and accesses none of the other arguments, which are
// read while it runs.
__global__ void __launch_bounds__(kThreads) gradient_of_pooled(const float* d_hidden, const float* w1, const float* out,
                                                               const float* y, const float* mean, const float* var,
                                                               const float* gamma, const float* beta, float* dx,
                                                               float* sums, int n, int k, int h, int w, int units,
                                                               int pitch, float eps) {
  using Pair = warpwise::Pack<float, 8>;
  constexpr int kColumns = 8 * kTiles;  // of a warp
  extern __shared__ __align__(16) float shared[];
  __shared__ float warp_sums[kWarps][4];
  float* const weights = shared + kRows * kPitchOfUnits;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int plane = h / 2 * (w / 2), features = k * plane, first_row = blockIdx.x * kRows;
  const Slab slab(blockIdx.y * kChannels, k, plane);
  const int columns = (8 * slab.tiles + kColumns - 1) / kColumns * kColumns;
  copy_weights(weights, w1, slab.begin, columns, units, features, pitch);
  float gammas[kChannels], betas[kChannels];
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    gammas[c] = gamma[min(slab.channel + c, k - 1)];
    betas[c] = beta[min(slab.channel + c, k - 1)];
  }
  const auto inverts = [&](int c) {
    const float size = fabsf(c > 0 ? gammas[1] : gammas[0]);
    return size > 1e-20f && 4.0f * size >= fabsf(c > 0 ? betas[1] : betas[0]);
  };
  // Pairs of `out` and of dx: i % 2 selects the row, i / 2 the tile.
  Pair outputs[2 * kTiles];
  const auto row_of = [&](int i) { return first_row + lane / 4 + i % 2 * 8; };
  const auto column_of = [&](int i, int first) { return first + i / 2 * 8 + lane % 4 * 2; };
  const auto load_outputs = [&](int first) {
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const int column = min(slab.begin + column_of(i, first), features - 2);
      outputs[i] = *warpwise::packs<8>(out + static_cast<long long>(min(row_of(i), n - 1)) * features + column);
    }
  };
  load_outputs(warp * kColumns);
  const unsigned of_warp = warpwise::shared_address(shared + warp * kPitchOfUnits + 4 * lane);

  warpwise::wait_for_previous_kernel();
#pragma unroll
  for (int i = 0; i < kRows / kWarps; ++i) {
    const int row = first_row + warp + i * kWarps;
    const bool inside = row < n && 4 * lane < units;
    const float* const from = inside ? d_hidden + static_cast<long long>(row) * units + 4 * lane : w1;
    warpwise::mma::cp_async<16>(of_warp + 4 * i * kWarps * kPitchOfUnits, from, inside);
  }
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();

  float totals[4] = {};  // the sums of g, then of g (out - beta), of both channels
#pragma unroll 1
  for (int first = warp * kColumns; first < columns; first += kUnits) {
    if (columns > kUnits) load_outputs(first);
    float products[kTiles][4] = {};
    multiply<false>(products, shared, kPitchOfUnits, weights + first, pitch, kUnits / 8);
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const int row = row_of(i), column = column_of(i, first) - slab.skipped;
      float* const to = dx + static_cast<long long>(row) * features + slab.channel * plane + column;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const bool exists = row < n && column + e >= 0 && column + e < slab.count * plane;
        const bool second = column + e >= plane;
        const float product = products[i / 2][i % 2 * 2 + e], value = outputs[i].at[e];
        if (exists) to[e] = product;
        const float g = exists && value > 0.0f ? product : 0.0f;
        const float dot = g != 0.0f ? g * (value - (second ? betas[1] : betas[0])) : 0.0f;
        totals[0] += second ? 0.0f : g;
        totals[1] += second ? g : 0.0f;
        totals[2] += second ? 0.0f : dot;
        totals[3] += second ? dot : 0.0f;
      }
    }
  }
#pragma unroll 1
  for (int c = 0; c < slab.count; ++c) {
    if (inverts(c)) continue;
    __syncthreads();  // the block's part of dx is complete
    const int channel = slab.channel + c;
    const float rstd = rsqrtf(var[channel] + eps);
    const Channel of = {mean[channel], gamma[channel] * rstd, beta[channel]};
    float dot = 0.0f;
#pragma unroll 1
    for (int row = first_row + warp; row < min(n, first_row + kRows); row += kWarps) {
      const long long at = static_cast<long long>(row) * k + channel;
#pragma unroll 1
      for (int window = lane; window < plane; window += kWarp) {
        if (out[at * plane + window] > 0.0f)
          dot += dx[at * plane + window] * normal_at_maximum(y + at * h * w, w, window, of, rstd);
      }
    }
    totals[2] = c > 0 ? totals[2] : dot;
    totals[3] = c > 0 ? dot : totals[3];
  }
  const float total = warpwise::transposed_sum(totals);  // lanes 8 i to 8 i + 7: number i
  if (lane % 8 == 0) warp_sums[warp][lane / 8] = total;
  __syncthreads();
  const int c = threadIdx.x % kChannels;
  if (threadIdx.x >= 2 * kChannels || c >= slab.count) return;
  float sum = 0.0f;
#pragma unroll
  for (int other = 0; other < kWarps; ++other) sum += warp_sums[other][threadIdx.x];
  if (threadIdx.x >= kChannels && inverts(c)) sum /= c > 0 ? gammas[1] : gammas[0];
  sums[((slab.channel + c) * static_cast<int>(gridDim.x) + blockIdx.x) * 2 + threadIdx.x / kChannels] = sum;
}
