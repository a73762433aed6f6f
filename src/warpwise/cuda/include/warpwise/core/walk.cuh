// A position in (planes, rows, columns) that advances by a fixed number of elements, by additions in place of
// divisions.
#pragma once

namespace warpwise {

struct Walk {
  int rows, columns, plane, row, column, plane_step, row_step, column_step;

  __device__ void advance() {
    column += column_step;
    row += row_step;
    plane += plane_step;
    if (column >= columns) {
      column -= columns;
      ++row;
    }
    if (row >= rows) {
      row -= rows;
      ++plane;
    }
  }
};

// a / b for 0 <= a < 2^20: (a + 0.5) / b is at least 0.5 / b from an integer, more than the error of the division.
__device__ inline int quotient(int a, int b) {
  return static_cast<int>(__fdividef(static_cast<float>(a) + 0.5f, static_cast<float>(b)));
}

// From element `start` on, by `step` elements, both below 2^20.
__device__ inline Walk walk(int rows, int columns, int start, int step) {
  const int line = quotient(start, columns), lines = quotient(step, columns);
  const int plane = quotient(line, rows), planes = quotient(lines, rows);
  return {rows,
          columns,
          plane,
          line - plane * rows,
          start - line * columns,
          planes,
          lines - planes * rows,
          step - lines * columns};
}

}  // namespace warpwise
