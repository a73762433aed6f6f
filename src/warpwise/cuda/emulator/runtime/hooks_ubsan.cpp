// The interface of UndefinedBehaviorSanitizer's instrumentation (-fsanitize=bounds,alignment,integer-divide-by-zero,
// shift-exponent,return): the functions that a kernel calls when a check fails. The structures are laid out as the
// compiler emits them.
#include <stdlib.h>
#include <string.h>

#include "access.h"

using namespace ww;

namespace {

struct SourceLocation {
  const char* file;
  uint32_t line, column;
};
struct TypeDescriptor {
  uint16_t kind, info;  // info of an integer type: bit 0 is set if signed, the other bits are log2 of its width
  char name[1];
};
struct OutOfBoundsData {
  SourceLocation location;
  const TypeDescriptor *array, *index;
};
struct TypeMismatchData {
  SourceLocation location;
  const TypeDescriptor* type;
  uint8_t log2_alignment, kind;
};
struct OverflowData {
  SourceLocation location;
  const TypeDescriptor* type;
};
struct ShiftData {
  SourceLocation location;
  const TypeDescriptor *left, *right;
};

int place_of(const SourceLocation& location) {
  return ww_place(static_cast<int>(location.line), location.file ? location.file : "");
}

Report undefined(const SourceLocation& location, Address pc) {
  return new_report(kUndefinedBehaviour, pc, place_of(location));
}

long long as_signed(const TypeDescriptor& type, Address value) {
  if (!(type.info & 1)) return static_cast<long long>(value);
  const int unused = 64 - (1 << (type.info >> 1));
  return unused > 0 ? static_cast<long long>(value) << unused >> unused : static_cast<long long>(value);
}

void index_out_of_bounds(const OutOfBoundsData* data, Address index, Address pc) {
  Report report = undefined(data->location, pc);
  report.index = as_signed(*data->index, index);
  if (const char* extent = strchr(data->array->name, '[')) report.elements = atoll(extent + 1);
  fatal_report(report, "index %lld is out of bounds for type %s", as_signed(*data->index, index), data->array->name);
}

void type_mismatch(const TypeMismatchData* data, Address pointer, Address pc) {
  const unsigned alignment = 1u << data->log2_alignment;
  if (!pointer) {
    Report report = new_report(kOutOfBounds, pc, place_of(data->location));
    fatal_report(report, "null pointer");
  }
  if (!(pointer & (alignment - 1))) return;
  // nvcc raises a local array's alignment to that of its accesses (half pair[4] read as float2); g++ aligns only arrays
  // of 16 bytes and more.
  if (alignment <= 8 && in_stacks(pointer)) return;
  Report report = new_report(kMisalignedAccess, pc, place_of(data->location));
  report.access_bytes = alignment;
  report.access.action = data->kind == 1 ? kWrite : kRead;
  report.address = pointer;
  if (const Slot* slot = slot_of(pointer)) describe(report, *slot, pointer);
  fatal_report(report, "type %s requires an address that is a multiple of %u", data->type->name, alignment);
}

void division(const OverflowData* data, Address divisor, Address pc) {
  fatal_report(undefined(data->location, pc),
               divisor ? "integer division overflows (type %s)" : "integer division by zero (type %s)",
               data->type->name);
}

}  // namespace

// Each handler has a second form, _abort, for -fno-sanitize-recover.
#define WW_HANDLER(NAME, PARAMETERS, BODY)                                                          \
  extern "C" __attribute__((visibility("default"))) void __ubsan_handle_##NAME PARAMETERS {         \
    const Address pc = reinterpret_cast<Address>(__builtin_return_address(0));                      \
    BODY;                                                                                           \
  }                                                                                                 \
  extern "C" __attribute__((visibility("default"))) void __ubsan_handle_##NAME##_abort PARAMETERS { \
    const Address pc = reinterpret_cast<Address>(__builtin_return_address(0));                      \
    BODY;                                                                                           \
  }

WW_HANDLER(out_of_bounds, (OutOfBoundsData * data, Address index), index_out_of_bounds(data, index, pc))
WW_HANDLER(type_mismatch_v1, (TypeMismatchData * data, Address pointer), type_mismatch(data, pointer, pc))
WW_HANDLER(divrem_overflow, (OverflowData * data, Address, Address divisor), division(data, divisor, pc))
WW_HANDLER(shift_out_of_bounds, (ShiftData * data, Address, Address by),
           fatal_report(undefined(data->location, pc), "shift of type %s by %lld", data->left->name,
                        as_signed(*data->right, by)))
WW_HANDLER(builtin_unreachable, (SourceLocation * location),
           fatal_report(undefined(*location, pc), "the kernel reaches code that is marked unreachable"))
WW_HANDLER(missing_return, (SourceLocation * location),
           fatal_report(undefined(*location, pc), "a function ends without returning a value"))
