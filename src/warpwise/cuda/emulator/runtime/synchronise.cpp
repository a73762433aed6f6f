// Synchronisation through memory; see synchronise.h.
#include "synchronise.h"

#include <stdio.h>

#include <algorithm>
#include <optional>

#include "shadow.h"
#include "volatile_data.h"

namespace ww {
namespace {

// What was released at a word: to every block, and to the threads of one block.
struct Word {
  Knowledge device, in_block;
  Knowledge withheld;  // what releases of a scope too small for other blocks did not release to them
  uint64_t block;      // of `in_block`
  uint64_t instance;   // of the block that wrote the word last
  uint64_t owner;      // of a word in shared memory: the instance of its block, else 0
  unsigned thread;
  int line;            // of the last release of a scope too small for other blocks, or 0
  bool narrow_access;  // of this release: the access has the small scope, not the fence
  uint64_t releasing;  // the stamp of the last write or update with .release
};

std::unordered_map<Address, Word> words;                     // by address / 4
std::unordered_map<Address, std::vector<uint64_t>> updates;  // stamps of the atomics on a word, to explain races
size_t update_count;                                         // at most kUpdates: a histogram would fill the memory
constexpr size_t kUpdates = 4096;
std::unordered_map<Address, uint64_t> narrow;  // stamps of the last atomic of scope block on a word, by address
bool too_narrow;                               // the race to explain is one of scopes of atomics

bool covers(const Knowledge& map, uint64_t stamp) {
  const Extent* extent = find_extent(map, block_number_of(epoch_of(stamp)));
  return extent && extent->contains(epoch_of(stamp), thread_of(stamp), clock_of(stamp));
}

bool grow(Knowledge& into, const Knowledge& from) {
  Knowledge joined = join(into, from);
  if (joined == into) return false;
  into = std::move(joined);
  return true;
}

// The words that an atomicCAS has changed here, as they were before it, until its result is known.
std::vector<std::pair<Address, std::optional<Word>>> before_swap;

// What the running thread releases with `scope`, or null if no fence of this scope precedes.
const Knowledge& released(Thread& thread, Scope scope) {
  Block& block = *thread.block;
  Released& cached = thread.released[scope];
  const uint32_t now = block.clocks.now(thread.id);
  if (cached.epoch == block.epoch && cached.clock == now && cached.known == thread.known) return cached.all;
  Extent own{block.epoch, {}};
  if (!block.clocks.released(thread.id, scope, own.clock)) own = block.fenced[scope];
  cached = {block.epoch, now, thread.known, nullptr};
  if (own.epoch) cached.all = with_extent(thread.known, block.number, std::move(own));
  return cached.all;
}

void acquire_observed(Thread& thread, Scope scope) {
  Block& block = *thread.block;
  thread.narrow_fence |= scope == kBlockScope && thread.observed[kDeviceScope];
  bool grown = grow(thread.known, thread.observed[kBlockScope]);
  thread.observed[kBlockScope].reset();
  if (scope == kDeviceScope) {
    grown |= grow(thread.known, thread.observed[kDeviceScope]);
    thread.observed[kDeviceScope].reset();
    thread.narrow_fence = false;
  }
  const Knowledge& rest = thread.observed[kDeviceScope];
  thread.takes_lock &= rest && join(thread.known, rest) != thread.known;
  if (!grown) return;
  const Extent* own = find_extent(thread.known, block.number);
  if (own && own->epoch == block.epoch) {
    block.clocks.acquire(thread.id, own->clock, {});
    refresh_stamp();
  }
}

void observe(Thread& thread, const Word& word, Scope scope) {
  Block& block = *thread.block;
  const bool same = word.block == block.number;
  if (scope == kDeviceScope && word.device && grow(thread.observed[kDeviceScope], word.device))
    block.synchronises = true;
  if (same && word.in_block && grow(thread.observed[kBlockScope], word.in_block)) block.synchronises = true;
  if (!same && word.line) block.failed = {word.line, word.withheld, word.narrow_access, false, true};
  if (scope == kBlockScope && word.device && word.instance != block.instance)
    block.failed = {0, word.device, true, true, true};
}

void publish(Thread& thread, Address at, Operation operation, Scope scope, int line, uint64_t owner, Word* word) {
  const Block& block = *thread.block;
  const Knowledge in_block = released(thread, kBlockScope);
  const Knowledge device = scope == kDeviceScope ? released(thread, kDeviceScope) : nullptr;
  if (!word) {
    if (!in_block && !device) return;
    word =
        &words.emplace(at, Word{nullptr, nullptr, nullptr, block.number, block.instance, owner, thread.id, 0, false, 0})
             .first->second;
    runtime.synchronised = true;
  }
  const bool continues =
      operation == Operation::kUpdate || (word->instance == block.instance && word->thread == thread.id);
  if (!continues) word->device = word->in_block = word->withheld = nullptr, word->line = 0;
  grow(word->device, device);
  if (word->block != block.number && (in_block || !continues)) {
    word->in_block = word->device;
    word->block = block.number;
  }
  if (word->block == block.number) grow(word->in_block, in_block);
  word->instance = block.instance;
  word->thread = thread.id;
  if (in_block && join(device, in_block) != device) {
    grow(word->withheld, in_block);
    word->line = line ? line : -1, word->narrow_access = scope == kBlockScope;
  }
}

}  // namespace

void synchronise(Address address, size_t bytes, Operation operation, Scope scope, unsigned order, int line,
                 bool compares) {
  if (!runtime.checks.races) return;
  Thread& thread = *runtime.current;
  Block& block = *thread.block;
  // Unlike a fence, a release or an acquire of a word does not affect other words.
  const uint32_t epoch = block.epoch;
  const VectorClocks::Fenced fenced = block.clocks.fenced(thread.id);
  if (order & kRelease) release_fence(scope);
  before_swap.clear();
  Knowledge of_others[2];
  if (order & kAcquire) std::swap(of_others, thread.observed);
  if (operation != Operation::kRead && thread.lock == address && thread.lock) end_section(thread);
  const bool may_release = operation != Operation::kRead && block.has_fenced;
  if (may_release || !words.empty()) {
    const Slot* slot = slot_of(address);
    const uint64_t owner = slot && slot->shared ? owner_of_shared(address).instance : 0;
    for (Address at = address >> 2; at <= (address + bytes - 1) >> 2; at++) {
      const auto found = words.find(at);
      Word* word = found == words.end() ? nullptr : &found->second;
      if (compares) before_swap.emplace_back(at, word ? std::optional(*word) : std::nullopt);
      if (word && word->owner != owner) {  // of a block that has exited
        words.erase(found);
        word = nullptr;
      }
      if (word && operation != Operation::kWrite) {
        observe(thread, *word, scope);
        note_observed(at << 2);
        thread.takes_lock |= compares;
      }
      if (operation != Operation::kRead && (word || may_release))
        publish(thread, at, operation, scope, line, owner, word);
      if (operation != Operation::kRead && (order & kRelease))
        if (const auto released = words.find(at); released != words.end()) released->second.releasing = runtime.stamp;
    }
  }
  if (order & kAcquire) {
    acquire_observed(thread, scope);
    for (int each = 0; each < 2; each++) grow(thread.observed[each], of_others[each]);
  }
  if ((order & kRelease) && block.epoch == epoch) {
    block.clocks.restore_fenced(thread.id, fenced);
    for (Released& cached : thread.released) cached.epoch = 0;
  }
}

void withdraw_release() {
  for (const auto& [at, word] : before_swap) {
    words.erase(at);
    if (word) words.emplace(at, *word);
  }
  before_swap.clear();
}

void release_fence(Scope scope) {
  Thread& thread = *runtime.current;
  Block& block = *thread.block;
  resolve_pending_store();
  block.clocks.fence(thread.id, scope);
  block.has_fenced = true;
  if (block.clocks.exhausted()) next_epoch(block);
  refresh_stamp();
}

void note_observed(Address address) {
  const Slot* slot = slot_with_cells(address);
  if (!slot || !slot->cells || address - slot->start >= slot->bytes) return;
  note_observed(*slot, address, cell_of(*slot, address)->write);
}

void note_observed(const Slot& slot, Address address, uint64_t write) {
  if (!(write & kStrong) || epoch_of(write) < runtime.epoch_floor[slot.shared]) return;
  if (same_thread_and_epoch(write, runtime.stamp)) return;
  runtime.block->observed_writes[address & ~Address{3}] = write;
}

bool has_observed(Address word, uint64_t write) {
  const auto found = runtime.block->observed_writes.find(word & ~Address{3});
  return found != runtime.block->observed_writes.end() && found->second == write;
}

bool is_withheld(uint64_t stamp) {
  const FailedSynchronisation& failed = runtime.block->failed;
  return failed.tried && block_number_of(epoch_of(stamp)) != runtime.block->number && covers(failed.released, stamp);
}

void acquire_fence(Scope scope) { acquire_observed(*runtime.current, scope); }

void keep_fences(Block& block) {
  if (!block.has_fenced) return;
  for (int scope = kBlockScope; scope <= kDeviceScope; scope++) {
    Extent ended{block.epoch, {}};
    if (block.clocks.all_released(scope, ended.clock)) block.fenced[scope] = std::move(ended);
  }
}

void share_knowledge(Block& block, const std::vector<unsigned>* threads) {
  if (!block.synchronises) return;
  const unsigned count = threads ? static_cast<unsigned>(threads->size()) : block.threads;
  Knowledge known, observed[2];
  bool narrow_fence = false;
  const auto member = [&](unsigned i) -> Thread& { return block.thread[threads ? (*threads)[i] : i]; };
  for (unsigned i = 0; i < count; i++) {
    const Thread& thread = member(i);
    grow(known, thread.known);
    for (int scope = 0; scope < 2; scope++) grow(observed[scope], thread.observed[scope]);
    narrow_fence |= thread.narrow_fence;
  }
  for (unsigned i = 0; i < count; i++) {
    Thread& thread = member(i);
    if (thread.known != known) thread.known = known;
    for (int scope = 0; scope < 2; scope++)
      if (thread.observed[scope] != observed[scope]) thread.observed[scope] = observed[scope];
    thread.narrow_fence = narrow_fence;
    for (Released& cached : thread.released) cached.epoch = 0;
  }
}

void share_with_cluster(const Cluster& cluster) {
  bool any = false;
  Knowledge known, observed[2];
  for (Block* block : cluster.blocks) any |= block && block->synchronises;
  if (!any) return;
  for (Block* block : cluster.blocks)
    for (unsigned i = 0; block && i < block->threads; i++) {
      grow(known, block->thread[i].known);
      for (int scope = 0; scope < 2; scope++) grow(observed[scope], block->thread[i].observed[scope]);
    }
  for (Block* block : cluster.blocks)
    for (unsigned i = 0; block && i < block->threads; i++) {
      block->synchronises = true;
      block->thread[i].known = known;
      for (int scope = 0; scope < 2; scope++) block->thread[i].observed[scope] = observed[scope];
    }
}

void start_knowledge_of(Block& block) {
  block.synchronises = block.has_fenced = false;
  block.fenced[0] = block.fenced[1] = {0, {}};
  block.proxy_fenced.reset();
  block.failed = {};
  block.observed_writes.clear();
  for (unsigned i = 0; i < block.threads; i++) {
    Thread& thread = block.thread[i];
    thread.known.reset();
    thread.narrow_fence = thread.takes_lock = false;
    thread.suspect_word = 0;
    thread.lock = 0;
    thread.section.clear();
    for (Knowledge& observed : thread.observed) observed.reset();
    for (Released& cached : thread.released) cached = {};
  }
}

void forget_all() {
  words.clear();
  before_swap.clear();
  updates.clear();
  update_count = 0;
  narrow.clear();
  forget_volatile();
  forget_foreign_readers();
  runtime.synchronised = false;
  for (Block* block : runtime.resident) start_knowledge_of(*block);
}

bool is_known(uint64_t stamp, bool strong) {
  const Thread& thread = *runtime.current;
  if (!thread.block->synchronises) return false;
  if (covers(thread.known, stamp)) return true;
  return strong && (covers(thread.observed[kBlockScope], stamp) || covers(thread.observed[kDeviceScope], stamp));
}

void note_proxy_fence(const Thread& thread) { grow(thread.block->proxy_fenced, thread.known); }

bool is_proxy_fenced(const Block& reader, uint64_t stamp) {
  const uint64_t writer = block_number_of(epoch_of(stamp));
  const auto found = runtime.proxy_fenced.find(writer);
  if (found != runtime.proxy_fenced.end() && found->second >= epoch_of(stamp)) return true;
  return writer != reader.number && covers(reader.proxy_fenced, stamp);
}

void check_scope(Address address, unsigned bytes, Scope scope, Address pc, int line) {
  const bool is_narrow = scope == kBlockScope;
  if ((!is_narrow && narrow.empty()) || !runtime.checks.races) return;
  Slot* slot = slot_with_cells(address);
  if (!slot || !slot->cells || slot->shared) return;
  const uint64_t other = cell_of(*slot, address)->write, block = runtime.block->number;
  if ((other & kStrong) && epoch_of(other) >= runtime.epoch_floor[0] && block_number_of(epoch_of(other)) != block) {
    const auto found = narrow.find(address);
    if ((is_narrow || (found != narrow.end() && found->second == other)) && unordered(other, false, true)) {
      too_narrow = true;
      report_race(*slot, {address, bytes, pc, true, line, false}, address, true, other, true);
      too_narrow = false;
    }
  }
}

void note_narrow(Address address, uint64_t stamp) { narrow[address] = stamp; }

void note_update(Address address, uint64_t write) {
  if (update_count == kUpdates) return;
  updates[address & ~Address{3}].push_back(write);
  update_count++;
}

// A strong write by the thread of the access `other`, after this access, that the running block has observed, or 0. The
// block has observed it if it has read the value, or a later value that contains it, such as that of a counter.
// `released` is true if a release of the word precedes `other`.
static uint64_t observed_flag(const Block& block, uint64_t other, bool& released) {
  for (const auto& [word, write] : block.observed_writes) {
    if (!follows(write, other)) continue;
    const auto found = words.find(word >> 2);
    released = found != words.end() && same_thread_and_epoch(found->second.releasing, write) &&
               clock_of(found->second.releasing) == clock_of(write) && clock_of(other) == clock_of(write);
    return write;
  }
  for (const auto& [word, writes] : updates) {
    uint64_t found = 0;
    bool observed = block.observed_writes.count(word) > 0;
    for (const uint64_t write : writes) {
      if (!found && follows(write, other)) found = write;
      observed |= found && block_number_of(epoch_of(write)) == block.number;
    }
    if (found && observed) return found;
  }
  return 0;
}

void explain_race(uint64_t other, char* to, size_t size) {
  const Thread& thread = *runtime.current;
  const Block& block = *thread.block;
  if (too_narrow) {
    snprintf(to, size, "an atomic of scope block is not atomic to other blocks: use scope device (no _block)");
    return;
  }
  if (covers(thread.observed[kDeviceScope], other) || covers(thread.observed[kBlockScope], other)) {
    snprintf(to, size, "%s",
             thread.narrow_fence
                 ? "the fence after the read of the flag has scope block, and the flag was set in another block: use "
                   "__threadfence()"
                 : "the flag was read, but no fence (acquire) follows the read");
    return;
  }
  const FailedSynchronisation& failed = block.failed;
  char line[32] = "";
  if (!is_withheld(other)) {
    bool released = false;
    const bool in_block = block_number_of(epoch_of(other)) == block.number;
    const uint64_t flag = in_block ? freed_lock(thread, other) : observed_flag(block, other, released);
    const int number = ww_line_of(place_of(flag));
    if (number > 0) snprintf(line, sizeof line, " at line %d", number);
    if (flag)
      snprintf(to, size,
               in_block   ? "no fence (release) separates the other access from the write%s that frees the lock: use "
                            "__threadfence() there and after taking it"
               : released ? "the flag was read, but the access of the other thread follows the release of the flag%s"
                          : "the flag was read, but no fence (release) precedes the write of the flag%s",
               line);
    return;
  }
  if (failed.line > 0) snprintf(line, sizeof line, " at line %d", ww_line_of(failed.line));
  if (failed.by_reader)
    snprintf(to, size, "the acquire has scope block, and the release was in another block: use scope device");
  else if (failed.narrow_access)
    snprintf(to, size, "the release%s has scope block, and the reader is in another block: use scope device", line);
  else
    snprintf(to, size,
             "the fence before the release%s has scope block, and the reader is in another block: use "
             "__threadfence()",
             line);
}

}  // namespace ww
