// One input channel, no gradient of it: dw, dgamma and dbeta follow from sums over windows and the input's moments.
//
// With g the gradient of the normalised value at the maximum of a window and p the patch of that pixel, A = sum g p and
// S = sum g are ten sums for each filter. m and C are the mean and the covariance of all patches:
//   dbeta = S, dgamma = rstd w . (A - S m), dw = gamma rstd (A - S m - rstd dgamma C w) + dmean m + 2 dvar C w.
// A - S m and C are the same for z = p - o. The convolution is computed again for the maxima, but never stored.

#include <warpwise/core/previous_kernel.cuh>

#include "../one_channel.cuh"

constexpr int kThreads = 256, kEach = 2;  // kEach filters per warp
constexpr int kWarps = kThreads / warpwise::kWarp;
constexpr int kFilterSums = one_channel::kTaps + 1;  // A and S

// Blocks below `blocks` compute the sums of filters over the windows of `share` units: sums: (k, blocks splits,
// kFilterSums), with `splits` warps per group. The other blocks compute the moments of x over `moment_share` units:
// moments: (gridDim.x - blocks, kPart). If KNOWN, `given`: (kMoments) holds the moments, and no block computes them.
// Grid: (blocks and moment blocks, tiles of kEach filters for each of 2^group_bits groups). With blocks of both kinds,
// the launch is an ordinary one, which places one of each kind on an SM. Programmatic dependent launch would place
// them wherever a slot becomes free.
template <int VECTOR, bool KNOWN>
__global__ void __launch_bounds__(kThreads, 2) window_sums(const float* x, const float* f, const float* dy,
                                                           const float* mean, const float* var, const float* gamma,
                                                           const float* beta, const double* given, float* sums,
                                                           float* moments, int n, int h, int w, int k, int pitch,
                                                           int rows, int bands, int each, int share, int blocks,
                                                           int moment_rows, int moment_bands, int moment_each,
                                                           int moment_share, int group_bits, float eps) {
  extern __shared__ __align__(16) float tile[];
  one_channel::Tiles<kThreads, VECTOR> tiles{x, h, w, rows, bands, each, pitch, 0.0f};
  auto* const windows = reinterpret_cast<unsigned*>(tile + each * (rows + 2) * pitch);
  if constexpr (KNOWN) {
    one_channel::list_windows(windows, tiles, w / 2);
    warpwise::wait_for_previous_kernel();
  }
  const float sample = KNOWN ? one_channel::origin_at(given) : one_channel::sample_of(x, n * h * w);
  if (!KNOWN && blockIdx.x >= blocks) {
    if (blockIdx.y > 0) return;
    tiles.rows = moment_rows;
    tiles.bands = moment_bands;
    tiles.each = moment_each;
    const int block = blockIdx.x - blocks, first = block * moment_share;
    one_channel::moment_sums(tile, tiles, sample, first, min(first + moment_share, n * moment_bands),
                             moments + block * one_channel::kPart);
    return;
  }
  const int warp = threadIdx.x / warpwise::kWarp, groups = 1 << group_bits;
  const int group = warp & (groups - 1), split = warp >> group_bits, splits = kWarps >> group_bits;
  const int filter = (blockIdx.y * groups + group) * kEach;
  const int lane = threadIdx.x % warpwise::kWarp + split * warpwise::kWarp, step = splits * warpwise::kWarp;
  const int oh = h / 2, ow = w / 2, plane = oh * ow;
  const int first = blockIdx.x * share, last = min(first + share, n * bands);
  int image = bands == 1 ? first : first / bands, band = first - image * bands;

  // Gradients are prefetched one window ahead.
  float gradients[kEach];
  const float* from[kEach];
  int count = 0;
  const auto fetch = [&](int i, int unit) {
    const int at = i + unit * ((k - 1) * plane);
#pragma unroll
    for (int j = 0; j < kEach; ++j) gradients[j] = from[j][at];
  };
  const auto begin = [&](int units) {
    const int above = band * rows / 2;
    count = units * min(rows / 2, oh - above) * ow;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      from[j] = dy + (static_cast<long long>(image) * k + min(filter + j, k - 1)) * plane + above * ow;
    }
    if (lane < count) fetch(lane, warpwise::quotient(lane, plane));  // image 0 of a tile that is a band
  };
  begin(min(each, last - first));
  tiles.load(tile, image, band * rows, min(each, last - first),
             [&] { tiles.origin = KNOWN ? sample : one_channel::origin_of(sample); });
  tiles.fill_border(tile);
  if (!KNOWN) one_channel::list_windows(windows, tiles, ow);

  float filters[kEach][one_channel::kTaps], constants[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int mine = min(filter + i, k - 1);
    const float scale = gamma[mine] * rsqrtf(var[mine] + eps);
    float total = 0.0f;
#pragma unroll
    for (int t = 0; t < one_channel::kTaps; ++t) {
      const float weight = f[mine * one_channel::kTaps + t];
      total += weight;
      filters[i][t] = weight * scale;
    }
    constants[i] = beta[mine] - (mean[mine] - total * tiles.origin) * scale;
  }
  __syncthreads();

  float values[warpwise::kWarp] = {};  // A and S of each filter
  for (int unit = first; unit < last; unit += each) {
    if (unit > first) {
      begin(min(each, last - unit));
      tiles.load(tile, image, band * rows, min(each, last - unit));
      __syncthreads();
    }
    for (int i = lane; i < count; i += step) {
      float patch[4][4], dys[kEach];
#pragma unroll
      for (int j = 0; j < kEach; ++j) dys[j] = gradients[j];
      if (i + step < count) fetch(i + step, windows[i + step] >> 16);
      one_channel::read_patch(patch, tile + (windows[i] & 0xffff), pitch);
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        float y[4];
        one_channel::responses(y, patch, filters[j], constants[j]);
        // The first maximum above 0: g goes to patches that begin in row 0 or row 1, and in column 0 or 1.
        const float upper = fmaxf(y[0], y[1]), lower = fmaxf(y[2], y[3]), best = fmaxf(upper, lower);
        const bool below = lower > upper, right = best > (below ? y[2] : y[0]);
        const float g = best > 0.0f ? dys[j] : 0.0f;
        const float g0 = below ? 0.0f : g, g1 = below ? g : 0.0f;
        float* const mine = values + kFilterSums * j;
        mine[one_channel::kTaps] += g;
#pragma unroll
        for (int column = 0; column < 3; ++column) {
          float chosen[4];
#pragma unroll
          for (int row = 0; row < 4; ++row) chosen[row] = right ? patch[row][column + 1] : patch[row][column];
#pragma unroll
          for (int row = 0; row < 3; ++row) {  // two FMAs; adding a sum of two products would take three instructions
            mine[3 * row + column] += g0 * chosen[row];
            mine[3 * row + column] += g1 * chosen[row + 1];
          }
        }
      }
    }
    __syncthreads();
    band += each;  // 1, or a number of images where they have one band
    image += bands == 1 ? band : band == bands;
    band = bands == 1 || band == bands ? 0 : band;
  }
  one_channel::reduce_values(values);
  const int at = threadIdx.x % warpwise::kWarp, one = filter + at / kFilterSums;
  if (at >= kEach * kFilterSums || one >= k) return;
  sums[(one * (blocks * splits) + blockIdx.x * splits + split) * kFilterSums + at % kFilterSums] = values[0];
}

// dw: (k, 9), dgamma, dbeta: (k) from the sums of window_sums: (k, parts, kFilterSums), and the moments, or their
// parts: (moment_parts, kPart), if they are not given. dmean, dvar: (k) or null; inverse = 1 / (n h w). Grid: k blocks.
// The first half of a block adds moments, the second those of the filter.
__global__ void __launch_bounds__(2 * kThreads) filter_gradients(const float* sums, const double* given,
                                                                 const float* moment_sums, const float* f,
                                                                 const float* var, const float* gamma,
                                                                 const float* dmean, const float* dvar, float* dw,
                                                                 float* dgamma, float* dbeta, int parts,
                                                                 int moment_parts, double inverse, float eps) {
  constexpr int kGroups = kThreads / kFilterSums;
  __shared__ double group_sums[kGroups][kFilterSums];
  __shared__ one_channel::Moments moments;
  const int filter = blockIdx.x, place = static_cast<int>(threadIdx.x) - kThreads;
  const int tap = min(static_cast<int>(threadIdx.x % warpwise::kWarp), one_channel::kTaps);  // the last is S
  const bool early = given && parts > 0;  // then the previous kernel is window_sums, which writes `sums` alone
  if (!early) warpwise::wait_for_previous_kernel();
  const double weight = tap < one_channel::kTaps ? f[filter * one_channel::kTaps + tap] : 0.0f;
  const float rstd = rsqrtf(var[filter] + eps), scale = gamma[filter] * rstd;
  if (given) one_channel::load_moments(moments, given);
  if (early) warpwise::wait_for_previous_kernel();
  if (place >= 0 && place < kGroups * kFilterSums) {
    double total[1] = {};
    const float* const from = sums + static_cast<long long>(filter) * parts * kFilterSums + place % kFilterSums;
    one_channel::add_parts(total, warpwise::packs<4>(from), place / kFilterSums, parts, kGroups, kFilterSums);
    group_sums[place / kFilterSums][place % kFilterSums] = total[0];
  }
  if (given) {
    __syncthreads();
  } else {
    one_channel::combine_moments(moments, moment_sums, moment_parts, inverse);
  }
  if (threadIdx.x >= warpwise::kWarp) return;

  double total = 0.0, spread = 0.0;
#pragma unroll
  for (int i = 0; i < kGroups; ++i) total += group_sums[i][tap];
  const double sum = __shfl_sync(warpwise::kFullMask, total, one_channel::kTaps);
  const bool is_tap = threadIdx.x < one_channel::kTaps;
  const double centre = is_tap ? moments.mean[tap] : 0.0, centred = is_tap ? total - sum * centre : 0.0;
#pragma unroll
  for (int other = 0; other < one_channel::kTaps; ++other) {
    const double along = __shfl_sync(warpwise::kFullMask, weight, other);
    if (is_tap) spread += moments.covariance[tap][other] * along;
  }
  double dot = weight * centred;
  for (int distance = warpwise::kWarp / 2; distance > 0; distance /= 2) {
    dot += __shfl_xor_sync(warpwise::kFullMask, dot, distance);
  }
  dot *= rstd;
  if (threadIdx.x == 0) {
    dgamma[filter] = static_cast<float>(dot);
    dbeta[filter] = static_cast<float>(sum);
  }
  if (!is_tap) return;
  double gradient = scale * (centred - rstd * dot * spread);
  if (dmean) gradient += dmean[filter] * (centre + moments.origin);
  if (dvar) gradient += 2.0 * dvar[filter] * spread;
  dw[filter * one_channel::kTaps + tap] = static_cast<float>(gradient);
}
