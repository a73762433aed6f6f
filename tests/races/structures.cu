// Labels: see test_kernels.py. Copies of structures and vectors, several words at once.
struct Pair {
  short x, y;
};
struct Triple {
  int x, y, z;
};

// 1 64 race: write and write are not ordered
__device__ void pairs_of_two_values(int* data, int* flag) {
  Pair* pairs = (Pair*)data;
  Pair mine;
  mine.x = mine.y = threadIdx.x;
  pairs[100 + threadIdx.x] = mine;
  pairs[0] = pairs[100 + threadIdx.x];
}
// 1 64 ok
__device__ void pairs_of_one_value(int* data, int* flag) {
  Pair* pairs = (Pair*)data;
  Pair mine;
  mine.x = mine.y = 7;
  pairs[100 + threadIdx.x] = mine;
  pairs[0] = pairs[100 + threadIdx.x];
}
// 1 64 race: write and write are not ordered
__device__ void vectors_of_two_values(int* data, int* flag) {
  int4* vectors = (int4*)data;
  vectors[8 + threadIdx.x] = make_int4(1, 2, 3, threadIdx.x);
  vectors[0] = vectors[8 + threadIdx.x];
}
// 1 64 ok
__device__ void vectors_of_one_value(int* data, int* flag) {
  int4* vectors = (int4*)data;
  vectors[8 + threadIdx.x] = make_int4(1, 2, 3, 4);
  vectors[0] = vectors[8 + threadIdx.x];
}
// 1 64 race: write and write are not ordered
__device__ void triples_of_two_values(int* data, int* flag) {
  Triple* triples = (Triple*)data;
  triples[8 + threadIdx.x].z = threadIdx.x;
  triples[0] = triples[8 + threadIdx.x];
}
// 1 64 ok
__device__ void triples_of_one_thread(int* data, int* flag) {
  Triple* triples = (Triple*)data;
  triples[8 + threadIdx.x].z = threadIdx.x;
  if (threadIdx.x == 0) triples[0] = triples[8];
}
// 1 64 ok
__device__ void overlap_of_equal_values(int* data, int* flag) {
  int2* pairs = (int2*)(data + threadIdx.x * 2);
  *pairs = make_int2(5, 5);
  if (threadIdx.x < 32) data[2 * threadIdx.x + 1] = 5;
}
