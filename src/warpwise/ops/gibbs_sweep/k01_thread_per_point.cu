// One thread per point, which computes each logit three times: for the maximum, for the sum, and for the draw.
//
// Each time it reads the labels of all neighbours again, so that no array of K elements per thread is needed.

#include <warpwise/core/numeric.cuh>

// For points begin to end, all of one colour: labels: (n) = the first domain whose cumulative probability exceeds the
// draw: (n) in [0, 1). Domain k has the probability softmax_k(scores + beta * near), near_k = sum_j w_ij V(z_j, k).
// scores: (n, domains). weights and interaction = V: (domains, domains) may be null: ones, and the identity. visits:
// (n, domains) or null: the element of the new label is incremented. Grid: any x >= (end - begin) threads.
__global__ void __launch_bounds__(256) gibbs_thread_per_point(const float* scores, const float* draws, int* labels,
                                                              int* visits, const int* rowptr, const int* columns,
                                                              const float* weights, const float* beta,
                                                              const float* interaction, int begin, int end,
                                                              int domains) {
  const int point = begin + static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (point >= end) return;
  const long long row = static_cast<long long>(point) * domains;
  const auto logit = [=](int k) {
    float near = 0.0f;
    for (int edge = rowptr[point]; edge < rowptr[point + 1]; ++edge) {
      const int label = labels[columns[edge]];
      const float weight = weights ? weights[edge] : 1.0f;
      if (interaction)
        near += weight * interaction[label * domains + k];
      else
        near += label == k ? weight : 0.0f;
    }
    return scores[row + k] + beta[0] * near;
  };
  float highest = warpwise::minus_infinity(), total = 0.0f;
  for (int k = 0; k < domains; ++k) highest = fmaxf(highest, logit(k));
  for (int k = 0; k < domains; ++k) total += expf(logit(k) - highest);
  const float target = draws[point] * total;
  float cumulated = 0.0f;
  int label = 0;
  for (int k = 0; k < domains; ++k) {
    cumulated += expf(logit(k) - highest);
    label += cumulated <= target;
  }
  label = min(label, domains - 1);
  labels[point] = label;
  if (visits) ++visits[row + label];
}
