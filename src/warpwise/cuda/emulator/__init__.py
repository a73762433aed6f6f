"""CUDA kernels on a CPU, with every access checked: rewritten, compiled with instrumentation, run by fibers."""
