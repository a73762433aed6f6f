// Few tiles: the blocks of a cluster divide K, in one launch; float32 on the CUDA cores, 2-byte types by mma.sync.
//
// A product of small m and n has too few tiles for the GPU, and one block takes long for a deep K. k17 divides K among
// programs and adds their sums by a second launch, which costs more than the product. Here the blocks that divide K
// are a cluster: they read each other's sums from distributed shared memory after one barrier. Any layout and
// alignment: cp.async copies 16, 4 or, through registers, 2 bytes.

#include <warpwise/sm80/gemm_mma.cuh>
#include <warpwise/sm80/gemm_simt.cuh>
#include <warpwise/sm80/gemm_split_k.cuh>

template <class T, int BM, int BN, int BK, int WM, int WN, int STAGES, bool A_K_MAJOR, bool B_K_MAJOR, int A_WORD,
          int B_WORD>
struct MainLoopOf {
  using Type = warpwise::gemm::MmaMainLoop<T, BM, BN, BK, WM, WN, STAGES, A_K_MAJOR, B_K_MAJOR, A_WORD, B_WORD>;
};
template <int BM, int BN, int BK, int WM, int WN, int STAGES, bool A_K_MAJOR, bool B_K_MAJOR, int A_WORD, int B_WORD>
struct MainLoopOf<float, BM, BN, BK, WM, WN, STAGES, A_K_MAJOR, B_K_MAJOR, A_WORD, B_WORD> {
  using Type = warpwise::gemm::SimtMainLoop<BM, BN, BK, WM, WN, STAGES, A_K_MAJOR, B_K_MAJOR, A_WORD, B_WORD>;
};

constexpr int threads_of(int bm, int bn, int wm, int wn) { return (bm / wm) * (bn / wn) * 32; }

// a: (m, k), b: (k, n), c: (m, n), c row-major. A_K_MAJOR: the rows of a are contiguous and a_stride elements apart,
// else its columns. B_K_MAJOR: the columns of b are contiguous and b_stride elements apart, else its rows. A_WORD,
// B_WORD: bytes per copy. C_ALIGNED: n is a multiple of 4. BM x BN x BK: block tile; WM x WN: warp tile. Grid: one
// block per tile of C.
template <class T, int BM, int BN, int BK, int WM, int WN, int STAGES, bool A_K_MAJOR, bool B_K_MAJOR, int A_WORD,
          int B_WORD, bool C_ALIGNED>
__global__ void __launch_bounds__(threads_of(BM, BN, WM, WN)) matmul_tile(const T* __restrict__ a, int a_stride,
                                                                          const T* __restrict__ b, int b_stride,
                                                                          T* __restrict__ c, int m, int n, int k,
                                                                          int tiles_m) {
  using Loop = typename MainLoopOf<T, BM, BN, BK, WM, WN, STAGES, A_K_MAJOR, B_K_MAJOR, A_WORD, B_WORD>::Type;
  warpwise::gemm::gemm_split_k<Loop, 1, C_ALIGNED>(a, a_stride, b, b_stride, c, m, n, k, tiles_m);
}

// The same by clusters of SPLIT blocks. Grid: SPLIT blocks per tile of C.
template <class T, int BM, int BN, int BK, int WM, int WN, int STAGES, bool A_K_MAJOR, bool B_K_MAJOR, int A_WORD,
          int B_WORD, bool C_ALIGNED, int SPLIT>
__global__ void __launch_bounds__(threads_of(BM, BN, WM, WN)) __cluster_dims__(SPLIT, 1, 1)
    matmul_cluster_split_k(const T* __restrict__ a, int a_stride, const T* __restrict__ b, int b_stride,
                           T* __restrict__ c, int m, int n, int k, int tiles_m) {
  using Loop = typename MainLoopOf<T, BM, BN, BK, WM, WN, STAGES, A_K_MAJOR, B_K_MAJOR, A_WORD, B_WORD>::Type;
  warpwise::gemm::gemm_split_k<Loop, SPLIT, C_ALIGNED>(a, a_stride, b, b_stride, c, m, n, k, tiles_m);
}
