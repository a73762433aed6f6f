"""What lets the host code of a CUDA extension run on a machine without a GPU; see :mod:`warpwise.cuda.inline`."""
