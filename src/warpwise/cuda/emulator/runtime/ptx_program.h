// The parsed form of an asm statement: a list of instructions, each with its handler. Parsed at the statement's first
// execution.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "abi_extra.h"
#include "abi_hopper.h"

namespace ptx {
// One part of an instruction's name: the opcode, a modifier or a type. The characters are stored inline because
// handlers compare parts with literals at every execution. A part that is too long is truncated and equals no literal.
struct NamePart {
  char text[24] = {};

  NamePart() = default;
  NamePart(const char* from) { std::strncpy(text, from, sizeof text - 1); }
  NamePart(const std::string& from) : NamePart(from.c_str()) {}
  template <size_t N>
  bool operator==(const char (&literal)[N]) const {
    static_assert(N < sizeof text, "the literal does not fit in a NamePart");
    return __builtin_memcmp(text, literal, N) == 0;
  }
  template <size_t N>
  bool operator!=(const char (&literal)[N]) const {
    return !(*this == literal);
  }
  template <size_t N>
  bool starts_with(const char (&literal)[N]) const {
    return __builtin_memcmp(text, literal, N - 1) == 0;
  }
  char operator[](size_t at) const { return text[at]; }
  bool empty() const { return !text[0]; }
  int number() const { return std::atoi(text + 1); }  // the 32 of f32
};

enum class Kind { none, operand, reg, immediate, special, vector, address, label, sink };

// One operand of an instruction. `index`: the number of the asm operand, virtual register or special register, or the
// position of the label. `parts`: the elements of a vector; the base of an address, to which `offset` is added; the
// tensor map and the coordinates of a tensor address; the second register of a pair p|q.
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
  dynamic_smem_size,
  cluster_ctarank,
  cluster_nctarank,
  cluster_ctaid_x,
  cluster_ctaid_y,
  cluster_ctaid_z,
  cluster_nctaid_x,
  cluster_nctaid_y,
  cluster_nctaid_z,
  clusterid_x,
  clusterid_y,
  clusterid_z,
  nclusterid_x,
  nclusterid_y,
  nclusterid_z,
  is_explicit_cluster
};

struct Context;
struct Instruction;
typedef void (*Handler)(Context&, const Instruction&);

// The shape and element types of an mma.sync, from its name.
enum class Element { f16, bf16, tf32, f64, s8, u8, s4, u4, b1 };
struct MmaShape {
  bool known = false;  // false: not emulated
  Element a = Element::f16, b = Element::f16;
  NamePart c, d;
  bool m16 = false;  // true: m16; false: m8
  bool satfinite = false;
  bool conjunction = false;  // b1: and.popc; false: xor.popc
  int k = 0, elements_per_register = 1, a_registers = 0, b_registers = 0;
};

struct Instruction {
  std::string name;             // "ld.global.v4.f32", for messages
  std::vector<NamePart> parts;  // "ld", "global", "v4", "f32"
  std::vector<Operand> operands;
  Handler handler = nullptr;
  int guard = -1;  // the predicate's register, -1 for none, or ~(asm operand) - 1
  bool guard_negated = false;
  // Derived from the name when it is parsed.
  NamePart type;         // the first part that is a type
  NamePart source_type;  // the second type of cvt and set
  int vector_width = 1;
  MmaShape shape;  // of mma.sync
  template <size_t N>
  bool has(const char (&part)[N]) const {
    for (const NamePart& each : parts)
      if (each == part) return true;
    return false;
  }
};

struct Program {
  std::vector<Instruction> instructions;
  int registers = 0;
  std::string error;  // not empty if the text cannot be parsed
};

// Parses the text of an asm statement with these operands.
const Program* parse(const char* text, const ww_ptx_operand* operands, unsigned count);
// Sets the instruction's handler and, for mma.sync, its shape.
void resolve(Instruction& instruction);
}  // namespace ptx
