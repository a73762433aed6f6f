"""Gluon kernels (``triton.experimental.gluon``) on a CPU: layouts, shared memory, asynchronous copies and mbarriers."""
