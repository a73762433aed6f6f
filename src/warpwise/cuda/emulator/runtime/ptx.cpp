// The interpreter of inline PTX: the table from opcodes to handlers, and ww_ptx, which executes one asm statement.
#include <algorithm>
#include <climits>
#include <cstdio>
#include <unordered_map>

#include "ptx_parse.h"
#include "ptx_wgmma.h"

namespace ptx {
namespace {
Handler handler_of(const Instruction& instruction) {
  static const std::unordered_map<std::string, Handler> by_name = {{"mov", mov},
                                                                   {"mov2", mov},
                                                                   {"add", binary},
                                                                   {"sub", binary},
                                                                   {"mul", binary},
                                                                   {"mul24", binary},
                                                                   {"div", binary},
                                                                   {"rem", binary},
                                                                   {"min", binary},
                                                                   {"max", binary},
                                                                   {"and", binary},
                                                                   {"or", binary},
                                                                   {"xor", binary},
                                                                   {"shl", binary},
                                                                   {"shr", binary},
                                                                   {"copysign", binary},
                                                                   {"mad", multiply_add},
                                                                   {"mad24", multiply_add},
                                                                   {"fma", multiply_add},
                                                                   {"neg", unary},
                                                                   {"abs", unary},
                                                                   {"not", unary},
                                                                   {"cnot", unary},
                                                                   {"popc", unary},
                                                                   {"clz", unary},
                                                                   {"brev", unary},
                                                                   {"bfind", unary},
                                                                   {"ex2", unary},
                                                                   {"lg2", unary},
                                                                   {"rcp", unary},
                                                                   {"rsqrt", unary},
                                                                   {"sqrt", unary},
                                                                   {"sin", unary},
                                                                   {"cos", unary},
                                                                   {"tanh", unary},
                                                                   {"lop3", lop3},
                                                                   {"prmt", prmt},
                                                                   {"shf", shf},
                                                                   {"bfe", bfe},
                                                                   {"bfi", bfi},
                                                                   {"dp4a", dp4a},
                                                                   {"setp", setp},
                                                                   {"selp", selp},
                                                                   {"cvt", cvt},
                                                                   {"ld", load},
                                                                   {"ldu", load},
                                                                   {"st", store},
                                                                   {"atom", atomic},
                                                                   {"red", atomic},
                                                                   {"cvta", cvta},
                                                                   {"isspacep", isspacep},
                                                                   {"shfl", shuffle},
                                                                   {"vote", vote},
                                                                   {"match", match},
                                                                   {"redux", redux},
                                                                   {"activemask", active_mask},
                                                                   {"elect", elect},
                                                                   {"bar", barrier},
                                                                   {"barrier", barrier},
                                                                   {"membar", fence},
                                                                   {"fence", fence},
                                                                   {"nanosleep", sleep},
                                                                   {"trap", trap},
                                                                   {"brkpt", no_operation},
                                                                   {"bra", branch},
                                                                   {"ldmatrix", ldmatrix},
                                                                   {"stmatrix", stmatrix},
                                                                   {"movmatrix", movmatrix},
                                                                   {"mma", mma},
                                                                   {"prefetch", no_operation},
                                                                   {"prefetchu", no_operation},
                                                                   {"applypriority", no_operation},
                                                                   {"discard", no_operation},
                                                                   {"createpolicy", create_policy},
                                                                   {"griddepcontrol", no_operation},
                                                                   {"pmevent", no_operation},
                                                                   {"wgmma", wgmma},
                                                                   {"mbarrier", mbarrier},
                                                                   {"mapa", map_shared},
                                                                   {"multimem", unsupported_hardware},
                                                                   {"setmaxnreg", register_count},
                                                                   {"tcgen05", unsupported_hardware},
                                                                   {"getctarank", block_rank},
                                                                   {"clusterlaunchcontrol", unsupported_hardware}};
  const auto& parts = instruction.parts;
  if (instruction.has("cc") || parts[0] == "addc" || parts[0] == "subc" || parts[0] == "madc") return with_carry;
  if (parts[0] == "cp" && instruction.has("bulk")) {
    if (instruction.has("prefetch")) return no_operation;
    if (instruction.has("commit_group")) return bulk_commit;
    if (instruction.has("wait_group")) return bulk_wait;
    if (!instruction.has("tensor")) return bulk_copy;
    const size_t space = instruction.name.find(".global");
    return space < instruction.name.find(".shared") ? tensor_store : tensor_load;
  }
  if (parts[0] == "tensormap") {
    if (instruction.has("cp_fenceproxy")) return copy_map;
    return instruction.has("replace") ? replace_in_map : unsupported;
  }
  if (parts[0] == "wgmma") {
    if (instruction.has("fence")) return wgmma_fence;
    if (instruction.has("commit_group")) return wgmma_commit;
    return instruction.has("wait_group") ? wgmma_wait : wgmma;
  }
  if (parts[0] == "st" && instruction.has("async")) return store_async;
  if (parts[0] == "cp") {
    if (instruction.has("mbarrier")) return copy_arrive;
    if (instruction.has("commit_group")) return copy_commit;
    if (instruction.has("wait_group")) return copy_wait_group;
    return instruction.has("wait_all") ? copy_wait_all : copy_async;
  }
  if (parts[0] == "mma" && instruction.has("m8n8k4") && instruction.has("f16")) return mma_quad_pairs;
  const auto found = by_name.find(parts[0].text);
  return found == by_name.end() ? unsupported : found->second;
}
}  // namespace

void resolve(Instruction& instruction) {
  instruction.handler = handler_of(instruction);
  const Handler handler = instruction.handler;
  if (instruction.type.empty() && (handler == binary || handler == unary || handler == multiply_add || handler == cvt))
    instruction.handler = unsupported;  // a type that is not known
  if (instruction.handler == mma) instruction.shape = mma_shape_of(instruction);
}
}  // namespace ptx

extern "C" __attribute__((visibility("default"))) void ww_ptx(ww_ptx_site* site, ww_ptx_operand* operands,
                                                              unsigned count) {
  if (!site->program) site->program = ptx::parse(site->text, operands, count);
  const auto* program = static_cast<const ptx::Program*>(site->program);
  ptx::u64 few[16] = {};
  std::vector<ptx::u64> many(program->registers > 16 ? static_cast<size_t>(program->registers) : 0);
  ptx::Context context = {operands, count, many.empty() ? few : many.data(), site->line, program, 0};
  if (!program->error.empty()) context.fail(WW_UNSUPPORTED, "inline PTX: cannot parse " + program->error);
  const int end = static_cast<int>(program->instructions.size());
  ww_executes_ptx(__builtin_return_address(0));
  while (context.next < end) {
    const ptx::Instruction& instruction = program->instructions[static_cast<size_t>(context.next++)];
    if (instruction.guard != -1) {
      ptx::Operand guard;
      guard.kind = instruction.guard < 0 ? ptx::Kind::operand : ptx::Kind::reg;
      guard.index = instruction.guard < 0 ? ~(instruction.guard + 1) : instruction.guard;
      if (context.predicate(guard) == instruction.guard_negated) continue;
    }
    const ptx::NamePart& first = instruction.parts[0];
    if (first == "exit" || first == "ret") break;
    instruction.handler(context, instruction);
  }
  ww_executes_ptx(nullptr);
}
