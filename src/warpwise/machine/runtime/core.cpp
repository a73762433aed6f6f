// A launch: blocks one after another, or all at once where they wait for each other. The functions that Python calls.
#include <sys/mman.h>
#include <time.h>

#include <cstdlib>
#include <cstring>
#include <deque>

#include "core.h"
#include "default_arithmetic.h"
#include "interrupts.h"

namespace ww::machine {

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void check_stop() {
  if (run.stop) throw Fault{Fault::kInterrupt, 0, "interrupted"};
  if (run.deadline > 0 && now() > run.deadline) throw Fault{Fault::kTimeout, 0, "the time is up"};
}

namespace {

// What Python asks for; runtime.py mirrors these structures.
extern "C" struct ww_machine_segment {
  u64 address, bytes;
  u8* host;
};
extern "C" struct ww_machine_launch {
  u32 grid[3], block[3];
  u32 architecture, reserved_shared, shared_bytes, dynamic_shared, local_bytes, multiprocessors, resident_blocks;
  u32 cooperative, may_wait, segment_count;
  u64 l1_bytes, l2_bytes;
  double timeout;
  const ww_machine_segment* segments;
  const u8* banks[8];
  u64 bank_bytes[8];
  const u64* block_numbers;  // those to run
  const double* weights;     // how many blocks of the grid each stands for; nullptr: itself
  u64 block_count;
  double* table;  // of each instruction its InstructionCounts
};
extern "C" struct ww_machine_result {
  u32 fault, instruction;
  u64 blocks_done, sectors_read, sectors_written, l2_misses, l2_rereads, kept_count;
  double barriers, warp_cycles, warp_cycles_sum, seconds;
  KeptRequest* kept;
  char message[1024];
};

constexpr unsigned kCounters = sizeof(InstructionCounts) / sizeof(u64);
// Warp instructions of a block until another one's turn, where blocks may wait for each other; and how many of them
// must be loads and atomics that a wait could poll with, for the block to seem to wait.
constexpr u64 kSlice = 1 << 16, kPolls = kSlice / 64;
constexpr u64 kMaxResidentBytes = u64{1} << 30;
constexpr u64 kMaxIdle = 1 << 27;  // warp instructions of a sample's blocks without one that ends

// Zeroed memory that costs nothing until it is touched.
class Pages {
 public:
  explicit Pages(u64 bytes) : bytes_(bytes ? bytes : 1) {
    void* made = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) throw Fault{Fault::kFault, 0, "no memory for the registers of the blocks"};
    data_ = static_cast<u8*>(made);
  }
  ~Pages() { munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  u8* data() const { return data_; }

 private:
  u64 bytes_;
  u8* data_;
};

// A block and the memory of its warps.
struct Resident {
  Block block{};
  Pages vectors, shared, local;
  double weight = 1;
  static constexpr u64 kVectors = 256 + 64 + kConvergenceBarriers + 1;
  Resident()
      : vectors(launch.warps * kVectors * sizeof(Vector)),
        shared(launch.shared_bytes),
        local(u64{launch.warps} * kLanes * launch.local_bytes) {
    block.shared = shared.data();
    block.shared_bytes = launch.shared_bytes;
    block.warps.resize(launch.warps);
    Vector* next = reinterpret_cast<Vector*>(vectors.data());
    for (u32 i = 0; i < launch.warps; i++, next += kVectors) {
      Warp& warp = block.warps[i];
      warp.registers = next;
      warp.uniforms = next + 256;
      warp.convergence = next + 256 + 64;
      warp.local = local.data() + u64{i} * kLanes * launch.local_bytes;
    }
  }
};

[[noreturn]] void deadlock(const Block& block) {
  std::string text = "deadlock in block (" + std::to_string(block.x) + ", " + std::to_string(block.y) + ", " +
                     std::to_string(block.z) + "):";
  u32 instruction = 0;
  for (const Warp& warp : block.warps)
    for (const Waiting& each : warp.waiting) {
      instruction = each.pc - 1;
      char line[160];
      snprintf(line, sizeof line, " lanes 0x%08x of warp %u wait at %s;", each.lanes, warp.number,
               run.program->instructions[instruction].text.c_str());
      if (text.size() < 600) text += line;
    }
  throw Fault{Fault::kFault, instruction, text};
}

// Runs a launch's blocks and adds up what they count.
class Runner {
 public:
  Runner(const ww_machine_launch& asked, ww_machine_result& result) : asked_(asked), result_(result) {
    counts_.resize(launch.instructions);
    launch.counts = counts_.data();
    for (const Instruction& each : run.program->instructions)
      if (each.opcode == "ATOM" || each.opcode == "ATOMG" || each.has("STRONG")) polling_.push_back(each.index);
  }

  void all() {
    if (!run.cooperative && !run.may_wait) {
      Resident resident;
      for (u64 next = 0; next < asked_.block_count; next++) {
        start(resident, next);
        while (!advance(resident, ~u64{0})) {
        }
      }
    } else {
      together();
    }
    add_up(1);
  }

 private:
  void start(Resident& resident, u64 next) {
    resident.weight = asked_.weights ? asked_.weights[next] : 1;
    start_block(resident.block, asked_.block_numbers[next]);
  }

  // Whether the block is done after at most about `instructions` more.
  bool advance(Resident& resident, u64 instructions) {
    Block& block = resident.block;
    const u64 end = instructions == ~u64{0} ? instructions : block.executed + instructions;
    Progress progress;
    do {
      progress = step_block(block);
      if (progress == Progress::kStuck) deadlock(block);
      check_stop();
    } while (progress == Progress::kMoved && block.executed < end);
    polls_ = 0;
    for (const u32 index : polling_) polls_ += counts_[index].executed;
    if (asked_.weights) add_up(resident.weight);
    if (progress != Progress::kDone) return false;
    finish(resident);
    return true;
  }

  // Blocks that may wait for each other: all of them at once if they must be, else as many as it takes to go on.
  void together() {
    std::deque<std::unique_ptr<Resident>> residents, spare;
    const u64 most = std::max<u64>(kMaxResidentBytes / (launch.warps * Resident::kVectors * sizeof(Vector)), 2);
    u64 next = 0, idle = 0;
    bool waits = true;  // whether the block in front seems to wait for another
    while (next < asked_.block_count || !residents.empty()) {
      if (next < asked_.block_count && waits && (run.cooperative || residents.size() < most)) {
        if (spare.empty()) spare.push_back(std::make_unique<Resident>());
        residents.push_front(std::move(spare.front()));
        spare.pop_front();
        start(*residents.front(), next++);
        if (run.cooperative && next < asked_.block_count) continue;
      }
      std::unique_ptr<Resident> turn = std::move(residents.front());
      residents.pop_front();
      const u64 polled = asked_.weights ? 0 : polls_;
      if (advance(*turn, kSlice)) {
        spare.push_back(std::move(turn));
        idle = 0, waits = true;
        continue;
      }
      waits = run.cooperative || polls_ - polled > kPolls;
      if (waits)
        residents.push_back(std::move(turn));
      else
        residents.push_front(std::move(turn));
      if (run.sampled && next == asked_.block_count && waits && (idle += kSlice) > kMaxIdle)
        throw Fault{Fault::kNeedsAllBlocks, 0, "blocks wait for blocks that were not among those chosen to run"};
    }
  }

  void finish(Resident& resident) {
    result_.blocks_done++;
    for (const Warp& warp : resident.block.warps) {
      result_.warp_cycles = std::max(result_.warp_cycles, static_cast<double>(warp.cycle));
      result_.warp_cycles_sum += resident.weight * static_cast<double>(warp.cycle);
    }
  }

  void add_up(double weight) {
    const u64* counters = reinterpret_cast<const u64*>(counts_.data());
    for (size_t i = 0; i < size_t{launch.instructions} * kCounters; i++)
      asked_.table[i] += weight * static_cast<double>(counters[i]);
    memset(counts_.data(), 0, counts_.size() * sizeof(InstructionCounts));
    result_.barriers += weight * static_cast<double>(run.barriers_opened);
    run.barriers_opened = 0;
  }

  const ww_machine_launch& asked_;
  ww_machine_result& result_;
  std::vector<InstructionCounts> counts_;
  std::vector<u32> polling_;  // instructions that a wait for another block would poll with
  u64 polls_ = 0;             // how often they ran, as of the counters
};

void fill_thread_indices() {
  for (unsigned axis = 0; axis < 3; axis++) run.thread_index[axis].assign(launch.warps, kZeroVector);
  for (u32 thread = 0; thread < launch.warps * kLanes; thread++) {
    const u32 place[3] = {thread % launch.block[0], thread / launch.block[0] % launch.block[1],
                          thread / launch.block[0] / launch.block[1]};
    for (unsigned axis = 0; axis < 3; axis++)
      run.thread_index[axis][thread / kLanes].lane[thread % kLanes] = place[axis];
  }
}

void set_up(Program& program, const ww_machine_launch& asked) {
  launch = {};
  memcpy(launch.grid, asked.grid, sizeof launch.grid);
  memcpy(launch.block, asked.block, sizeof launch.block);
  launch.architecture = asked.architecture;
  launch.instructions = static_cast<u32>(program.instructions.size());
  launch.warps = (asked.block[0] * asked.block[1] * asked.block[2] + kLanes - 1) / kLanes;
  launch.blocks = u64{asked.grid[0]} * asked.grid[1] * asked.grid[2];
  launch.blocks_to_run = asked.block_count;
  launch.reserved_shared = asked.reserved_shared;
  launch.shared_bytes = asked.shared_bytes;
  launch.dynamic_shared = asked.dynamic_shared;
  launch.local_bytes = asked.local_bytes;
  launch.multiprocessors = asked.multiprocessors;
  launch.resident_blocks = asked.resident_blocks;
  launch.l1_bytes = asked.l1_bytes, launch.l2_bytes = asked.l2_bytes;
  run.program = &program;
  run.cooperative = asked.cooperative, run.may_wait = asked.may_wait;
  run.sampled = asked.block_count < launch.blocks;
  run.barriers_opened = 0;
  run.deadline = asked.timeout > 0 ? now() + asked.timeout : 0;
  recent_segment = {};
  run.segments.clear();
  for (u32 i = 0; i < asked.segment_count; i++)
    run.segments.push_back({asked.segments[i].address, asked.segments[i].bytes, asked.segments[i].host});
  for (unsigned bank = 0; bank < 8; bank++) run.banks[bank] = {asked.banks[bank], asked.bank_bytes[bank]};
  fill_constants(program);
  fill_thread_indices();
}

void report(ww_machine_result& result, const Fault& fault) {
  result.fault = fault.kind;
  result.instruction = fault.instruction;
  strncpy(result.message, fault.message.c_str(), sizeof result.message - 1);
}

void take_traffic(ww_machine_result& result) {
  const TrafficTotals totals = traffic_totals();
  result.sectors_read = totals.sectors_read, result.sectors_written = totals.sectors_written;
  result.l2_misses = totals.l2_misses, result.l2_rereads = totals.l2_rereads;
  const std::vector<KeptRequest> kept = take_requests();
  result.kept = static_cast<KeptRequest*>(malloc(kept.size() * sizeof(KeptRequest) + 1));
  if (!kept.empty()) memcpy(result.kept, kept.data(), kept.size() * sizeof(KeptRequest));
  result.kept_count = kept.size();
}

}  // namespace

#define WW_API extern "C" __attribute__((visibility("default")))

WW_API void ww_machine_sizes(u64* sizes) {
  sizes[0] = sizeof(ww_machine_launch), sizes[1] = sizeof(ww_machine_result), sizes[2] = sizeof(KeptRequest);
  sizes[3] = kCounters;
}

WW_API void* ww_machine_load(const char* text, u64 bytes) { return parse_program(text, bytes).release(); }

WW_API void ww_machine_unload(void* program) { delete static_cast<Program*>(program); }

// For each instruction: the pipe that issues it, or 255 if nothing here executes it.
WW_API void ww_machine_units(const void* program, u8* units) {
  for (const Instruction& instruction : static_cast<const Program*>(program)->instructions)
    *units++ = is_supported(instruction) ? instruction.unit : 255;
}

WW_API int ww_machine_run(void* handle, const ww_machine_launch* asked, ww_machine_result* result) {
  Program& program = *static_cast<Program*>(handle);
  memset(result, 0, sizeof *result);
  const double start = now();
  const InterruptGuard interrupts(run.stop, 1);
  const DefaultArithmetic arithmetic;
  try {
    set_up(program, *asked);
    Runner runner(*asked, *result);
    const u64 places = u64{asked->multiprocessors} * asked->resident_blocks;
    begin_traffic({asked->architecture, asked->multiprocessors, static_cast<u32>(asked->l1_bytes), asked->l2_bytes,
                   std::max<u64>(std::min(places, launch.blocks), 1)},
                  run.segments, launch.counts, launch.instructions);
    runner.all();
    take_traffic(*result);
  } catch (const Fault& fault) {
    report(*result, fault);
  } catch (const std::bad_alloc&) {
    report(*result, {Fault::kFault, 0, "no memory left for the run"});
  }
  launch.counts = nullptr;
  result->seconds = now() - start;
  return static_cast<int>(result->fault);
}

WW_API void ww_machine_release(ww_machine_result* result) {
  free(result->kept);
  result->kept = nullptr;
}

}  // namespace ww::machine
