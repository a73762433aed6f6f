"""Code that GEMM operations share: operands and their checks, configurations, launch geometry, tables, epilogues, and
the kernels that copy and transpose operands.

Operations import from here and not from each other.
"""
