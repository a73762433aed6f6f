// Every point takes the smallest number among itself and its neighbours, round after round, in one cooperative launch.
//
// A number moves at least one edge a round; following it once more (the number of the point with that number) about
// doubles the distance. The grid synchronises once a round, and ends when no number has changed.

#include <cooperative_groups.h>

// output: (n) = the smallest number of a point of the region, of equal labels: (n), that contains the point. root and
// next: (n) hold the numbers of the last round and of this one. flags: three zeros. Cooperative grid.
__global__ void __launch_bounds__(256) components_propagation(const int* labels, const int* rowptr, const int* columns,
                                                              int* root, int* next, int* output, int* flags, int n) {
  const auto grid = cooperative_groups::this_grid();
  const int first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
  for (int i = first; i < n; i += step) root[i] = i;
  grid.sync();
  for (int round = 0;; ++round) {
    bool changed = false;
    for (int i = first; i < n; i += step) {
      const int label = labels[i];
      int smallest = root[i];
      const int old = smallest;
      for (int edge = rowptr[i]; edge < rowptr[i + 1]; ++edge) {
        const int j = columns[edge];
        if (labels[j] == label) smallest = min(smallest, root[j]);
      }
      smallest = min(smallest, root[smallest]);
      next[i] = smallest;
      changed |= smallest != old;
    }
    if (changed) atomicExch(flags + round % 3, 1);
    grid.sync();
    const bool done = flags[round % 3] == 0;
    if (first == 0) flags[(round + 2) % 3] = 0;  // the flag of the last round, which all threads have read
    int* const swapped = root;
    root = next;
    next = swapped;
    if (done) break;
  }
  for (int i = first; i < n; i += step) output[i] = root[i];
}
