"""Whole CUDA programs, ``main`` included, on a machine without a GPU, or built by nvcc."""
