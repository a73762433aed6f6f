// Weak reads of values that a compare-and-swap checks; see expected_reads.h.
#include "expected_reads.h"

#include <algorithm>
#include <unordered_set>

namespace ww {
namespace {

struct SuspectRead {
  uint64_t location;
  size_t position;  // among the reports
  Report report;
};

constexpr size_t kMaxSuspectReads = 64;
std::vector<SuspectRead> suspect_reads;
std::unordered_set<uint64_t> expected_places;  // of reads that were followed by a compare-and-swap of the same thread

}  // namespace

bool may_be_expected(const AccessInfo& access, bool write, uint64_t other, bool other_wrote) {
  const bool other_is_atomic = (other & kStrong) && (other & kLineFlag) && (other & kClockBits) != kInFlight;
  if (!write) return !access.strong && other_wrote && other_is_atomic;
  return access.strong && access.line > 0 && !other_wrote && !(other & kStrong);
}

void suspect_read(const AccessInfo& access, bool write, uint64_t other, const Report& report) {
  const uint64_t location = write ? other & kLocationBits : location_of(access.pc, access.line);
  if (!write) {
    runtime.current->suspect_word = access.address >> 2;
    runtime.current->suspect_location = location;
  }
  for (SuspectRead& known : suspect_reads)
    if (known.location == location && same_defect(known.report, report)) {
      known.report.count++;
      return;
    }
  if (suspect_reads.size() < kMaxSuspectReads) suspect_reads.push_back({location, runtime.reports.size(), report});
}

void note_compare(const Cell& cell, Address word) {
  const Thread& thread = *runtime.current;
  if (thread.suspect_word == word >> 2) expected_places.insert(thread.suspect_location);
  if (same_thread_and_epoch(cell.read, runtime.stamp) && !(cell.read & kStrong))
    expected_places.insert(cell.read & kLocationBits);
}

void report_suspect_reads() {
  size_t added = 0;
  for (const SuspectRead& each : suspect_reads) {
    if (each.location && expected_places.count(each.location)) continue;
    if (runtime.reports.size() >= runtime.max_findings) break;
    const size_t position = std::min(each.position + added++, runtime.reports.size());
    runtime.reports.insert(runtime.reports.begin() + static_cast<long>(position), each.report);
  }
  suspect_reads.clear();
  expected_places.clear();
}

}  // namespace ww
