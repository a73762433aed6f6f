// TF32 wgmma with the A operand in registers. sm_90a only.
#pragma once

namespace warpwise {
namespace sm90 {

#define WW_D4 "%0, %1, %2, %3"
#define WW_D8 WW_D4 ", %4, %5, %6, %7"
#define WW_D16 WW_D8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WW_D32 WW_D16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WW_D64                                                                                                  \
  WW_D32                                                                                                        \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, " \
  "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WW_D96                                                                                                  \
  WW_D64                                                                                                        \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, " \
  "%85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WW_D128                                                                                                \
  WW_D96                                                                                                       \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, " \
  "%114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WW_SUMS4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WW_SUMS16(i) WW_SUMS4(i), WW_SUMS4(i + 4), WW_SUMS4(i + 8), WW_SUMS4(i + 12)
#define WW_SUMS_4 WW_SUMS4(0)
#define WW_SUMS_8 WW_SUMS4(0), WW_SUMS4(4)
#define WW_SUMS_16 WW_SUMS16(0)
#define WW_SUMS_32 WW_SUMS16(0), WW_SUMS16(16)
#define WW_SUMS_64 WW_SUMS_32, WW_SUMS16(32), WW_SUMS16(48)
#define WW_SUMS_96 WW_SUMS_64, WW_SUMS16(64), WW_SUMS16(80)
#define WW_SUMS_128 WW_SUMS_96, WW_SUMS16(96), WW_SUMS16(112)
#define WW_WGMMA_RS(N, COUNT, A0, A1, A2, A3, B, ADDS)                                 \
  if constexpr (WIDTH == N)                                                            \
  asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #ADDS                        \
               ", 0;\n"                                                                \
               "wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" WW_D##COUNT \
               "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", adds, 1, 1;\n}"  \
               : WW_SUMS_##COUNT                                                       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)))

// D = A B, or D += A B if `adds`. A (64, 8) is in registers, B (8, WIDTH) in shared memory, K-major. Of the warp's 16
// rows, lane l has in a[0] and a[1] rows l / 4 and l / 4 + 8 at k = l % 4, in a[2] and a[3] the same rows at k = l % 4
// + 4.
template <int WIDTH>
__device__ inline void wgmma_rs(float (&d)[WIDTH / 2], const unsigned (&a)[4], unsigned long long b, bool adds) {
  static_assert(WIDTH == 8 || WIDTH == 16 || WIDTH == 32 || WIDTH == 64 || WIDTH == 128 || WIDTH == 192 || WIDTH == 256,
                "one of the widths below");
  WW_WGMMA_RS(8, 4, 4, 5, 6, 7, 8, 9);
  WW_WGMMA_RS(16, 8, 8, 9, 10, 11, 12, 13);
  WW_WGMMA_RS(32, 16, 16, 17, 18, 19, 20, 21);
  WW_WGMMA_RS(64, 32, 32, 33, 34, 35, 36, 37);
  WW_WGMMA_RS(128, 64, 64, 65, 66, 67, 68, 69);
  WW_WGMMA_RS(192, 96, 96, 97, 98, 99, 100, 101);
  WW_WGMMA_RS(256, 128, 128, 129, 130, 131, 132, 133);
}
#undef WW_WGMMA_RS
#undef WW_SUMS_128
#undef WW_SUMS_96
#undef WW_SUMS_64
#undef WW_SUMS_32
#undef WW_SUMS_16
#undef WW_SUMS_8
#undef WW_SUMS_4
#undef WW_SUMS16
#undef WW_SUMS4
#undef WW_D128
#undef WW_D96
#undef WW_D64
#undef WW_D32
#undef WW_D16
#undef WW_D8
#undef WW_D4

}  // namespace sm90
}  // namespace warpwise
