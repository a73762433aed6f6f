// Compare-and-swap loops, which implement atomics that CUDA lacks, such as the minimum of floats. They begin with a
// weak read of the word that the compare-and-swap changes. If the value is old, the loop has one more iteration, so the
// read does not race with atomics.
#pragma once
#include "shadow.h"

namespace ww {

// True if one of the two accesses is a weak read and the other an atomic; `other`: the stamp of the earlier one.
bool may_be_expected(const AccessInfo& access, bool write, uint64_t other, bool other_wrote);
// Adds the report at the end of the launch, unless the location of the read is that of an expected value.
void suspect_read(const AccessInfo& access, bool write, uint64_t other, const Report& report);
// Call it before the running thread's compare-and-swap of the word is recorded.
void note_compare(const Cell& cell, Address word);
void report_suspect_reads();

}  // namespace ww
