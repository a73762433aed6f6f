"""Matrix multiplications with an epilogue: the kernels that linear and addmm share."""

ACTIVATIONS = ("relu", "gelu", "gelu_tanh")  # gelu by the error function, gelu_tanh its approximation by tanh
