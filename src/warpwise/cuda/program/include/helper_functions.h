// Timers, command-line arguments and comparisons as in the headers of NVIDIA's CUDA samples.
#pragma once
#include <math.h>

#include "helper_string.h"
#include "helper_timer.h"

// True if the norm of the difference is at most `epsilon` times that of the reference.
inline bool sdkCompareL2fe(const float* reference, const float* data, unsigned count, float epsilon) {
  double error = 0, norm = 0;
  for (unsigned i = 0; i < count; i++) {
    const double difference = double(reference[i]) - double(data[i]);
    error += difference * difference;
    norm += double(reference[i]) * double(reference[i]);
  }
  return norm > 0 && sqrt(error / norm) <= double(epsilon);
}
// True if at most the fraction `threshold` of the elements differ by more than `epsilon`.
template <class T, class S>
bool compareData(const T* reference, const T* data, unsigned count, S epsilon, float threshold) {
  unsigned wrong = 0;
  for (unsigned i = 0; i < count; i++) {
    const double difference = double(reference[i]) - double(data[i]);
    wrong += !(fabs(difference) <= double(epsilon));
  }
  return wrong <= threshold * float(count);
}
