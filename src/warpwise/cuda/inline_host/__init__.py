"""Builds and runs CUDA extensions on a machine without a GPU, for :func:`warpwise.cuda.load_inline`."""
