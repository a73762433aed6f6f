"""The public function sgd."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from warpwise.arguments.checks import listed, real
from warpwise.operation import Op, register
from warpwise.ops.sgd.rungs import RUNGS, default
from warpwise.ops.sgd.spec import SPEC

SGD = register(Op(SPEC, RUNGS, default))
_sgd = SGD.call


def sgd(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    buffers: Sequence[torch.Tensor] | None,
    lr: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    *,
    rung: str | None = None,
) -> None:
    """One step of stochastic gradient descent, in place: g += weight_decay p; b = momentum b + g; p -= lr b.

    ``params``, ``grads`` and ``buffers`` are lists of tensors of any shapes, of one floating-point dtype and on one
    device; each gradient and buffer has the shape of its parameter. Buffers are zeros before the first step; without
    momentum ``buffers`` is None. With ``nesterov`` p -= lr (g + momentum b). ``grads`` keep their values. ``lr`` may
    change from call to call without a new plan. Not differentiable. ``rung`` names one kernel of the ladder. Raises
    ``TypeError`` or ``ValueError`` that names the argument.
    """
    if not (type(lr) is type(momentum) is type(weight_decay) is float):
        lr, momentum = real("sgd", "lr", lr), real("sgd", "momentum", momentum)
        weight_decay = real("sgd", "weight_decay", weight_decay)
    params, grads = listed("sgd", "params", params), listed("sgd", "grads", grads)
    kept = None if buffers is None else listed("sgd", "buffers", buffers) or None
    _sgd(params, grads, kept, lr, momentum, weight_decay, nesterov, rung=rung)
