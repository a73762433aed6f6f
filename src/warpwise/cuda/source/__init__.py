"""CUDA C++ source text: tokens, declarations, headers, and the device code of a file."""
