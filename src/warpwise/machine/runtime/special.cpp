// Special registers: S2R, S2UR, CS2R and B2R.
#include <cstring>

#include "core.h"

namespace ww::machine {
namespace {

using Reader = u64 (*)(const Warp& warp, unsigned lane);

template <unsigned axis>
u64 thread_index(const Warp& warp, unsigned lane) {
  return run.thread_index[axis][warp.number].lane[lane];
}
template <unsigned axis>
u64 block_index(const Warp& warp, unsigned) {
  return axis == 0 ? warp.block->x : axis == 1 ? warp.block->y : warp.block->z;
}
template <unsigned axis>
u64 block_size(const Warp&, unsigned) {
  return launch.block[axis];
}
template <unsigned axis>
u64 grid_size(const Warp&, unsigned) {
  return launch.grid[axis];
}
u64 zero(const Warp&, unsigned) { return 0; }
u64 lane_number(const Warp&, unsigned lane) { return lane; }
u64 packed_thread(const Warp& warp, unsigned lane) {
  return thread_index<0>(warp, lane) | thread_index<1>(warp, lane) << 16 | thread_index<2>(warp, lane) << 26;
}
u64 virtual_id(const Warp& warp, unsigned) { return warp.number << 8; }
u64 multiprocessor(const Warp& warp, unsigned) { return warp.block->number % (launch.sm_count ? launch.sm_count : 1); }
u64 sm_count(const Warp&, unsigned) { return launch.sm_count; }
u64 equal_mask(const Warp&, unsigned lane) { return u32{1} << lane; }
u64 less_mask(const Warp&, unsigned lane) { return (u32{1} << lane) - 1; }
u64 less_equal_mask(const Warp&, unsigned lane) { return ~u32{0} >> (31 - lane); }
u64 greater_mask(const Warp&, unsigned lane) { return ~(~u32{0} >> (31 - lane)) & ~u32{0}; }
u64 greater_equal_mask(const Warp&, unsigned lane) { return ~u32{0} << lane & ~u32{0}; }
// clock and globaltimer (at 1 GHz) return the warp's cycle count, so that runs are deterministic.
u64 clock_now(const Warp& warp, unsigned) { return warp.cycle; }
u64 clock_high(const Warp& warp, unsigned) { return warp.cycle >> 32; }
u64 shared_window(const Warp&, unsigned) { return kSharedWindow >> 32; }
u64 local_window(const Warp&, unsigned) { return kLocalWindow >> 32; }
u64 shared_size(const Warp&, unsigned) { return launch.shared_bytes; }
u64 dynamic_shared_size(const Warp&, unsigned) { return launch.dynamic_shared; }

u64 cluster_rank(const Warp& warp, unsigned) { return warp.block->rank; }
u64 cluster_blocks(const Warp& warp, unsigned) { return warp.block->cluster->blocks.size(); }
template <unsigned axis>
u64 place_in_cluster(const Warp& warp, unsigned lane) {
  return block_index<axis>(warp, lane) % launch.cluster[axis];
}
template <unsigned axis>
u64 cluster_index(const Warp& warp, unsigned lane) {
  return block_index<axis>(warp, lane) / launch.cluster[axis];
}
template <unsigned axis>
u64 cluster_size(const Warp&, unsigned) {
  return launch.cluster[axis];
}
template <unsigned axis>
u64 clusters(const Warp&, unsigned) {
  return launch.grid[axis] / launch.cluster[axis];
}

const struct {
  const char* name;
  Reader read;
} kReaders[] = {
    {"SRZ", zero},
    {"SR_TID.X", thread_index<0>},
    {"SR_TID.Y", thread_index<1>},
    {"SR_TID.Z", thread_index<2>},
    {"SR_TID", packed_thread},
    {"SR_CTAID.X", block_index<0>},
    {"SR_CTAID.Y", block_index<1>},
    {"SR_CTAID.Z", block_index<2>},
    {"SR_NTID", block_size<0>},
    {"SR_NTID.X", block_size<0>},
    {"SR_NTID.Y", block_size<1>},
    {"SR_NTID.Z", block_size<2>},
    {"SR_NCTAID.X", grid_size<0>},
    {"SR_NCTAID.Y", grid_size<1>},
    {"SR_NCTAID.Z", grid_size<2>},
    {"SR_LANEID", lane_number},
    {"SR_VIRTID", virtual_id},
    {"SR_VIRTUALSMID", multiprocessor},
    {"SR_VIRTCFG", sm_count},
    {"SR_EQMASK", equal_mask},
    {"SR_LTMASK", less_mask},
    {"SR_LEMASK", less_equal_mask},
    {"SR_GTMASK", greater_mask},
    {"SR_GEMASK", greater_equal_mask},
    {"SR_CLOCKLO", clock_now},
    {"SR_CLOCK", clock_now},
    {"SR_CLOCKHI", clock_high},
    {"SR_GLOBALTIMERLO", clock_now},
    {"SR_GLOBALTIMERHI", clock_high},
    {"SR_SWINHI", shared_window},
    {"SR_SWINLO", zero},
    {"SR_LWINHI", local_window},
    {"SR_LWINLO", zero},
    {"SR_SMEMSZ", shared_size},
    {"SR_DYNAMICSMEMSZ", dynamic_shared_size},
    {"SR_CgaCtaId", cluster_rank},
    {"SR_CgaSize", cluster_blocks},
    {"SR_CLUSTERID.X", cluster_index<0>},
    {"SR_CLUSTERID.Y", cluster_index<1>},
    {"SR_CLUSTERID.Z", cluster_index<2>},
    {"SR_CLUSTER_CTARANK", cluster_rank},
    {"SR_CLUSTER_CTAID.X", place_in_cluster<0>},
    {"SR_CLUSTER_CTAID.Y", place_in_cluster<1>},
    {"SR_CLUSTER_CTAID.Z", place_in_cluster<2>},
    {"SR_CLUSTER_NCTAID.X", cluster_size<0>},
    {"SR_CLUSTER_NCTAID.Y", cluster_size<1>},
    {"SR_CLUSTER_NCTAID.Z", cluster_size<2>},
    {"SR_NCLUSTERID.X", clusters<0>},
    {"SR_NCLUSTERID.Y", clusters<1>},
    {"SR_NCLUSTERID.Z", clusters<2>},
};

Reader reader_of(Instruction& instruction) {
  if (instruction.operands.size() != 2) return nullptr;
  for (const auto& each : kReaders)
    if (instruction.operands[1].name == each.name) {
      if (each.read == clock_now || each.read == clock_high)
        instruction.approximate = "clocks are those of a warp alone on its SM, with nominal latencies";
      if (each.read == multiprocessor) instruction.approximate = "block n runs on SM n mod the number of SMs";
      return each.read;
    }
  return nullptr;
}
Reader reader(const Instruction& instruction) { return reinterpret_cast<Reader>(instruction.scratch[0]); }

void read_lanes(Warp& warp, const Instruction& instruction, Mask lanes) {
  Vector& target = destination(warp, instruction, 0);
  const Reader read = reader(instruction);
  for_lanes(lanes, [&](unsigned l) { target.lane[l] = static_cast<u32>(read(warp, l)); });
}

// threadIdx is stored as vectors.
template <unsigned axis>
void read_thread_index(Warp& warp, const Instruction& instruction, Mask lanes) {
  Vector& target = destination(warp, instruction, 0);
  const Vector& value = run.thread_index[axis][warp.number];
  for_lanes(lanes, [&](unsigned l) { target.lane[l] = value.lane[l]; });
}

void read_uniform(Warp& warp, const Instruction& instruction, Mask lanes) {
  Vector& target = destination(warp, instruction, 0);
  const u32 value = static_cast<u32>(reader(instruction)(warp, static_cast<unsigned>(__builtin_ctz(lanes))));
  for (u32& lane : target.lane) lane = value;
}

void read_zero_pair(Warp& warp, const Instruction& instruction, Mask lanes) {
  Vector &low = destination(warp, instruction, 0), &high = destination(warp, instruction, 0, 1);
  for_lanes(lanes, [&](unsigned l) { low.lane[l] = high.lane[l] = 0; });
}

void read_pair(Warp& warp, const Instruction& instruction, Mask lanes) {
  Vector &low = destination(warp, instruction, 0), &high = destination(warp, instruction, 0, 1);
  const Reader read = reader(instruction);
  for_lanes(lanes, [&](unsigned l) {
    const u64 value = read(warp, l);
    low.lane[l] = static_cast<u32>(value);
    high.lane[l] = static_cast<u32>(value >> 32);
  });
}

Handler decode_s2r(Instruction& instruction) {
  const Reader read = reader_of(instruction);
  if (!read) return nullptr;
  instruction.scratch[0] = reinterpret_cast<u64>(read);
  if (read == thread_index<0>) return read_thread_index<0>;
  if (read == thread_index<1>) return read_thread_index<1>;
  if (read == thread_index<2>) return read_thread_index<2>;
  return read_lanes;
}

Handler decode_s2ur(Instruction& instruction) {
  const Reader read = reader_of(instruction);
  instruction.scratch[0] = reinterpret_cast<u64>(read);
  return read ? read_uniform : nullptr;
}

Handler decode_cs2r(Instruction& instruction) {
  const Reader read = reader_of(instruction);
  if (!read) return nullptr;
  instruction.scratch[0] = reinterpret_cast<u64>(read);
  if (instruction.has("32")) return read_lanes;
  return read == zero ? read_zero_pair : read_pair;
}

const Opcode opcodes[] = {{"S2R", kAdu, decode_s2r}, {"S2UR", kUniformPipe, decode_s2ur}, {"CS2R", kAlu, decode_cs2r}};

}  // namespace
}  // namespace ww::machine
