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
  report.access.pc = pc;
  report.access.line = line;
  report.access.action = kExecuted;
  if (world.block) copy_index(report.access.block, world.block->index);
  if (world.current) copy_index(report.access.thread, world.thread_index[world.current->id]);
  return report;
}

static bool same(const Report& a, const Report& b) {
  return a.kind == b.kind && a.access.pc == b.access.pc && a.other.pc == b.other.pc && a.access.line == b.access.line &&
         a.other.line == b.other.line && a.access.action == b.access.action && a.other.action == b.other.action &&
         !strcmp(a.variable, b.variable) && (a.access.line || a.access.pc || !strcmp(a.message, b.message));
}

void add_report(const Report& report) {
  for (Report& known : world.reports)
    if (same(known, report)) {
      known.count++;
      return;
    }
  if (world.reports.size() < world.max_findings) world.reports.push_back(report);
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
  if (world.reports.size() >= world.max_findings && !world.reports.empty()) world.reports.pop_back();
  add_report(report);
  leave_launch();
}

}  // namespace ww
