// Creating, deduplicating and collecting reports; see report.h.
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "state.h"

namespace ww {

Report new_report(Kind kind, Address pc, int line) {
  Report report;
  memset(&report, 0, sizeof report);
  report.kind = kind;
  report.count = 1;
  report.access.pc = runtime.ptx ? runtime.ptx : pc;
  report.access.line = runtime.ptx ? 0 : line;
  report.access.action = kExecuted;
  if (runtime.block) copy_index(report.access.block, runtime.block->index);
  if (runtime.current) copy_index(report.access.thread, runtime.thread_index[runtime.current->id]);
  return report;
}

bool same_defect(const Report& a, const Report& b) {
  return a.kind == b.kind && a.access.pc == b.access.pc && a.other.pc == b.other.pc && a.access.line == b.access.line &&
         a.other.line == b.other.line && a.access.action == b.access.action && a.other.action == b.other.action &&
         !strcmp(a.variable, b.variable) && (a.kind != kSpecialValue || !strcmp(a.message, b.message)) &&
         (a.access.line || a.access.pc || !strcmp(a.message, b.message));
}

void add_report(const Report& report) {
  for (Report& known : runtime.reports)
    if (same_defect(known, report)) {
      known.count++;
      // A copy that its own thread has not waited for explains the races of other threads with it.
      if (report.other.action == kAsyncCopy && !*report.hint) *known.hint = 0;
      return;
    }
  if (runtime.reports.size() < runtime.max_findings) runtime.reports.push_back(report);
}

void set_message(Report& report, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(report.message, sizeof report.message, format, arguments);
  va_end(arguments);
}

void fatal_report(Report report, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(report.message, sizeof report.message, format, arguments);
  va_end(arguments);
  if (runtime.reports.size() >= runtime.max_findings && !runtime.reports.empty()) runtime.reports.pop_back();
  add_report(report);
  abort_launch();
}

void describe_wait(Side& side, const Thread& thread) {
  copy_index(side.thread, runtime.thread_index[thread.id]);
  copy_index(side.block, thread.block->index);
  side.action = kWait;
  side.pc = thread.ptx;
  side.line = thread.ptx ? 0 : thread.line;
  snprintf(side.label, sizeof side.label, "%s", thread.what);
}

}  // namespace ww
