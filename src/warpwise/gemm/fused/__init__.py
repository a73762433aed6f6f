"""Matrix multiplications with an epilogue: the kernels that linear and addmm share."""
