// The definition in C: one pass for the maximum, one for the sum, row by row.

#include <math.h>

// x: (rows, classes), target: (rows); loss, count: one element each.
void cross_entropy(const float* x, const long long* target, float* loss, long long* count, long rows, long classes,
                   long ignore_index) {
  double total = 0;
  long long counted = 0;
  for (long row = 0; row < rows; ++row, x += classes) {
    if (target[row] == ignore_index) continue;
    ++counted;
    if (target[row] < 0 || target[row] >= classes) {
      total = NAN;
      continue;
    }
    float max = x[0], sum = 0;
    for (long c = 1; c < classes; ++c) max = fmaxf(max, x[c]);
    for (long c = 0; c < classes; ++c) sum += expf(x[c] - max);
    total += logf(sum) - (x[target[row]] - max);
  }
  *loss = (float)(total / counted);
  *count = counted;
}
