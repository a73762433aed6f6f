// A cooperative launch whose blocks do nothing but wait for one another.

#include <cooperative_groups.h>

__global__ void grid_barriers(int count) {
  for (int i = 0; i < count; ++i) cooperative_groups::this_grid().sync();
}
