"""CUDA kernels on a CPU with every access checked: rewritten as C++, compiled with instrumentation, run by fibers."""
