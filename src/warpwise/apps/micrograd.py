"""Reverse-mode automatic differentiation small enough to read, over the operations of ``warpwise.ops``.

A ``Value`` holds a tensor, the values that it was computed from, and the function that passes a gradient back to them.
``backward`` visits the values from the result to the leaves, each after all values that use it, and adds the gradient
that each value passes to its parents. PyTorch's autograd is switched off.

>>> x, w = Value(images), Value(weights)
>>> loss = cross_entropy((x @ w).relu(), labels)
>>> loss.backward()
>>> w.grad
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Union

import torch

from warpwise.ops.cross_entropy.op import CROSS_ENTROPY, cross_entropy_backward
from warpwise.ops.linear.op import activation_backward
from warpwise.ops.matmul.op import matmul
from warpwise.ops.reduce_sum.op import reduce_sum
from warpwise.ops.sgd.op import sgd

Pull = Callable[[torch.Tensor], Sequence[torch.Tensor | None]]
Operand = Union["Value", torch.Tensor, float, int]


class Value:
    """A tensor, float32 or float64, with its gradient after ``backward`` of what was computed from it.

    ``parents`` are the values it was computed from; ``pull(grad)`` returns one gradient for each of them. Raises
    ``TypeError`` for a tensor of another dtype.
    """

    def __init__(self, data: Any, parents: Sequence[Value] = (), pull: Pull | None = None) -> None:
        self.data = data.detach() if isinstance(data, torch.Tensor) else torch.as_tensor(data, dtype=torch.float32)
        if self.data.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"Value: expected float32 or float64, got {self.data.dtype}")
        self.grad: torch.Tensor | None = None
        self._parents, self._pull = tuple(parents), pull

    @property
    def shape(self) -> torch.Size:
        return self.data.shape

    def __repr__(self) -> str:
        return f"Value(shape={tuple(self.shape)}, data={self.data!r})"

    # Elementwise operations, with broadcasting.

    def __add__(self, other: Operand) -> Value:
        other = self._value(other)
        return _made(self.data + other.data, (self, other), lambda g: (g, g))

    def __mul__(self, other: Operand) -> Value:
        other = self._value(other)
        return _made(self.data * other.data, (self, other), lambda g: (g * other.data, g * self.data))

    def __neg__(self) -> Value:
        return self * -1.0

    def __sub__(self, other: Operand) -> Value:
        return self + (-self._value(other))

    def __rsub__(self, other: Operand) -> Value:
        return self._value(other) + (-self)

    __radd__, __rmul__ = __add__, __mul__

    def exp(self) -> Value:
        y = torch.exp(self.data)
        return _made(y, (self,), lambda g: (g * y,))

    def tanh(self) -> Value:
        y = torch.tanh(self.data)
        return _made(y, (self,), lambda g: (g * (1 - y * y),))

    def relu(self) -> Value:
        """max(x, 0); its slope at 0 is 0."""
        y = self.data.clamp_min(0)
        if self.data.dim() == 0 or self.data.dtype == torch.float64:
            return _made(y, (self,), lambda g: (g * (y > 0),))
        return _made(y, (self,), lambda g: (activation_backward(g.contiguous(), y, "relu")[0],))

    # Products and sums.

    def __matmul__(self, other: Operand) -> Value:
        """(M, K) @ (K, N). With incoming G, dA = G B^T and dB = A^T G."""
        other = self._value(other)
        a, b = self.data, other.data
        return _made(matmul(a, b), (self, other), lambda g: (matmul(g, b.t()), matmul(a.t(), g)))

    def sum(self, dim: int | None = None) -> Value:
        """The sum of all elements, a scalar, or along ``dim``, which is removed."""
        shape = self.shape

        def pull(g: torch.Tensor) -> tuple[torch.Tensor]:
            return (g.expand(shape) if dim is None else g.unsqueeze(dim).expand(shape),)

        return _made(reduce_sum(self.data, dim), (self,), pull)

    def mean(self) -> Value:
        return self.sum() * (1 / self.data.numel())

    def reshape(self, *shape: int) -> Value:
        before = self.shape
        return _made(self.data.reshape(shape), (self,), lambda g: (g.reshape(before),))

    # The gradient.

    def backward(self) -> None:
        """Add the gradient of this scalar to ``grad`` of every value that it was computed from.

        Raises ``ValueError`` unless the value has one element.
        """
        if self.data.numel() != 1:
            raise ValueError(f"backward: expected a value with one element, got shape {tuple(self.shape)}")
        grads: dict[int, torch.Tensor] = {id(self): torch.ones_like(self.data)}
        for value in _from_result_to_leaves(self):
            grad = grads.pop(id(value), None)
            if grad is None:
                continue
            value.grad = grad if value.grad is None else value.grad + grad
            if value._pull is None:
                continue
            for parent, part in zip(value._parents, value._pull(grad), strict=True):
                if part is not None:
                    part = _summed_to(part, parent.shape)
                    known = grads.get(id(parent))
                    grads[id(parent)] = part if known is None else known + part

    def _value(self, other: Operand) -> Value:
        """``other`` as a value: numbers become scalars of this dtype and device."""
        if isinstance(other, Value):
            return other
        return Value(torch.as_tensor(other, dtype=self.data.dtype, device=self.data.device))


def cross_entropy(logits: Value, target: torch.Tensor) -> Value:
    """The mean of -log softmax(logits)[target] over rows: logits (N, C), target int64 (N,)."""
    args = (logits.data, target, -100)
    loss = CROSS_ENTROPY.call(*args)
    count = torch.full((), len(target), dtype=torch.int64, device=target.device)
    return _made(loss, (logits,), lambda g: (cross_entropy_backward(g, *args, count),))


def _made(data: torch.Tensor, parents: Sequence[Value], pull: Pull) -> Value:
    return Value(data, parents, pull)


def _from_result_to_leaves(result: Value) -> Iterator[Value]:
    """Each value once, after all that use it: the reverse of a depth-first postorder, without recursion."""
    order: list[Value] = []
    seen: set[int] = set()
    stack: list[tuple[Value, bool]] = [(result, False)]
    while stack:
        value, parents_done = stack.pop()
        if parents_done:
            order.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            stack.append((value, True))
            stack += [(parent, False) for parent in value._parents]
    return reversed(order)


def _summed_to(grad: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """The adjoint of broadcasting ``shape`` to that of ``grad``: sums over what was repeated."""
    if grad.shape == shape:
        return grad
    if extra := grad.dim() - len(shape):
        grad = grad.sum(tuple(range(extra)))
    repeated = [dim for dim, size in enumerate(shape) if size == 1 and grad.shape[dim] != 1]
    return grad.sum(repeated, keepdim=True) if repeated else grad


class Perceptron:
    """A network with one hidden layer: relu(x W1 + b1) W2 + b2, from (N, inputs) to (N, outputs)."""

    def __init__(self, inputs: int, hidden: int, outputs: int, seed: int = 0, device: str = "cpu") -> None:
        generator = torch.Generator().manual_seed(seed)

        def drawn(rows: int, columns: int) -> Value:
            """Normal with the variance 2 / rows, which keeps that of the activations behind a relu."""
            return Value((torch.randn(rows, columns, generator=generator) * (2 / rows) ** 0.5).to(device))

        self.w1, self.w2 = drawn(inputs, hidden), drawn(hidden, outputs)
        self.b1, self.b2 = Value(torch.zeros(hidden, device=device)), Value(torch.zeros(outputs, device=device))

    @property
    def parameters(self) -> list[Value]:
        return [self.w1, self.b1, self.w2, self.b2]

    def __call__(self, x: Operand) -> Value:
        x = x if isinstance(x, Value) else Value(x)
        return (x @ self.w1 + self.b1).relu() @ self.w2 + self.b2

    def step(self, x: torch.Tensor, target: torch.Tensor, lr: float = 0.1) -> float:
        """Train on a batch: gradients from zero, then p -= lr g for all parameters in one launch; the loss before."""
        for parameter in self.parameters:
            parameter.grad = None
        loss = cross_entropy(self(x), target)
        loss.backward()
        grads = [parameter.grad.contiguous() for parameter in self.parameters if parameter.grad is not None]
        sgd([parameter.data for parameter in self.parameters], grads, None, lr)
        return float(loss.data)
