// Runs a launch: blocks one after another, or interleaved if they can wait for each other. The C interface for Python.
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
  if (run.deadline > 0 && now() > run.deadline) throw Fault{Fault::kTimeout, 0, "timeout"};
}

namespace {

// The C interface; runtime.py has the same structures.
extern "C" struct ww_machine_segment {
  u64 address, bytes;
  u8* host;
};
extern "C" struct ww_machine_params {
  u32 grid[3], block[3], cluster[3];
  u32 architecture, reserved_shared, shared_bytes, dynamic_shared, local_bytes, sm_count, resident_blocks;
  u32 cooperative, may_wait, segment_count;
  u64 l1_bytes, l2_bytes;
  double timeout;
  const ww_machine_segment* segments;
  const u8* banks[8];
  u64 bank_bytes[8];
  const u64* block_indices;  // blocks to run
  const double* weights;     // sampling weight of each block; nullptr: all 1
  u64 block_count;
  double* table;  // InstructionCounts of each instruction, weighted
};
extern "C" struct ww_machine_result {
  u32 fault, instruction;
  u64 blocks_done, sectors_read, sectors_written, l2_misses, l2_rereads, sample_count;
  double barriers, warp_cycles, warp_cycles_sum, seconds;
  RequestSample* samples;
  char message[1024];
};

constexpr unsigned kCounters = sizeof(InstructionCounts) / sizeof(u64);
// For blocks that can wait for each other: warp instructions per time slice of a block, and the number of polling loads
// and atomics in a slice above which the block is assumed to spin.
constexpr u64 kTimeSlice = 1 << 16, kPollThreshold = kTimeSlice / 64;
constexpr u64 kMaxResidentBytes = u64{1} << 30;
constexpr u64 kMaxIdle = 1 << 25;  // warp instructions without a finished block, after which a sampled run gives up

// Zero-initialised memory, allocated on first touch.
class Pages {
 public:
  explicit Pages(u64 bytes) : bytes_(bytes ? bytes : 1) {
    void* made = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) throw Fault{Fault::kFault, 0, "out of memory: registers of the resident blocks"};
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

// The blocks of a cluster, which run concurrently, or one block if the launch has no clusters.
struct Group {
  std::vector<std::unique_ptr<Resident>> blocks;
  Cluster cluster;
  Group() {
    const u32 size = launch.cluster[0] * launch.cluster[1] * launch.cluster[2];
    for (u32 rank = 0; rank < size; rank++) {
      blocks.push_back(std::make_unique<Resident>());
      Block& block = blocks.back()->block;
      block.cluster = &cluster;
      block.rank = rank;
      cluster.blocks.push_back(&block);
    }
  }
};

// Runs a launch's blocks and accumulates their counters.
class Runner {
 public:
  Runner(const ww_machine_params& params, ww_machine_result& result) : params_(params), result_(result) {
    counts_.resize(launch.instructions);
    launch.counts = counts_.data();
    for (const Instruction& each : run.program->instructions)
      if (each.opcode == "ATOM" || each.opcode == "ATOMG" || each.has("STRONG")) polling_.push_back(each.index);
  }

  void run_all() {
    if (!run.cooperative && !run.may_wait) {
      Group group;
      for (u64 next = 0; next < params_.block_count; next += group.blocks.size()) {
        start(group, next);
        while (!advance(group, ~u64{0})) {
        }
      }
    } else {
      run_interleaved();
    }
    accumulate(1);
  }

 private:
  void start(Group& group, u64 next) {
    group.cluster.phase = group.cluster.latest = 0;
    for (const auto& resident : group.blocks) {
      resident->weight = params_.weights ? params_.weights[next] : 1;
      start_block(resident->block, params_.block_indices[next++]);
    }
  }

  // Runs about `instructions` warp instructions of each block; returns true if all have finished.
  bool advance(Group& group, u64 instructions) {
    const u64 end = instructions == ~u64{0} ? instructions : executed(group) + instructions * group.blocks.size();
    bool moved = false, done = false;
    do {
      moved = false, done = true;
      for (const auto& resident : group.blocks) {
        if (!resident->block.warps_alive) continue;
        const Progress progress = step_block(resident->block);
        moved |= progress != Progress::kStuck;
        done &= progress == Progress::kDone;
      }
      if (!moved && !done) deadlock(first_alive(group));
      check_stop();
    } while (!done && executed(group) < end);
    polls_ = run.repeated_polls;
    for (const u32 index : polling_) polls_ += counts_[index].executed;
    if (params_.weights) accumulate(group.blocks[0]->weight);
    if (!done) return false;
    for (const auto& resident : group.blocks) finish(*resident);
    return true;
  }

  static u64 executed(const Group& group) {
    u64 sum = 0;
    for (const auto& resident : group.blocks) sum += resident->block.executed;
    return sum;
  }
  static const Block& first_alive(const Group& group) {
    for (const auto& resident : group.blocks)
      if (resident->block.warps_alive) return resident->block;
    return group.blocks[0]->block;
  }

  // Interleaves blocks that can wait for each other. A cooperative launch starts all blocks first; otherwise the next
  // block starts when the current one spins or has finished.
  void run_interleaved() {
    std::deque<std::unique_ptr<Group>> residents, spare;
    const u64 size = u64{launch.cluster[0]} * launch.cluster[1] * launch.cluster[2];
    const u64 max_residents =
        std::max<u64>(kMaxResidentBytes / (size * launch.warps * Resident::kVectors * sizeof(Vector)), 2);
    u64 next = 0, idle = 0;
    bool waits = true;  // the group at the front of the queue seems to spin
    while (next < params_.block_count || !residents.empty()) {
      if (next < params_.block_count && waits && (run.cooperative || residents.size() < max_residents)) {
        if (spare.empty()) spare.push_back(std::make_unique<Group>());
        residents.push_front(std::move(spare.front()));
        spare.pop_front();
        start(*residents.front(), next);
        next += size;
        if (run.cooperative && next < params_.block_count) continue;
      }
      std::unique_ptr<Group> turn = std::move(residents.front());
      residents.pop_front();
      const u64 polled = params_.weights ? 0 : polls_;
      if (advance(*turn, kTimeSlice)) {
        spare.push_back(std::move(turn));
        idle = 0, waits = true;
        continue;
      }
      waits = run.cooperative || polls_ - polled > kPollThreshold;
      if (waits)
        residents.push_back(std::move(turn));
      else
        residents.push_front(std::move(turn));
      if (run.sampled && next == params_.block_count && waits && (idle += kTimeSlice) > kMaxIdle)
        throw Fault{Fault::kNeedsAllBlocks, 0, "sampled blocks wait for blocks outside the sample"};
    }
  }

  void finish(Resident& resident) {
    result_.blocks_done++;
    for (const Warp& warp : resident.block.warps) {
      result_.warp_cycles = std::max(result_.warp_cycles, static_cast<double>(warp.cycle));
      result_.warp_cycles_sum += resident.weight * static_cast<double>(warp.cycle);
    }
  }

  void accumulate(double weight) {
    const u64* counters = reinterpret_cast<const u64*>(counts_.data());
    for (size_t i = 0; i < size_t{launch.instructions} * kCounters; i++)
      params_.table[i] += weight * static_cast<double>(counters[i]);
    memset(counts_.data(), 0, counts_.size() * sizeof(InstructionCounts));
    result_.barriers += weight * static_cast<double>(run.barriers_opened);
    run.barriers_opened = 0;
    run.repeated_polls = 0;
  }

  const ww_machine_params& params_;
  ww_machine_result& result_;
  std::vector<InstructionCounts> counts_;
  std::vector<u32> polling_;  // indices of loads and atomics that can poll for another block
  u64 polls_ = 0;             // their executions so far
};

void fill_thread_indices() {
  for (unsigned axis = 0; axis < 3; axis++) run.thread_index[axis].assign(launch.warps, kZeroVector);
  for (u32 thread = 0; thread < launch.warps * kLanes; thread++) {
    const u32 index[3] = {thread % launch.block[0], thread / launch.block[0] % launch.block[1],
                          thread / launch.block[0] / launch.block[1]};
    for (unsigned axis = 0; axis < 3; axis++)
      run.thread_index[axis][thread / kLanes].lane[thread % kLanes] = index[axis];
  }
}

void set_up(Program& program, const ww_machine_params& params) {
  launch = {};
  memcpy(launch.grid, params.grid, sizeof launch.grid);
  memcpy(launch.block, params.block, sizeof launch.block);
  memcpy(launch.cluster, params.cluster, sizeof launch.cluster);
  launch.architecture = params.architecture;
  launch.instructions = static_cast<u32>(program.instructions.size());
  launch.warps = (params.block[0] * params.block[1] * params.block[2] + kLanes - 1) / kLanes;
  launch.blocks = u64{params.grid[0]} * params.grid[1] * params.grid[2];
  launch.blocks_to_run = params.block_count;
  launch.reserved_shared = params.reserved_shared;
  launch.shared_bytes = params.shared_bytes;
  launch.dynamic_shared = params.dynamic_shared;
  launch.local_bytes = params.local_bytes;
  launch.sm_count = params.sm_count;
  launch.resident_blocks = params.resident_blocks;
  launch.l1_bytes = params.l1_bytes, launch.l2_bytes = params.l2_bytes;
  run.program = &program;
  run.cooperative = params.cooperative, run.may_wait = params.may_wait;
  run.sampled = params.block_count < launch.blocks;
  run.barriers_opened = run.repeated_polls = 0;
  run.deadline = params.timeout > 0 ? now() + params.timeout : 0;
  recent_segment = {};
  run.segments.clear();
  for (u32 i = 0; i < params.segment_count; i++)
    run.segments.push_back({params.segments[i].address, params.segments[i].bytes, params.segments[i].host});
  for (unsigned bank = 0; bank < 8; bank++) run.banks[bank] = {params.banks[bank], params.bank_bytes[bank]};
  fill_constants(program);
  fill_thread_indices();
}

void report(ww_machine_result& result, const Fault& fault) {
  result.fault = fault.kind;
  result.instruction = fault.instruction;
  strncpy(result.message, fault.message.c_str(), sizeof result.message - 1);
}

void copy_traffic(ww_machine_result& result) {
  const TrafficTotals totals = traffic_totals();
  result.sectors_read = totals.sectors_read, result.sectors_written = totals.sectors_written;
  result.l2_misses = totals.l2_misses, result.l2_rereads = totals.l2_rereads;
  const std::vector<RequestSample> samples = take_samples();
  result.samples = static_cast<RequestSample*>(malloc(samples.size() * sizeof(RequestSample) + 1));
  if (!samples.empty()) memcpy(result.samples, samples.data(), samples.size() * sizeof(RequestSample));
  result.sample_count = samples.size();
}

}  // namespace

#define WW_API extern "C" __attribute__((visibility("default")))

WW_API void ww_machine_sizes(u64* sizes) {
  sizes[0] = sizeof(ww_machine_params), sizes[1] = sizeof(ww_machine_result), sizes[2] = sizeof(RequestSample);
  sizes[3] = kCounters;
}

WW_API void* ww_machine_load(const char* text, u64 bytes) { return parse_program(text, bytes).release(); }

WW_API void ww_machine_unload(void* program) { delete static_cast<Program*>(program); }

// The pipe of each instruction, or 255 if it is not supported.
WW_API void ww_machine_pipes(const void* program, u8* units) {
  for (const Instruction& instruction : static_cast<const Program*>(program)->instructions)
    *units++ = is_supported(instruction) ? instruction.pipe : 255;
}

// The grade of each instruction, 0 exact, 1 approximate, 2 unsupported, and what differs from the hardware, or null.
WW_API void ww_machine_fidelity(const void* program, u8* grades, const char** notes) {
  for (const Instruction& instruction : static_cast<const Program*>(program)->instructions) {
    *grades++ = !is_supported(instruction) ? 2 : instruction.approximate ? 1 : 0;
    *notes++ = is_supported(instruction) ? instruction.approximate : nullptr;
  }
}

// Calls `each` with the name of every opcode and what differs from the hardware, or null.
WW_API void ww_machine_opcodes(void (*each)(const char* name, const char* approximate)) {
  for (const auto& [name, approximate] : known_opcodes()) each(name.c_str(), approximate);
}

WW_API int ww_machine_run(void* handle, const ww_machine_params* params, ww_machine_result* result) {
  Program& program = *static_cast<Program*>(handle);
  memset(result, 0, sizeof *result);
  const double start = now();
  const InterruptGuard interrupts(run.stop, 1);
  const DefaultArithmetic arithmetic;
  try {
    set_up(program, *params);
    Runner runner(*params, *result);
    const u64 resident_blocks = u64{params->sm_count} * params->resident_blocks;
    begin_traffic({params->architecture, params->sm_count, static_cast<u32>(params->l1_bytes), params->l2_bytes,
                   std::max<u64>(std::min(resident_blocks, launch.blocks), 1)},
                  run.segments, launch.counts, launch.instructions);
    runner.run_all();
    copy_traffic(*result);
  } catch (const Fault& fault) {
    report(*result, fault);
  } catch (const std::bad_alloc&) {
    report(*result, {Fault::kFault, 0, "out of memory"});
  }
  launch.counts = nullptr;
  result->seconds = now() - start;
  return static_cast<int>(result->fault);
}

WW_API void ww_machine_release(ww_machine_result* result) {
  free(result->samples);
  result->samples = nullptr;
}

}  // namespace ww::machine
