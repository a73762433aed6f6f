"""Kernels on a GPU: compilation by NVRTC, the driver, recorded launches and tensor maps."""
