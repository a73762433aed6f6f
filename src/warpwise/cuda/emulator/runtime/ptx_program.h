// Inline PTX as a list of instructions, parsed once for each asm statement.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "abi_extra.h"

namespace ptx {
// A part of an instruction's name. Comparing one with a literal compares a few words of memory: handlers ask at every
// execution. A name too long for it equals no literal.
struct Word {
  char text[24] = {};

  Word() = default;
  Word(const char* from) { std::strncpy(text, from, sizeof text - 1); }
  Word(const std::string& from) : Word(from.c_str()) {}
  template <size_t N>
  bool operator==(const char (&literal)[N]) const {
    static_assert(N < sizeof text, "a word of PTX is shorter");
    return __builtin_memcmp(text, literal, N) == 0;
  }
  template <size_t N>
  bool operator!=(const char (&literal)[N]) const {
    return !(*this == literal);
  }
  template <size_t N>
  bool begins(const char (&literal)[N]) const {
    return __builtin_memcmp(text, literal, N - 1) == 0;
  }
  char operator[](size_t at) const { return text[at]; }
  bool empty() const { return !text[0]; }
  int number() const { return std::atoi(text + 1); }  // the 32 of f32
};

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

// What mma.sync's name says of shapes and types. A register holds per_register elements of A or B.
enum class Element { f16, bf16, tf32, f64, s8, u8, s4, u4 };
struct Product {
  bool known = false;  // else it is not emulated
  Element a = Element::f16, b = Element::f16;
  Word c, d;
  bool tall = false;  // m16, else m8
  bool saturates = false;
  int k = 0, per_register = 1, a_registers = 0, b_registers = 0;
};

struct Instruction {
  std::string name;         // "ld.global.v4.f32", for messages
  std::vector<Word> parts;  // "ld", "global", "v4", "f32"
  std::vector<Operand> operands;
  Handler handler = nullptr;
  int guard = -1;  // a predicate register, or -1
  bool guard_negated = false;
  // What the handlers ask most, found at parsing.
  Word type;         // the first part that is a type
  Word source_type;  // cvt's and set's second type
  int vector_width = 1;
  Product product;  // of mma
  template <size_t N>
  bool has(const char (&part)[N]) const {
    for (const Word& each : parts)
      if (each == part) return true;
    return false;
  }
};

struct Program {
  std::vector<Instruction> instructions;
  int registers = 0;
  std::string error;  // why the text could not be read
};

// Reads `text` whose operands are described by `operands`.
const Program* parse(const char* text, const ww_ptx_operand* operands, unsigned count);
// Finds the handler of an instruction, and what that would otherwise find in its name at each execution.
void prepare(Instruction& instruction);
}  // namespace ptx
