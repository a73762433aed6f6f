// Shared memory by 32-bit address: the addresses that PTX takes, and vector loads and stores.
#pragma once

namespace warpwise {

// 32-bit address in the shared window.
__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// st.shared.v2: two adjacent 4-byte elements.
__device__ inline void st_shared_v2(unsigned address, int first, int second) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(first), "r"(second) : "memory");
}

// ld.shared.v4: 16 bytes.
__device__ inline void ld_shared_v4(float (&v)[4], unsigned address) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(address)
               : "memory");
}
__device__ inline void ld_shared_v4(unsigned (&v)[4], unsigned address) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(address)
               : "memory");
}

// ld.shared: 4 bytes.
__device__ inline unsigned ld_shared(unsigned address) {
  unsigned word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}

// st.shared: a float.
__device__ inline void st_shared(unsigned address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

// ldmatrix: four 8 x 8 matrices of 2-byte elements. Lane 8 i + j gives the address of row j of matrix i (16 bytes);
// r[i] of lane l holds elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of matrix i.
__device__ inline void ldmatrix_x4(unsigned (&r)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

// ldmatrix.trans: r[i] of lane l holds rows 2 (l % 4) and 2 (l % 4) + 1 of column l / 4.
__device__ inline void ldmatrix_x4_trans(unsigned (&r)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

}  // namespace warpwise
