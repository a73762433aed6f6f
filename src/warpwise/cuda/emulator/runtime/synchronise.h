// Synchronisation through memory by the PTX memory model: a release pattern at a word, and an acquire pattern that
// reads the word, order what precedes the release before what follows the acquire.
//
//   release: a fence and a later strong write or read-modify-write by the same thread, or a write with .release
//   acquire: a strong read or read-modify-write and a later fence by the same thread, or a read with .acquire
//
// The scope of a pattern is the narrower of the scopes of the fence and of the access. The scope of each pattern must
// include the other thread. A read-modify-write continues the release sequence of the word. Three extensions accept
// common code that hardware executes as intended. A fence counts for the threads that a barrier orders after it. After
// a barrier, the fences of all threads acquire at the flags that one of them has read. A volatile or atomic read of
// data needs no fence after the read of the flag.
#pragma once
#include "state.h"

namespace ww {

enum Scope : int { kBlockScope, kDeviceScope };  // cluster scope is treated as device scope
enum class Operation { kRead, kWrite, kUpdate };
enum : unsigned { kRelaxed = 0, kAcquire = 1, kRelease = 2 };

// Records a strong access of the running thread, with the semantics `order`. Call it before the access is checked.
void synchronise(Address address, size_t bytes, Operation operation, Scope scope, unsigned order, int line,
                 bool compares = false);  // compares: a compare-and-swap, which takes a lock
void withdraw_release();                  // the last atomicCAS has failed, so it is a read
// Records that the running thread reads the strong write of another thread, if one wrote the word last.
void note_observed(Address address);
void note_observed(const Slot& slot, Address address, uint64_t write);  // the write that it has read
bool has_observed(Address word, uint64_t write);                        // a thread of the block has
void note_update(Address address, uint64_t write);                      // by an atomic, in global memory
bool is_withheld(uint64_t stamp);  // the write precedes a release whose scope did not include the running block
void release_fence(Scope scope);
void acquire_fence(Scope scope);
// What precedes the last fence of the block's threads in the epoch that ends stays released in later epochs.
void keep_fences(Block& block);
// A barrier among threads of a block.
void share_knowledge(Block& block, const std::vector<unsigned>* threads);
void share_with_cluster(const Cluster& cluster);
void forget_all();  // all accesses so far are ordered before all that follow
void start_knowledge_of(Block& block);
// True if the access happens before the next one of the running thread, by synchronisation through memory. `strong`:
// the running thread's access is strong.
bool is_known(uint64_t stamp, bool strong);
// A proxy fence of the thread: the writes that happen before it become visible to the async proxy. is_proxy_fenced: for
// writes to global memory; a fence by any thread of the writing block, in the epoch of the write or later, counts as
// well.
void note_proxy_fence(const Thread& thread);
bool is_proxy_fenced(const Block& reader, uint64_t stamp);
// Reports an atomic of scope block on a word that another block has accessed by an atomic, and the reverse. Call it
// before the access is recorded.
void check_scope(Address address, unsigned bytes, Scope scope, Address pc, int line);
void note_narrow(Address address, uint64_t stamp);  // an atomic of scope block has changed the word
// Sets `to` to the reason why the accesses are not ordered, if the threads attempt to synchronise.
void explain_race(uint64_t other, char* to, size_t size);

}  // namespace ww
