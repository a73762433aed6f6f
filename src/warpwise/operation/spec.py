"""What an operation is: schema, outputs, float64 reference, test cases and cost, without any kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch

from warpwise.arguments.draw import LAYOUTS, check_values
from warpwise.arguments.schema import REQUIRED, Schema, parse
from warpwise.arguments.values import as_tuple, first_tensor, single

if TYPE_CHECKING:
    from warpwise.operation.autograd import Gradient

Tensors = Mapping[str, torch.Tensor]


def require_dtypes(owner: str, dtypes: Any) -> None:
    """Raise ``TypeError`` unless ``dtypes`` is a sequence of torch's dtypes. The message begins with ``owner``."""
    if not isinstance(dtypes, (tuple, list)) or not all(isinstance(dtype, torch.dtype) for dtype in dtypes):
        raise TypeError(f"{owner}: expected dtypes to be a tuple such as (torch.float32,), got {dtypes!r}")


def require_unique(owner: str, names: Sequence[str]) -> None:
    """Raise ``ValueError`` if a name occurs twice. The message begins with ``owner``."""
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{owner}: expected different names, got {name!r} {names.count(name)} times")


@dataclass(frozen=True)
class Cost:
    """The minimum work of an operation: FLOPs, and bytes if each input is read once and each output written once."""

    bytes: int
    flops: int = 0


@dataclass(frozen=True)
class Case:
    """The arguments of one test or of one timing.

    ``sizes`` are dimensions or numbers of elements; the lab reduces them to shrink a failing case. ``attributes`` are
    all other settings: an attribute with the name of a schema argument is that argument's value; ``Spec.inputs`` reads
    the others. ``layout`` is the memory layout of each tensor argument; ``layouts`` overrides it for single arguments.
    Both name an entry of ``operation.LAYOUTS`` or of ``Spec.layouts``. Raises ``ValueError`` for other ``values``.
    """

    name: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    values: Literal["normal", "huge"] = "normal"
    layout: str = "contiguous"
    layouts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_values(f"case {self.name!r}", self.values)

    def __str__(self) -> str:
        """``large(rows=8, masked=True)``; settings that the name contains, as in ``rows=8,masked=true``, once."""
        sizes = [f"{key}={value}" for key, value in self.sizes.items()]
        attributes = [f"{key}={value}" for key, value in self.attributes.items()]
        shown = sizes if not all(map(self._names, sizes)) else []  # all of them if shrinking changed one
        shown = [*shown, *(text for text in attributes if not self._names(text))]
        return f"{self.name}({', '.join(shown)})" if shown or "=" not in self.name else self.name

    def _names(self, setting: str) -> bool:
        """True if ``setting``, ``NAME=VALUE``, is a part of the name."""
        name, setting = (text.replace(" ", "").casefold() for text in (self.name, setting))
        return f",{setting}," in f",{name},"


@dataclass(frozen=True)
class Output:
    """One output: its shape, dtype and memory, and how an actual value is compared with the reference.

    ``like`` names an argument with the same shape and dtype. Otherwise ``shape(*args)`` returns the shape; a ``None``
    in it is a size that depends on the data, which the rung passes to ``Unsized.allocate``. ``dtype`` is a dtype, the
    name of an argument (the first tensor unless given), or a function ``dtype(*args)``. ``memory_format(*args)``
    returns a ``torch.memory_format``; contiguous by default. If ``present(*args)`` is false, the output is None. A
    ``saved`` output is saved for the backward and not returned.

    An element may differ from the reference by the rounding error of a sum of ``terms(*args)`` terms whose absolute
    values add up to ``magnitude(*args)``, a float64 tensor that expands to the shape of the output (by default the
    reference's absolute value). For a mutated list, ``magnitude`` returns one tensor for all elements of the list, or a
    list with a tensor for each. Integers are exact. ``check(results, references, arguments)`` replaces the elementwise
    comparison: it gets mappings by name and returns a description of the error, or None.
    """

    like: str = ""
    shape: Callable[..., Sequence[int | None]] | None = None
    dtype: torch.dtype | str | Callable[..., torch.dtype] = ""
    memory_format: Callable[..., torch.memory_format] | None = None
    present: Callable[..., bool] | None = None
    saved: bool = False
    terms: Callable[..., int] | int = 1
    magnitude: Callable[..., torch.Tensor | Sequence[torch.Tensor] | None] | None = None
    check: Callable[[Tensors, Tensors, Mapping[str, Any]], str | None] | None = None


@dataclass(frozen=True)
class Spec:
    """The specification of an operation. Callables take the schema's arguments, by position, unless said otherwise.

    ``schema`` is a string as ``torch.library`` takes it. ``outputs`` describes each output, and the tolerance of a
    mutated argument. ``inputs(case, dtype, device, seed)`` returns a mapping from argument names to values; missing
    arguments come from the case's attributes or the schema's defaults. ``check`` raises ``TypeError`` or ``ValueError``
    with the name of the argument. ``reference`` computes in float64 (integers exactly) and returns the outputs, then
    the new value of each mutated argument; it does not change its arguments. ``eager`` is PyTorch's own computation: it
    returns the outputs and writes mutated arguments in place. ``eager_plan(*args)`` returns a function that computes
    the same for all arguments with the key of ``args``, without the decisions that ``eager`` repeats at each call.

    ``cases`` are verified and ``sizes`` timed, in each of ``dtypes``. ``cost`` returns the minimum work. ``opponents``
    are further implementations to time; ``vendor`` names the library behind ``eager`` on a GPU ("cuBLAS"). ``exempt``
    maps each kind of case that ``cases`` lacks to the reason. ``units``: the arithmetic units of the ceiling ("tf32").

    ``varying`` names scalar arguments that change from call to call (seed, step, learning rate): they are passed to
    kernels by value and are not part of a call's key. torch.compile does not recompile for a new value of
    an integer, but it does for one of a float: PyTorch treats an operator's float argument as a constant.
    ``dtype_from`` names the tensor argument whose dtype is the operation's; by default the first. ``empty`` selects the
    implementation if an input has no elements and an output has some: the "rung", or PyTorch ("eager"). ``autocast`` is
    the rule under ``torch.autocast``: "keep" dtypes, "low_precision" as for matmul, "float32" as for softmax.
    ``gradient`` is the operation's backward.

    Raises ``ValueError`` or ``TypeError`` if the fields contradict each other or the schema.
    """

    schema: str
    outputs: Mapping[str, Output]
    reference: Callable[..., Any]
    inputs: Callable[[Case, torch.dtype, torch.device, int], Mapping[str, Any]]
    eager: Callable[..., Any]
    cost: Callable[..., Cost]
    cases: tuple[Case, ...] = ()
    sizes: tuple[Case, ...] = ()
    check: Callable[..., None] = lambda *args: None
    eager_plan: Callable[..., Callable[..., Any]] | None = None
    dtypes: tuple[torch.dtype, ...] = (torch.float32,)
    summary: str = ""
    gradient: Gradient | None = None
    varying: tuple[str, ...] = ()
    dtype_from: str = ""
    empty: Literal["rung", "eager"] = "rung"
    autocast: Literal["keep", "low_precision", "float32"] = "keep"
    layouts: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = field(default_factory=dict)
    opponents: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    vendor: str = ""
    units: str = ""
    exempt: Mapping[str, str] = field(default_factory=dict)
    parsed: Schema = field(init=False, repr=False, compare=False)
    results: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The names of the results that are compared with the reference: the outputs, then the mutated arguments."""
    returned: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The names of the outputs that a call returns: all but the saved ones."""
    optional: Mapping[int, Callable[..., bool]] = field(init=False, repr=False, compare=False)
    """The functions ``present`` of the optional outputs, by position."""

    def __post_init__(self) -> None:
        parsed = parse(self.schema)
        object.__setattr__(self, "parsed", parsed)
        require_dtypes(parsed.name, self.dtypes)
        for kind, cases in (("cases", self.cases), ("sizes", self.sizes)):
            require_unique(f"{parsed.name}: {kind}", [case.name for case in cases])
        described, wanted = set(self.outputs), set(parsed.outputs)
        if not wanted <= described or not described <= wanted | set(parsed.mutated):
            raise ValueError(
                f"{parsed.name}: expected outputs for {sorted(wanted)}, those of the schema, got {sorted(described)}; "
                "saved outputs are outputs of the schema too"
            )
        for name in (*self.varying, *([self.dtype_from] if self.dtype_from else [])):
            parsed.index(name)
        if tensors := [name for name in self.varying if parsed.arguments[parsed.index(name)].is_tensor]:
            raise ValueError(f"{parsed.name}: expected varying arguments to be scalars, got tensor {tensors[0]!r}")

        presents = [self.outputs[name].present for name in parsed.outputs]
        object.__setattr__(self, "results", (*parsed.outputs, *parsed.mutated))
        object.__setattr__(self, "returned", tuple(name for name in parsed.outputs if not self.outputs[name].saved))
        object.__setattr__(
            self, "optional", {at: present for at, present in enumerate(presents) if present is not None}
        )

    @property
    def name(self) -> str:
        return self.parsed.name

    def check_eager(self, made: tuple[Any, ...]) -> None:
        """Raise ``RuntimeError`` unless ``eager`` returned every output of the schema."""
        if len(made) != len(self.parsed.outputs):
            wanted = f"those of the schema, saved ones too: {', '.join(self.parsed.outputs) or 'none'}"
            raise RuntimeError(f"{self.name}: eager returned {len(made)} outputs, expected {wanted}")

    def without_absent(self, args: Sequence[Any], results: Any) -> Any:
        """``results`` of the library operator, with None in place of the empty tensors of absent outputs."""
        if not self.optional:
            return results
        parts = enumerate(as_tuple(results))
        return single([None if at in self.optional and not self.optional[at](*args) else part for at, part in parts])

    def arguments(self, case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> tuple[Any, ...]:
        """The arguments of ``case`` in the schema's order.

        Raises ``ValueError`` for names that the schema lacks, and ``TypeError`` if ``inputs`` returns no mapping.
        """
        made = self.inputs(case, dtype, device, seed)
        if not isinstance(made, Mapping):
            kind = type(made).__name__
            raise TypeError(f"{self.name}: expected inputs to return a mapping by argument name, got {kind}")
        given = dict(made)
        for name in (*given, *case.layouts):
            self.parsed.index(name)
        values = []
        for argument in self.parsed.arguments:
            value = given.get(argument.name, case.attributes.get(argument.name, argument.default))
            if value is REQUIRED:
                raise ValueError(f"{self.name}, {case}: neither inputs nor attributes give argument {argument.name!r}")
            if argument.is_tensor:
                value = self._arranged(value, case.layouts.get(argument.name, case.layout))
            values.append(value)
        return tuple(values)

    def _arranged(self, value: Any, layout: str) -> Any:
        known = {**LAYOUTS, **self.layouts}
        if layout not in known:
            raise ValueError(f"{self.name}: no layout {layout!r}; there are {', '.join(known)}")
        if isinstance(value, torch.Tensor):
            return known[layout](value)
        return value if value is None else [self._arranged(one, layout) for one in value]

    def dtype(self, args: Sequence[Any]) -> torch.dtype:
        """The dtype of a call: that of ``dtype_from``, or of the first tensor."""
        if self.dtype_from:
            return args[self.parsed.index(self.dtype_from)].dtype
        return first_tensor(args).dtype

    def named(self, args: Sequence[Any]) -> dict[str, Any]:
        """``args`` by the schema's names."""
        return {argument.name: value for argument, value in zip(self.parsed.arguments, args, strict=True)}
