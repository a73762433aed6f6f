// The definition: one thread per point and restart, atomics for the moments. Values are recomputed.

// The support of domain k of point i: sum_j w_ij (V q_j)_k. q points to the restart's first row; rows are `row` apart.
__device__ float support_of(const float* q, long long row, const int* rowptr, const int* columns, const float* weights,
                            const float* interaction, int i, int k, int domains) {
  float support = 0.0f;
  for (int edge = rowptr[i]; edge < rowptr[i + 1]; ++edge) {
    const float weight = weights ? weights[edge] : 1.0f;
    const float* const neighbour = q + columns[edge] * row;
    if (!interaction) {
      support += weight * neighbour[k];
      continue;
    }
    for (int l = 0; l < domains; ++l) support += weight * neighbour[l] * interaction[l * domains + k];
  }
  return support;
}

// q: (n, restarts, domains), whose rows begin to end are replaced. features: (n, width), linear: (restarts, domains,
// width) and constant: (restarts, domains); or features: (n, restarts, domains), the scores, and linear null. beta:
// (restarts); external: rows of domains, external_row apart from point to point, external_restart from restart to
// restart. weights, interaction, counts, sums, derivatives and near may be null. counts: (restarts, domains), sums:
// (restarts, domains, width) and derivatives: (2, restarts) are added to; near: (rows from near_begin on, restarts,
// domains). Grid: cdiv((end - begin) * restarts, block).
__global__ void potts_em_step_thread_per_point(float* q, const float* features, const float* linear,
                                               const float* constant, const int* rowptr, const int* columns,
                                               const float* weights, const float* beta, const float* external,
                                               const float* interaction, float* counts, float* sums, float* derivatives,
                                               float* near, int begin, int end, int near_begin, int restarts,
                                               int domains, int width, long long external_row,
                                               long long external_restart, float temper) {
  const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (thread >= static_cast<long long>(end - begin) * restarts) return;
  const int i = begin + static_cast<int>(thread / restarts), r = static_cast<int>(thread % restarts);
  const long long row = static_cast<long long>(restarts) * domains;
  float* const own = q + i * row + r * domains;
  const float* const field = external + i * external_row + r * external_restart;
  const auto support = [=](int k) {
    return support_of(q + r * domains, row, rowptr, columns, weights, interaction, i, k, domains);
  };

  float highest = __int_as_float(0xff800000), highest_prior = highest;
  for (int k = 0; k < domains; ++k) {
    float score = 0.0f;
    if (linear) {
      const float* const coefficients = linear + static_cast<long long>(r * domains + k) * width;
      for (int d = 0; d < width; ++d) score += features[static_cast<long long>(i) * width + d] * coefficients[d];
      score += constant[r * domains + k];
    } else {
      score = features[i * row + r * domains + k];
    }
    const float around = support(k), prior = beta[r] * around + field[k];
    own[k] = temper * score + prior;
    highest = fmaxf(highest, own[k]);
    highest_prior = fmaxf(highest_prior, prior);
    if (near) near[(i - near_begin) * row + r * domains + k] = around;
  }
  float total = 0.0f;
  for (int k = 0; k < domains; ++k) total += own[k] = expf(own[k] - highest);
  for (int k = 0; k < domains; ++k) own[k] /= total;

  for (int k = 0; linear && k < domains; ++k) {
    atomicAdd(counts + r * domains + k, own[k]);
    float* const sum = sums + static_cast<long long>(r * domains + k) * width;
    for (int d = 0; d < width; ++d) atomicAdd(sum + d, own[k] * features[static_cast<long long>(i) * width + d]);
  }
  if (!derivatives) return;
  float sum = 0.0f, first = 0.0f, second = 0.0f, observed = 0.0f;
  for (int k = 0; k < domains; ++k) {
    const float around = support(k), p = expf(beta[r] * around + field[k] - highest_prior);
    sum += p;
    first += p * around;
    second += p * around * around;
    observed += own[k] * around;
  }
  atomicAdd(derivatives + r, observed - first / sum);
  atomicAdd(derivatives + restarts + r, second / sum - first / sum * (first / sum));
}
