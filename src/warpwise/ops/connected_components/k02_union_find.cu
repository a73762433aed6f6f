// A forest of regions: each edge links the larger root of its two points to the smaller one, by an atomic minimum.
//
// No rounds: three launches, whatever the shape of the regions. A parent has a smaller number than its children, and
// concurrent links can only lower a parent, so that the root of a region is its smallest point in any order of the
// threads.

// parent: (n) = the first neighbour with the same label and a smaller number, or the point itself. Most points of a
// compact region are linked by it. Grid: any x >= n threads.
__global__ void __launch_bounds__(256) components_first_parents(const int* labels, const int* rowptr,
                                                                const int* columns, int* parent, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int label = labels[i];
  int found = i;
  for (int edge = rowptr[i]; edge < rowptr[i + 1] && found == i; ++edge) {
    const int j = columns[edge];
    if (j < i && labels[j] == label) found = j;
  }
  parent[i] = found;
}

// The root of i. Other threads may link it meanwhile.
__device__ inline int root_of(const volatile int* parent, int i) {
  for (int up = parent[i]; up != i; up = parent[i]) i = up;
  return i;
}

// Links the regions of the points of each edge of equal labels. Grid: any x >= n threads.
__global__ void __launch_bounds__(256) components_link(const int* labels, const int* rowptr, const int* columns,
                                                       int* parent, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int label = labels[i];
  for (int edge = rowptr[i]; edge < rowptr[i + 1]; ++edge) {
    const int j = columns[edge];
    if (j >= i || labels[j] != label) continue;  // the edge is linked from its other end
    int a = root_of(parent, i), b = root_of(parent, j);
    while (a != b) {
      if (a < b) {
        const int larger = b;
        b = a;
        a = larger;
      }
      const int old = atomicMin(parent + a, b);
      if (old == a) break;       // a was a root
      a = root_of(parent, old);  // another thread had linked a: both of its parents belong to one region
      b = root_of(parent, b);
    }
  }
}

// output: (n) = the roots. Grid: any x >= n threads.
__global__ void __launch_bounds__(256) components_roots(const int* parent, int* output, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int root = parent[i];
  while (parent[root] != root) root = parent[root];
  output[i] = root;
}
