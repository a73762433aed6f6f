// The definition in C, row by row: logits, maximum, sum of exponentials.

#include <math.h>

// x: (rows, features), w: (classes, features), b: (classes) or null, target: (rows), p: (rows, classes); loss, count:
// one element each.
void linear_cross_entropy(const float* x, const float* w, const float* b, const long long* target, float* loss,
                          float* p, long long* count, long rows, long features, long classes, long ignore_index) {
  double total = 0;
  long long counted = 0;
  for (long row = 0; row < rows; ++row, x += features, p += classes) {
    float max = -INFINITY, sum = 0, chosen = NAN;
    for (long c = 0; c < classes; ++c) {
      float logit = b ? b[c] : 0.0f;
      for (long k = 0; k < features; ++k) logit += x[k] * w[c * features + k];
      p[c] = logit;
      max = fmaxf(max, logit);
      if (c == target[row]) chosen = logit;
    }
    for (long c = 0; c < classes; ++c) sum += p[c] = expf(p[c] - max);
    for (long c = 0; c < classes; ++c) p[c] /= sum;
    if (target[row] == ignore_index) continue;
    ++counted;
    total += logf(sum) - (chosen - max);
  }
  *loss = (float)(total / counted);
  *count = counted;
}
