// LDSM and STSM (ldmatrix, stmatrix): 8 x 8 matrices of 16-bit elements between shared memory and a warp's registers.
//
// Lanes 8m .. 8m + 7 hold the addresses of the 8 rows (16 bytes each) of matrix m. Lane l holds elements 2 (l mod 4)
// and 2 (l mod 4) + 1 of row l / 4 of each matrix, or of its transpose (MT88).
#include "access.h"

namespace ww::machine {

namespace {

using Rows = u16[8][8];

void record_rows(Warp& warp, const Instruction& instruction, Action action, unsigned matrices,
                 const Addresses& addresses) {
  const Mask rows = matrices == 4 ? ~Mask{0} : (Mask{1} << 8 * matrices) - 1;
  record_access(warp, instruction, Space::kShared, action, 16, rows, addresses);
}

template <unsigned Matrices, bool Transposed>
void load_matrices(Warp& warp, const Instruction& instruction, Mask lanes) {
  Addresses addresses;
  narrow_addresses(warp, instruction.operands[1], addresses);
  const Mask rows = Matrices == 4 ? ~Mask{0} : (Mask{1} << 8 * Matrices) - 1;
  const LanePointers pointers(warp, instruction, Space::kShared, rows, addresses, 16);
  for (unsigned m = 0; m < Matrices; m++) {
    Rows matrix;
    for (unsigned row = 0; row < 8; row++) std::memcpy(matrix[row], pointers(m * 8 + row), 16);
    Vector& to = destination(warp, instruction, 0, m);
    for_lanes(lanes, [&](unsigned l) {
      const unsigned i = l / 4, j = l % 4 * 2;
      const u32 low = Transposed ? matrix[j][i] : matrix[i][j];
      const u32 high = Transposed ? matrix[j + 1][i] : matrix[i][j + 1];
      to.lane[l] = low | high << 16;
    });
  }
  record_rows(warp, instruction, Action::kLoad, Matrices, addresses);
}

template <unsigned Matrices, bool Transposed>
void store_matrices(Warp& warp, const Instruction& instruction, Mask) {
  Addresses addresses;
  narrow_addresses(warp, instruction.operands[0], addresses);
  const Mask rows = Matrices == 4 ? ~Mask{0} : (Mask{1} << 8 * Matrices) - 1;
  const LanePointers pointers(warp, instruction, Space::kShared, rows, addresses, 16);
  for (unsigned m = 0; m < Matrices; m++) {
    Rows matrix;
    const Vector& from = source_word(warp, instruction.operands[1], m);
    for (unsigned l = 0; l < kLanes; l++) {
      const unsigned i = l / 4, j = l % 4 * 2;
      const u16 low = static_cast<u16>(from.lane[l]), high = static_cast<u16>(from.lane[l] >> 16);
      (Transposed ? matrix[j][i] : matrix[i][j]) = low;
      (Transposed ? matrix[j + 1][i] : matrix[i][j + 1]) = high;
    }
    for (unsigned row = 0; row < 8; row++) std::memcpy(pointers(m * 8 + row), matrix[row], 16);
  }
  record_rows(warp, instruction, Action::kStore, Matrices, addresses);
}

template <template <unsigned, bool> class Pick>
Handler decode(Instruction& i) {
  unsigned matrices = 1;
  for (const std::string& modifier : i.modifiers) {
    if (modifier == "2" || modifier == "4")
      matrices = static_cast<unsigned>(modifier[0] - '0');
    else if (modifier != "16" && modifier != "M88" && modifier != "MT88")
      return nullptr;
  }
  if (i.operands.size() != 2 || !i.has("16")) return nullptr;
  set_caching(i, kMatrixRows);
  const bool t = i.has("MT88");
  if (matrices == 1) return t ? Pick<1, true>::run : Pick<1, false>::run;
  if (matrices == 2) return t ? Pick<2, true>::run : Pick<2, false>::run;
  return t ? Pick<4, true>::run : Pick<4, false>::run;
}
template <unsigned Matrices, bool Transposed>
struct Load {
  static constexpr Handler run = load_matrices<Matrices, Transposed>;
};
template <unsigned Matrices, bool Transposed>
struct Store {
  static constexpr Handler run = store_matrices<Matrices, Transposed>;
};

Opcode LDSM_opcode("LDSM", kLsu, decode<Load>);
Opcode STSM_opcode("STSM", kLsu, decode<Store>);

}  // namespace

}  // namespace ww::machine
