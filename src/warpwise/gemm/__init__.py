"""What the matrix products share: operands and their checks, configurations, launch geometry, tables, epilogues.

Operations import from here and not from each other. Kernels stay in the folders of the operations.
"""
