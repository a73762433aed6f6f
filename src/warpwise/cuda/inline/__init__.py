"""``load_inline``: PyTorch extensions from source text, whose host code also runs on a machine without a GPU."""
