// The same loops in C, interchanged and blocked for the cache: the inner loop walks along rows of b and c.
//
// The innermost loop accesses consecutive elements of b and c, so the compiler vectorises it. The 64 x 64 block of b
// (16 KB) stays in the L1 cache while all rows of a are multiplied by it.

#include <string.h>

enum { BLOCK = 64 };

static long min_long(long a, long b) { return a < b ? a : b; }

// a: (m, k), b: (k, n), c: (m, n), row-major, not overlapping.
void matmul(const float* restrict a, const float* restrict b, float* restrict c, long m, long n, long k) {
  memset(c, 0, sizeof(float) * m * n);
  for (long first = 0; first < k; first += BLOCK) {
    const long past = min_long(first + BLOCK, k);
    for (long first_column = 0; first_column < n; first_column += BLOCK) {
      const long past_column = min_long(first_column + BLOCK, n);
      for (long i = 0; i < m; ++i) {
        for (long p = first; p < past; ++p) {
          const float a_value = a[i * k + p];
          for (long j = first_column; j < past_column; ++j) c[i * n + j] += a_value * b[p * n + j];
        }
      }
    }
  }
}
