// The definition in C, row by row.

#include <math.h>

// dx = (softmax(x) - one_hot(target)) * grad / count. x, dx: (rows, classes), target: (rows); grad, count: one element.
void cross_entropy_backward(const float* grad, const float* x, const long long* target, const long long* count,
                            float* dx, long rows, long classes, long ignore_index) {
  for (long row = 0; row < rows; ++row, x += classes, dx += classes) {
    const float scale = target[row] == ignore_index ? 0 : *grad / (float)*count;
    float max = -INFINITY, sum = 0;
    for (long c = 0; c < classes; ++c) max = fmaxf(max, x[c]);
    for (long c = 0; c < classes; ++c) sum += dx[c] = expf(x[c] - max);
    for (long c = 0; c < classes; ++c) dx[c] = (dx[c] / sum - (c == target[row])) * scale;
  }
}
