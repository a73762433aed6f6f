// Loops of a compare-and-swap, which build atomics that CUDA lacks, such as the minimum of floats. They begin with a
// weak read of the word that the compare-and-swap changes. An old value only costs one more iteration, so the read does
// not race with atomics.
#pragma once
#include "shadow.h"

namespace ww {

// True for a weak read and an atomic; `other`: the stamp of the earlier access.
bool may_be_expected(const AccessInfo& access, bool write, uint64_t other, bool other_wrote);
// Adds the report at the end of the launch, unless the location of the read is that of an expected value.
void suspect_read(const AccessInfo& access, bool write, uint64_t other, const Report& report);
// Call it before the running thread's compare-and-swap of the word is recorded.
void note_compare(const Cell& cell, Address word);
void report_suspect_reads();

}  // namespace ww
