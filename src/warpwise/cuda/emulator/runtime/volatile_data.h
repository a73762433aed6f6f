// Volatile accesses do not race with each other in the PTX memory model: all are strong. Data in volatile memory that
// synchronisation should protect, and does not, is reported in these cases:
//
//   two writes      of different values, neither seen by the other side before its own write
//   lock            a block accesses a word under a lock and later writes it without the lock, while another thread
//                   accesses it under the same lock
//   handed over     a thread reads a word, releases, and reads it again; a thread that has acquired this release writes
//                   it. A word that the thread reads a third time is a flag that it polls
//
// The first case includes atomics: a volatile write that overwrites an atomic's result.
#pragma once
#include "shadow.h"

namespace ww {

bool is_volatile(const AccessInfo& access);
// True if the running thread's volatile access races with a strong write, or a volatile write with a strong read.
bool races_with_write(const AccessInfo& access, Address word, bool write, uint64_t other);
bool races_with_read(Address word, uint64_t read);
// The running thread, which has released since its read `before` of the word, reads it again.
void note_reread(Address word, uint64_t before, uint64_t again);
// True if the running thread writes a word that the thread of `read` has handed over.
bool is_handed_over(Address word, uint64_t read);
// Adds the report at the end of the launch, unless the thread of `read` reads the word again.
void suspect(Address word, uint64_t read, const Report& report);
// Records a volatile access. Call it after the access was checked.
void note_volatile(Address address, bool write);
void begin_section(Thread& thread, Address lock);  // a compare-and-swap has changed `lock`
void end_section(Thread& thread);
bool follows(uint64_t write, uint64_t other);  // `write` is by the thread of `other`, in the same fenced part or later
// The write that has freed the lock of the running thread, by the thread of the access `other` of its block and not
// certainly before this access, or 0.
uint64_t freed_lock(const Thread& thread, uint64_t other);
void report_suspects();
void forget_volatile();

}  // namespace ww
