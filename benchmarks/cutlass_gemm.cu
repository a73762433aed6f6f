// C = A B with CUTLASS's collective builders for Hopper, built and called by `cutlass_opponent.py`.
//
// Macros: ELEMENT (cutlass::bfloat16_t), ROWS and COLUMNS (the tile of a block, whose K is 64), SCHEDULE (a member of
// cutlass::gemm) and EPILOGUE (a member of cutlass::epilogue).

#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>

using namespace cute;

using Element = ELEMENT;
using RowMajor = cutlass::layout::RowMajor;
using BlockTile = Shape<Int<ROWS>, Int<COLUMNS>, _64>;
using Blocks = Shape<_2, _1, _1>;
constexpr int kAlignment = 16 / sizeof(Element);

using Epilogue =
    cutlass::epilogue::collective::CollectiveBuilder<cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, BlockTile,
                                                     Blocks, cutlass::epilogue::collective::EpilogueTileAuto, float,
                                                     float, void, RowMajor, kAlignment, Element, RowMajor, kAlignment,
                                                     cutlass::epilogue::EPILOGUE>::CollectiveOp;
using Mainloop = cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, RowMajor, kAlignment, Element, RowMajor, kAlignment,
    float, BlockTile, Blocks,
    cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
    cutlass::gemm::SCHEDULE>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue,
                                                    cutlass::gemm::PersistentScheduler>;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

static typename Gemm::Arguments arguments(const void* a, const void* b, void* c, int m, int n, int k) {
  const auto stride = [](auto kind, int rows, int columns) {
    return cutlass::make_cute_packed_stride(kind, make_shape(rows, columns, 1));
  };
  typename Gemm::Arguments made{cutlass::gemm::GemmUniversalMode::kGemm,
                                {m, n, k, 1},
                                {static_cast<const Element*>(a), stride(typename Kernel::StrideA{}, m, k),
                                 static_cast<const Element*>(b), stride(typename Kernel::StrideB{}, n, k)},
                                {{}, nullptr, {}, static_cast<Element*>(c), stride(typename Kernel::StrideD{}, m, n)}};
  made.epilogue.thread.alpha = 1.0f;
  made.epilogue.thread.beta = 0.0f;
  return made;
}

extern "C" long long workspace_bytes(int m, int n, int k) {
  return static_cast<long long>(Gemm::get_workspace_size(arguments(nullptr, nullptr, nullptr, m, n, k)));
}

// Returns 0, or the cutlass::Status of the failure.
extern "C" int multiply(const void* a, const void* b, void* c, int m, int n, int k, void* workspace, void* stream) {
  Gemm gemm;
  const auto given = arguments(a, b, c, m, n, k);
  cutlass::Status status = gemm.can_implement(given);
  if (status == cutlass::Status::kSuccess)
    status = gemm.initialize(given, workspace, static_cast<cudaStream_t>(stream));
  if (status == cutlass::Status::kSuccess) status = gemm.run(static_cast<cudaStream_t>(stream));
  return static_cast<int>(status);
}
