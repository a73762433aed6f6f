"""``backward_spec``: the specification of a backward operation, derived from that of the forward."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from warpwise.arguments.checks import check_tensor
from warpwise.arguments.draw import draw
from warpwise.arguments.schema import REQUIRED, Schema, parse
from warpwise.arguments.values import as_tuple, map_tensors, single, tensors
from warpwise.operation.autograd import GRAD, NEEDS, SHAPE, Gradient, Saved
from warpwise.operation.op import Op
from warpwise.operation.spec import Case, Cost, Output, Spec


def backward_spec(forward: Spec, schema: str, outputs: Mapping[str, Output] | None = None, **changes: Any) -> Spec:
    """The specification of the backward of ``forward``; ``changes`` replace its fields.

    The arguments of ``schema`` are ``grad_<output>``, every argument of the forward, ``needs_<argument>`` for each
    optional gradient, and outputs of the forward (saved statistics); its outputs are ``grad_<argument>``. Where the
    gradients do not depend on the values of a tensor, ``shape_<argument>`` (``int[]``) can take its place. The tensor
    is then not saved; the functions below get zeros of the dtype of the first ``grad_<output>`` instead. By default

    - an output has the shape and dtype of its argument; ``outputs`` gives the terms and magnitude of a sum;
    - the reference is float64 autograd of the forward's reference;
    - ``eager`` is autograd of the forward's ``eager``, which computes the forward again: pass a faster one to time it;
    - inputs are the forward's, its outputs and normal ``grad_<output>``; each is read, and each gradient written, once.
      A ``needs_<argument>`` that neither the case's attributes nor the schema give is true unless the argument is None;
    - second derivatives are autograd of ``eager``, for the arguments of the forward, not for its outputs; if ``eager``
      cannot be differentiated twice, pass another one, or ``gradient=None``;
    - ``cases``, ``sizes``, ``dtypes``, ``layouts``, ``exempt``, ``empty`` and ``autocast`` are the forward's.

    Its ``check`` also requires that outputs of the forward and their gradients have the dtypes of these outputs. Raises
    ``ValueError`` if the schema lacks an argument of the forward and its shape, or if one of its outputs is not
    ``grad_<argument>``.
    """
    parsed = parse(schema)
    names = tuple(argument.name for argument in parsed.arguments)
    required = {argument.name for argument in parsed.arguments if argument.default is REQUIRED}
    _require_arguments(forward, parsed)
    described = {name: _output(name, names) for name in parsed.outputs} | dict(outputs or {})
    eager = _pulled_back(forward, forward.eager, names, parsed.outputs)
    exact = _pulled_back(forward, forward.reference, names, parsed.outputs)

    def reference(*args: Any) -> Any:
        return exact(*map_tensors(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor, args))

    def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
        args = forward.arguments(replace(case, layout="contiguous", layouts={}), dtype, device, seed)
        made: Mapping[str, Any] = dict(zip(forward.parsed.outputs, Op(forward, ()).allocate(*args), strict=True))
        found = forward.named(args) | {
            GRAD + name: None if tensor is None else draw(tensor.shape, tensor.dtype, device, 97 * seed + at)
            for at, (name, tensor) in enumerate(made.items())
        }
        if device.type != "meta":
            results = dict(zip(made, as_tuple(forward.reference(*args)), strict=False))
            made = {name: value if value is None else results[name].to(value.dtype) for name, value in made.items()}
        shapes = {SHAPE + name: tuple(value.shape) for name, value in found.items() if isinstance(value, torch.Tensor)}
        needs = {NEEDS + name: value is not None for name, value in found.items()}
        needs = {name: value for name, value in needs.items() if name in required and name not in case.attributes}
        return {name: value for name, value in {**shapes, **needs, **made, **found}.items() if name in names}

    def cost(*args: Any) -> Cost:
        given = _given(forward, names, args)
        written = [given[name.removeprefix(GRAD)] for name in parsed.outputs]
        return Cost(bytes=sum(tensor.nbytes for tensor in tensors([list(args), written])))

    spec = Spec(
        schema, described, reference, inputs, eager, cost, forward.cases, forward.sizes, dtypes=forward.dtypes,
        empty=forward.empty, autocast=forward.autocast, layouts=forward.layouts, exempt=forward.exempt,
        summary=f"the gradients of {forward.name}", gradient=_second(forward, eager, names),
    )  # fmt: skip
    spec = replace(spec, **changes)
    return replace(spec, check=_with_dtypes(forward, spec, names))


def _require_arguments(forward: Spec, backward: Schema) -> None:
    """Raise ``ValueError`` if ``backward`` lacks an argument of ``forward`` and its shape.

    Also raise it if an output of ``backward`` is not the gradient of an argument, or if ``backward`` takes a shape but
    no ``grad_<output>``, whose dtype the zeros in its place have.
    """
    names = [argument.name for argument in backward.arguments]
    replaced = [argument.name for argument in forward.parsed.arguments if argument.name not in names]
    missing = [name for name in replaced if SHAPE + name not in names]
    if missing:
        raise ValueError(
            f"{backward.name}: expected every argument of {forward.name}, got no {', '.join(missing)}; "
            f"{SHAPE}<argument> can take the place of a tensor whose values the gradients do not depend on"
        )
    arguments = [GRAD + argument.name for argument in forward.parsed.arguments if argument.is_tensor]
    if wrong := [name for name in backward.outputs if name not in arguments]:
        raise ValueError(f"{backward.name} returns {wrong[0]!r}, expected some of {', '.join(arguments)}")
    if replaced and not any(GRAD + name in names for name in forward.parsed.outputs):
        raise ValueError(f"{backward.name}: expected a {GRAD}<output>, which gives the dtype of {replaced[0]}")


def _given(forward: Spec, names: Sequence[str], args: Sequence[Any]) -> dict[str, Any]:
    """``args`` by name, with zeros for each tensor of the forward of which the backward takes only the shape."""
    given = dict(zip(names, args, strict=True))
    absent = [argument.name for argument in forward.parsed.arguments if argument.name not in given]
    if absent:
        grad = next(given[GRAD + name] for name in forward.parsed.outputs if given.get(GRAD + name) is not None)
        given |= {name: grad.new_zeros(given[SHAPE + name]) for name in absent}
    return given


def _with_dtypes(forward: Spec, spec: Spec, names: Sequence[str]) -> Callable[..., None]:
    """``spec.check``, then a check that outputs of ``forward`` and their gradients have the dtypes of these outputs."""
    op, arguments = Op(forward, ()), [argument.name for argument in forward.parsed.arguments]

    def check(*args: Any) -> None:
        spec.check(*args)
        given = _given(forward, names, args)
        of_forward = [given[name] for name in arguments]
        for output in forward.parsed.outputs:
            for name in {GRAD + output, output}.intersection(names).difference(arguments):
                if given[name] is not None:
                    check_tensor(spec.name, name, given[name], (op.output_dtype(output, of_forward),))

    return check


def _output(name: str, names: Sequence[str]) -> Output:
    """A gradient like its argument, present where ``needs_<argument>`` is true."""
    argument = name.removeprefix(GRAD)
    if argument in names:
        made = Output(like=argument)
    else:
        place = names.index(SHAPE + argument)
        grad = next(name for name in names if name.startswith(GRAD))
        made = Output(shape=lambda *args: args[place], dtype=grad)
    if NEEDS + argument not in names:
        return made
    position = names.index(NEEDS + argument)
    return replace(made, present=lambda *args: bool(args[position]))


def _pulled_back(
    forward: Spec, function: Callable[..., Any], names: Sequence[str], gradients: Sequence[str]
) -> Callable[..., Any]:
    """The backward of ``function``, which computes ``forward``; ``names`` are the arguments of the backward."""
    arguments = [argument.name for argument in forward.parsed.arguments]

    def backward(*args: Any) -> Any:
        given = _given(forward, names, args)
        wanted = [name.removeprefix(GRAD) for name in gradients]
        wanted = [name for name in wanted if given[name] is not None and given.get(NEEDS + name, True)]
        grads = [given.get(GRAD + name) for name in forward.parsed.outputs]
        found = _pull(lambda known: function(*(known[name] for name in arguments)), given, wanted, grads)
        return single([found.get(name.removeprefix(GRAD)) for name in gradients])

    return backward


def _second(forward: Spec, eager: Callable[..., Any], names: tuple[str, ...]) -> Gradient:
    """The gradient of the backward: ``eager`` differentiated once more."""
    known = {argument.name for argument in forward.parsed.arguments} | {GRAD + name for name in forward.parsed.outputs}

    def second(saved: Saved, *grads: Any) -> dict[str, Any]:
        given = {name: getattr(saved, name) for name in names}
        floating = {
            name for name, value in given.items() if isinstance(value, torch.Tensor) and value.is_floating_point()
        }
        return _pull(lambda values: eager(*(values[name] for name in names)), given, sorted(floating & known), grads)

    return Gradient(second, saves=names)


def _pull(
    function: Callable[[dict[str, Any]], Any], given: dict[str, Any], leaves: Sequence[str], grads: Sequence[Any]
) -> dict[str, Any]:
    """The gradients of the arguments ``leaves`` of ``given`` from those of the results; None for an unused argument."""
    used = [at for at, grad in enumerate(grads) if grad is not None]

    def outputs(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = as_tuple(function(given | dict(zip(leaves, values, strict=True))))
        return tuple(made[at] for at in used)

    with _with_transforms():
        made, back = torch.func.vjp(outputs, *(given[name] for name in leaves))[:2]
        found = back(tuple(grads[at].to(one.dtype) for at, one in zip(used, made, strict=True)))
    return dict(zip(leaves, found, strict=True))


_TRANSFORMS = ("FuncTorchDynamicLayerFrontMode", "FuncTorchDynamicLayerBackMode", "FuncTorchGradWrapper")


@contextlib.contextmanager
def _with_transforms() -> Iterator[None]:
    """Allow torch.func inside an operator that a dispatch mode calls, where PyTorch excludes torch.func's keys."""
    excluded = torch._C._dispatch_tls_local_exclude_set()
    keys = [getattr(torch._C.DispatchKey, name) for name in _TRANSFORMS]
    if not any(excluded.has(key) for key in keys):
        yield
        return
    for key in (*keys, torch._C.DispatchKey.PythonTLSSnapshot):
        excluded = excluded.remove(key)
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded):
        yield
