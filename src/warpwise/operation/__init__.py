"""The public model of an operation: its specification, its rungs, and the dispatch of a call to a kernel.

>>> from warpwise import operation
>>> OP = operation.register(operation.Op(spec, rungs, default=lambda *args: "k02_vectorised"))
>>> OP(x)                       # PyTorch on CPU tensors, the chosen rung on CUDA tensors; differentiable, traceable
>>> OP(x, rung="k01")           # one rung: on the GPU, or emulated and checked on the CPU

A ``Spec`` holds a schema string as ``torch.library`` takes it, a float64 reference, inputs, cases, cost and gradient. A
``Rung`` is a kernel and its launcher. ``register`` makes the operation available to the lab and the command.
"""

from warpwise.arguments.checks import FLOATS, check_dim, check_same, check_same_shape, check_shapes, check_tensor
from warpwise.arguments.draw import LAYOUTS, draw
from warpwise.device.target import Device, assume_sm_count, cdiv, device_of, sm_count
from warpwise.operation.autograd import Gradient, Saved
from warpwise.operation.backward import backward_spec
from warpwise.operation.choice import Choice, by_gpu_time, chosen
from warpwise.operation.lazy import lazy_launch
from warpwise.operation.op import Op
from warpwise.operation.registry import all_ops, get, load_entry_points, register, unregister
from warpwise.operation.rung import Rung, UnknownRung, Unsized, make_rung
from warpwise.operation.spec import Case, Cost, Output, Spec
from warpwise.operation.tables import Tables

__all__ = [
    "FLOATS", "LAYOUTS", "Case", "Choice", "Cost", "Device", "Gradient", "Op", "Output", "Rung", "Saved", "Spec",
    "Tables", "UnknownRung", "Unsized", "all_ops", "assume_sm_count", "backward_spec", "by_gpu_time", "cdiv",
    "check_dim", "check_same", "check_same_shape", "check_shapes", "check_tensor", "chosen", "device_of", "draw", "get",
    "lazy_launch", "load_entry_points", "make_rung", "register", "sm_count", "unregister",
]  # fmt: skip
