// The same loops in C, in an order and in blocks that suit a cache: b and c are walked along their rows.
//
// The innermost loop runs over neighbours of b and c, so the compiler vectorises it, and the 64 x 64 block of b (16 KB)
// that a block of rows needs stays in the first-level cache.

#include <string.h>

enum { BLOCK = 64 };

static long least(long a, long b) { return a < b ? a : b; }

// a: (m, k), b: (k, n), c: (m, n), row-major, not overlapping.
void matmul(const float* restrict a, const float* restrict b, float* restrict c, long m, long n, long k) {
  memset(c, 0, sizeof(float) * m * n);
  for (long first = 0; first < k; first += BLOCK) {
    const long past = least(first + BLOCK, k);
    for (long left = 0; left < n; left += BLOCK) {
      const long right = least(left + BLOCK, n);
      for (long i = 0; i < m; ++i) {
        for (long p = first; p < past; ++p) {
          const float a_value = a[i * k + p];
          for (long j = left; j < right; ++j) c[i * n + j] += a_value * b[p * n + j];
        }
      }
    }
  }
}
