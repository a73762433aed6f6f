"""Operations, public for third parties: what an operation is, and how a call of it reaches a kernel.

>>> from warpwise import operation
>>> OP = operation.register(operation.Op(spec, rungs, default=lambda *args: "k02_vectorised"))
>>> OP(x)                       # PyTorch on CPU tensors, the chosen rung on CUDA tensors; differentiable, traceable
>>> OP(x, rung="k01")           # one rung: on the GPU, or emulated and checked on the CPU

A ``Spec`` knows no kernel: a schema string as ``torch.library`` takes it, a float64 reference, inputs, cases, cost and
gradient. A ``Rung`` is a kernel and its launch. ``register`` makes the operation known to the lab and the command.
"""

from warpwise.device.target import Device as Device
from warpwise.device.target import assume_sm_count as assume_sm_count
from warpwise.device.target import cdiv as cdiv
from warpwise.device.target import device_of as device_of
from warpwise.device.target import sm_count as sm_count
from warpwise.operation.autograd import Gradient as Gradient
from warpwise.operation.autograd import Saved as Saved
from warpwise.operation.checks import FLOATS as FLOATS
from warpwise.operation.checks import check_dim as check_dim
from warpwise.operation.checks import check_same as check_same
from warpwise.operation.checks import check_same_shape as check_same_shape
from warpwise.operation.checks import check_tensor as check_tensor
from warpwise.operation.choice import Choice as Choice
from warpwise.operation.choice import chosen as chosen
from warpwise.operation.inputs import LAYOUTS as LAYOUTS
from warpwise.operation.inputs import draw as draw
from warpwise.operation.op import Op as Op
from warpwise.operation.registry import all_ops as all_ops
from warpwise.operation.registry import get as get
from warpwise.operation.registry import load_entry_points as load_entry_points
from warpwise.operation.registry import register as register
from warpwise.operation.registry import unregister as unregister
from warpwise.operation.rung import Rung as Rung
from warpwise.operation.rung import UnknownRung as UnknownRung
from warpwise.operation.rung import Unsized as Unsized
from warpwise.operation.rung import make_rung as make_rung
from warpwise.operation.spec import Case as Case
from warpwise.operation.spec import Cost as Cost
from warpwise.operation.spec import Output as Output
from warpwise.operation.spec import Spec as Spec
from warpwise.operation.tables import Tables as Tables
