// Inline PTX as a list of instructions, parsed once for each asm statement.
#pragma once
#include <string>
#include <vector>

#include "abi_extra.h"

namespace ptx {
enum class Kind { none, operand, reg, immediate, special, vector, address, label, sink };

// One operand of an instruction. `index` is an asm operand's or a virtual register's number, a special register's, or a
// label's position; an address is parts[0] + offset; a vector's elements are `parts`; `p|q` has the second in `parts`.
struct Operand {
  Kind kind = Kind::none;
  int index = 0;
  bool negated = false;
  bool pair = false;
  unsigned long long bits = 0;
  bool is_double = false;
  long long offset = 0;
  std::vector<Operand> parts;
};

enum class Special {
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  clock,
  clock64,
  globaltimer,
  dynamic_smem_size
};

struct Context;
struct Instruction;
typedef void (*Handler)(Context&, const Instruction&);

struct Instruction {
  std::string name;                // "ld.global.v4.f32", for messages
  std::vector<std::string> parts;  // "ld", "global", "v4", "f32"
  std::vector<Operand> operands;
  Handler handler = nullptr;
  int guard = -1;  // a predicate register, or -1
  bool guard_negated = false;
  // What the handlers ask most, found at parsing.
  std::string type;         // the last part that is a type
  std::string source_type;  // cvt's and set's second type
  int vector_width = 1;
  bool has(const char* part) const {
    for (const auto& each : parts)
      if (each == part) return true;
    return false;
  }
};

struct Program {
  std::vector<Instruction> instructions;
  int registers = 0;
  std::string error;  // why the text could not be read
};

// Reads `text` whose operands are described by `operands`; finds each instruction's handler.
const Program* parse(const char* text, const ww_ptx_operand* operands, unsigned count);
Handler find_handler(const Instruction& instruction);
}  // namespace ptx
