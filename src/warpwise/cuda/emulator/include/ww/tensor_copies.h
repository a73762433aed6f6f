// The C++ names of Hopper's instructions in libcu++, on the PTX interpreter: what cuda/barrier and cuda/ptx share.
#pragma once
#include "../warpwise_device.h"
#include "async.h"
#include "tensor_map_object.h"

namespace ww {
// Executes PTX without outputs, whose operands %0, %1, ... are the arguments. Addresses are generic.
template <class Text, class... T>
WW_INLINE void execute_ptx(Text text, const T&... values) {
  static ww_ptx_site site = {text(), 0, nullptr};
  ww_ptx_operand operands[] = {ptx_input(nullptr, "l", values)..., ww_ptx_operand{}};
  ww_ptx(&site, operands, sizeof...(values));
}
// The bits of a value of tensormap.replace: an integer or a pointer.
template <class T>
WW_INLINE uint64_t map_value(T value) {
  return static_cast<uint64_t>(value);
}
template <class T>
WW_INLINE uint64_t map_value(T* value) {
  return reinterpret_cast<uint64_t>(value);
}
// The same with one output of 32 bits, %0.
template <class Text, class... T>
WW_INLINE unsigned evaluate_ptx(Text text, const T&... values) {
  static ww_ptx_site site = {text(), 0, nullptr};
  unsigned result = 0;
  ww_ptx_operand operands[] = {{nullptr, "=r", &result, sizeof result, {}}, ptx_input(nullptr, "l", values)...};
  ww_ptx(&site, operands, 1 + sizeof...(values));
  return result;
}
WW_INLINE unsigned long long address_of(const void* pointer) { return reinterpret_cast<unsigned long long>(pointer); }

// Boxes of tensors of 1 to 5 dimensions; `at` begins with the innermost coordinate.
WW_INLINE void load_tensor(void* to, const void* map, const int (&at)[1], void* barrier) {
  execute_ptx(
      [] {
        return "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3}], "
               "[%2];";
      },
      address_of(to), address_of(map), address_of(barrier), at[0]);
}
WW_INLINE void load_tensor(void* to, const void* map, const int (&at)[2], void* barrier) {
  execute_ptx(
      [] {
        return "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
               "[%2];";
      },
      address_of(to), address_of(map), address_of(barrier), at[0], at[1]);
}
WW_INLINE void load_tensor(void* to, const void* map, const int (&at)[3], void* barrier) {
  execute_ptx(
      [] {
        return "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
               "%5}], [%2];";
      },
      address_of(to), address_of(map), address_of(barrier), at[0], at[1], at[2]);
}
WW_INLINE void load_tensor(void* to, const void* map, const int (&at)[4], void* barrier) {
  execute_ptx(
      [] {
        return "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
               "%5, %6}], [%2];";
      },
      address_of(to), address_of(map), address_of(barrier), at[0], at[1], at[2], at[3]);
}
WW_INLINE void load_tensor(void* to, const void* map, const int (&at)[5], void* barrier) {
  execute_ptx(
      [] {
        return "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
               "%5, %6, %7}], [%2];";
      },
      address_of(to), address_of(map), address_of(barrier), at[0], at[1], at[2], at[3], at[4]);
}
WW_INLINE void store_tensor(const void* map, const int (&at)[1], const void* from) {
  execute_ptx([] { return "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%2}], [%1];"; },
              address_of(map), address_of(from), at[0]);
}
WW_INLINE void store_tensor(const void* map, const int (&at)[2], const void* from) {
  execute_ptx([] { return "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"; },
              address_of(map), address_of(from), at[0], at[1]);
}
WW_INLINE void store_tensor(const void* map, const int (&at)[3], const void* from) {
  execute_ptx([] { return "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];"; },
              address_of(map), address_of(from), at[0], at[1], at[2]);
}
WW_INLINE void store_tensor(const void* map, const int (&at)[4], const void* from) {
  execute_ptx([] { return "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];"; },
              address_of(map), address_of(from), at[0], at[1], at[2], at[3]);
}
WW_INLINE void store_tensor(const void* map, const int (&at)[5], const void* from) {
  execute_ptx(
      [] { return "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"; },
      address_of(map), address_of(from), at[0], at[1], at[2], at[3], at[4]);
}

WW_INLINE void load_bytes(void* to, const void* from, unsigned bytes, void* barrier) {
  execute_ptx([] { return "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"; },
              address_of(to), address_of(from), bytes, address_of(barrier));
}
WW_INLINE void store_bytes(void* to, const void* from, unsigned bytes) {
  execute_ptx([] { return "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"; }, address_of(to),
              address_of(from), bytes);
}
WW_INLINE void commit_copies() {
  execute_ptx([] { return "cp.async.bulk.commit_group;"; });
}
template <int Pending>
WW_INLINE void wait_for_copies() {
  execute_ptx([] { return "cp.async.bulk.wait_group %0;"; }, Pending);
}
template <int Pending>
WW_INLINE void wait_for_reads() {
  execute_ptx([] { return "cp.async.bulk.wait_group.read %0;"; }, Pending);
}
WW_INLINE void fence_async_proxy() {
  execute_ptx([] { return "fence.proxy.async.shared::cta;"; });
}
WW_INLINE void expect_bytes(void* barrier, unsigned bytes) {
  execute_ptx([] { return "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"; }, address_of(barrier), bytes);
}
}  // namespace ww
