"""``tl.reduce`` and ``tl.associative_scan`` in NumPy; the combine function is applied to whole slices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

from warpwise.triton.builder import handle_of, values_of
from warpwise.triton.compat import TensorHandle
from warpwise.triton.scalar_functions import apply, to_tensor
from warpwise.triton.undefined import passed_on
from warpwise.triton.undefined_extremes import changed_extremes

Array = np.ndarray[Any, np.dtype[Any]]


def _constant(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def _combine(combine: Callable[..., Any], left: list[Array], right: list[Array], kinds: list[tl.dtype]) -> list[Array]:
    """Apply the kernel's combine function to two lists of slices."""
    operands = [to_tensor(data, kind) for data, kind in zip([*left, *right], [*kinds, *kinds], strict=True)]
    shaped = []
    for part, before, kind in zip(apply(combine, operands), left, kinds, strict=True):
        data = handle_of(values_of(part.handle), kind).data
        shaped.append(np.broadcast_to(data, before.shape) if np.shape(data) != before.shape else data)
    return shaped


_NUMPY_OPERATIONS = {
    "_sum_combine": np.add,
    "_prod_combine": np.multiply,
    "_elementwise_max": np.fmax,
    "_elementwise_min": np.fmin,
}


# Triton's combine functions of a value and its index: is the maximum wanted, and of equal values the least index.
_INDEX_OPERATIONS = {
    "_argmax_combine_tie_break_left": (True, True),
    "_argmax_combine_tie_break_fast": (True, False),
    "_argmin_combine_tie_break_left": (False, True),
    "_argmin_combine_tie_break_fast": (False, False),
}


def _extreme_with_index(combine: Any, folded: list[Array], kinds: list[tl.dtype]) -> list[Array] | None:
    """``tl.max`` and ``tl.min`` with indices along the first axis, or None for another function, or with a NaN."""
    found = _index_operation(combine)
    if found is None or len(folded) != 2:
        return None
    values, index = values_of(TensorHandle(folded[0], kinds[0])), folded[1]
    largest, least_index = found
    best = values.max(axis=0) if largest else values.min(axis=0)
    if best.dtype.kind == "f" and np.isnan(best).any():
        return None  # the result depends on the order of the comparisons
    chosen = values == best
    if least_index:
        place = np.argmin(np.where(chosen, index, np.iinfo(index.dtype).max), axis=0)
    else:
        place = len(values) - 1 - np.argmax(chosen[::-1], axis=0)
    return [np.take_along_axis(part, place[None], axis=0)[0] for part in folded]


def _numpy_operation(combine: Any) -> Any:
    """Return the NumPy equivalent of a combine function of Triton's standard library, or None."""
    return _NUMPY_OPERATIONS.get(_standard_name(combine))


def _index_operation(combine: Any) -> tuple[bool, bool] | None:
    return _INDEX_OPERATIONS.get(_standard_name(combine))


def _standard_name(combine: Any) -> str:
    """The name of a function of Triton's standard library, else an empty string."""
    in_library = getattr(combine, "__module__", "").startswith("triton.language")
    return getattr(combine, "__name__", "") if in_library else ""


def reduce(
    input: Any, axis: Any, combine_fn: Callable[..., Any], keep_dims: Any = False, **ignored: Any
) -> tl.tensor | tuple[tl.tensor, ...]:
    """``tl.reduce``: combine neighbouring pairs, which keeps the operands in order."""
    blocks = input if isinstance(input, (tuple, tl.tuple)) else (input,)
    axis, keep_dims = _constant(axis), bool(_constant(keep_dims))
    kinds = [block.type.scalar for block in blocks]
    rank = len(blocks[0].shape)
    _check_axis(axis, rank)
    _synchronise(ignored.get("_semantic"))
    data = [block.handle.data.reshape([int(size) for size in block.shape]) for block in blocks]
    operands = folded = [part.reshape(-1) if axis is None else np.moveaxis(part, axis, 0) for part in data]
    operation = _numpy_operation(combine_fn)
    if operation is not None and len(blocks) == 1:
        values = values_of(TensorHandle(folded[0], kinds[0]))
        total = handle_of(np.asarray(operation.reduce(values, axis=0)), kinds[0])
        results = [total.data]
        special = getattr(getattr(ignored.get("_semantic"), "builder", None), "special", None)
        if special is not None:
            special.note_reduction(f"{operation.__name__}.reduce", (values,), values_of(total), kinds[0].name)
    elif (extreme := _extreme_with_index(combine_fn, folded, kinds)) is not None:
        results = extreme
    else:
        while folded[0].shape[0] > 1:
            folded = _combine(combine_fn, [part[0::2] for part in folded], [part[1::2] for part in folded], kinds)
        results = [part[0] for part in folded]
    if keep_dims:
        results = [r.reshape([1] * rank) if axis is None else np.expand_dims(r, axis) for r in results]
    output = tuple(to_tensor(np.asarray(result), kind) for result, kind in zip(results, kinds, strict=True))

    def undefined(lanes: list[Array], result: int) -> Array:
        """A result depends on every operand along the axis, unless an extreme is decided without it."""
        shaped = [part.reshape([int(size) for size in blocks[0].shape]) for part in lanes]
        moved = [part.reshape(-1) if axis is None else np.moveaxis(part, axis, 0) for part in shaped]
        changed = _changed_extremes(combine_fn, [block.handle for block in blocks], operands, moved)
        if changed is not None:
            return np.asarray(changed[result])
        return np.asarray(functools.reduce(np.logical_or, moved).any(axis=0))

    _pass_on(blocks, undefined, output)
    return output if isinstance(input, (tuple, tl.tuple)) else output[0]


def _changed_extremes(
    combine: Any, handles: list[TensorHandle], operands: list[Array], lanes: list[Array]
) -> tuple[Array, Array] | None:
    """Where a maximum or minimum and its index depend on undefined lanes; None for other functions."""
    values = values_of(TensorHandle(operands[0], handles[0].dtype))
    operation, with_index = _numpy_operation(combine), _index_operation(combine)
    if len(handles) == 1 and operation in (np.fmax, np.fmin):
        return changed_extremes(handles[0], values, lanes[0], operation is np.fmax, least_index=False)
    if len(handles) == 2 and with_index is not None and not lanes[1].any():
        return changed_extremes(handles[0], values, lanes[0], *with_index)
    return None


def _synchronise(semantic: Any) -> None:
    """Lanes exchange values, and may wait for each other."""
    if semantic is not None:
        semantic.builder.tracker.phase += 1


def _pass_on(blocks: Any, rule: Callable[[list[Array], int], Array], output: tuple[tl.tensor, ...]) -> None:
    """Mark the undefined lanes of the results; ``rule`` computes those of one result from those of the blocks."""
    shape = np.shape(output[0].handle.data)
    for number, result in enumerate(output):

        def lanes_of_result(lanes: list[Array], number: int = number) -> Array:
            return rule(lanes, number).reshape(shape)

        passed_on([block.handle for block in blocks], lanes_of_result, result.handle)


def _check_axis(axis: int | None, rank: int) -> None:
    if axis is not None and not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for a block of rank {rank}")


def associative_scan(
    input: Any, axis: Any, combine_fn: Callable[..., Any], reverse: Any = False, **ignored: Any
) -> tl.tensor | tuple[tl.tensor, ...]:
    """``tl.associative_scan``: inclusive scan, by recursive doubling (Hillis-Steele)."""
    blocks = input if isinstance(input, (tuple, tl.tuple)) else (input,)
    axis, reverse = _constant(axis), bool(_constant(reverse))
    kinds = [block.type.scalar for block in blocks]
    _check_axis(axis, len(blocks[0].shape))
    _synchronise(ignored.get("_semantic"))
    data = [np.moveaxis(block.handle.data, axis, 0) for block in blocks]
    data = [part[::-1] if reverse else part for part in data]
    distance, length = 1, data[0].shape[0]
    while distance < length:
        # Blocks must keep their power-of-two shape: np.roll wraps around, and the first elements are restored.
        combined = _combine(combine_fn, [np.roll(part, distance, axis=0) for part in data], data, kinds)
        data = [np.concatenate([old[:distance], new[distance:]]) for old, new in zip(data, combined, strict=True)]
        distance *= 2
    data = [np.moveaxis(part[::-1] if reverse else part, 0, axis) for part in data]
    output = tuple(to_tensor(np.ascontiguousarray(part), kind) for part, kind in zip(data, kinds, strict=True))

    def undefined(lanes: list[Array], result: int) -> Array:
        """Each result depends on the operands before it along the axis, or on those after it."""
        either = functools.reduce(np.logical_or, lanes)
        ordered = np.flip(either, axis) if reverse else either
        running = np.logical_or.accumulate(ordered, axis=axis)
        return np.flip(running, axis) if reverse else running

    _pass_on(blocks, undefined, output)
    return output if isinstance(input, (tuple, tl.tuple)) else output[0]
