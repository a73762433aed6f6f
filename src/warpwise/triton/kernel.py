"""``wt.jit``: a Triton kernel that runs on a GPU for CUDA tensors and, checked, in Python for CPU tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np
import torch
import triton
from triton.compiler.errors import CompilationError
from triton.runtime import autotuner

from warpwise.cuda.errors import ArgumentError, Finding, LaunchError
from warpwise.cuda.launch import intercept
from warpwise.cuda.launch.views import Out, Strided
from warpwise.triton.arguments import bind, tensors_in, unwrapped
from warpwise.triton.compat import (
    LANGUAGE_IS_INTERPRETED,
    NOTHING_COMPILES,
    Autotuner,
    Heuristics,
    InterpretedFunction,
    JITFunction,
    OutOfResources,
    TensorDescriptor,
    compiled_launch,
    jit_options,
)
from warpwise.triton.interpreter import INTERPRETER

_SCALARS = frozenset({bool, int, float, str, type(None)})
_OWN = ("timeout", "checks", "grid", "warmup")


class TritonLauncher:
    """A kernel with its grid, ready to be called."""

    __slots__ = ("grid", "kernel")

    def __init__(self, kernel: Kernel | TunedKernel, grid: Any) -> None:
        self.kernel = kernel
        self.grid = (grid,) if isinstance(grid, int) else grid

    def __call__(self, *args: Any, timeout: float = 60.0, checks: str = "all", **meta: Any) -> Any:
        """Run on the device of the tensors: compiled for CUDA tensors, interpreted and checked for CPU tensors.

        ``timeout`` (s) and ``checks`` ("all", "bounds", "none") matter on the CPU only. Raises the first finding as its
        exception, ``ArgumentError`` for arguments that do not fit or lie on several devices, ``LaunchError`` for a
        grid or resources that the device has not, ``CompileError`` with the kernel's line.
        """
        if intercept.INTERCEPTORS and intercept.intercepted(self, args, {"timeout": timeout, "checks": checks, **meta}):
            return None
        index = -1
        elsewhere = marked = False
        for value in (*args, *meta.values()) if meta else args:
            kind = type(value)
            if kind in _SCALARS:
                continue
            if kind is Out or kind is Strided:
                marked = True
                value = value.value
            if isinstance(value, torch.Tensor):
                if not value.is_cuda:
                    elsewhere = True
                elif index < 0:
                    index = value.get_device()
                elif value.get_device() != index:
                    raise self._mixed(args, meta)
                continue
            inside, outside = _places(value)
            elsewhere = elsewhere or outside
            if len(inside) > 1 or (index >= 0 and inside and inside != {index}):
                raise self._mixed(args, meta)
            index = max(index, *inside, -1)
        if index < 0:
            self._interpreted(args, meta, timeout, checks, collect=False)
            return None
        if elsewhere:
            raise self._mixed(args, meta)
        if marked:
            args = tuple([unwrapped(value) for value in args])
            meta = {name: unwrapped(value) for name, value in meta.items()}
        if index != torch.cuda.current_device():
            with torch.cuda.device(index):
                return self._compiled(args, meta)
        return self._compiled(args, meta)

    def _compiled(self, args: tuple[Any, ...], meta: Mapping[str, Any]) -> Any:
        kernel = self.kernel
        if LANGUAGE_IS_INTERPRETED:
            raise LaunchError(f"{kernel.jit_function.__name__}: {NOTHING_COMPILES}")
        try:
            return kernel.launch_compiled(args, meta, self.grid)
        except CompilationError as error:
            from warpwise.triton.compiler import compile_error

            raise compile_error(kernel.jit_function, error) from error
        except OutOfResources as error:
            raise LaunchError(f"{kernel.jit_function.__name__}: {error}") from error

    def bound(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> tuple[tuple[int, ...], list[Any]] | None:
        """The grid and every parameter's value, as the compiled kernel is handed them; None where a launch decides more than that.

        That is so under ``autotune`` and ``heuristics``, with hooks, and with a grid that is a function.
        """
        kernel = self.kernel
        if not isinstance(kernel, Kernel) or kernel.pre_run_hooks or callable(self.grid):
            return None
        given = {**dict(zip(kernel.arg_names, args, strict=False)), **options}
        values = [unwrapped(given.get(parameter.name, parameter.default)) for parameter in kernel.params]
        return (*self.grid, 1, 1)[:3], values

    @staticmethod
    def relaunch(compiled: Any, grid: tuple[int, int, int], values: Sequence[Any]) -> Callable[[int, list[Any]], None]:
        """A function of a stream and of values for all parameters that launches ``compiled`` again."""
        return compiled_launch(compiled, grid, values)

    def check(self, *args: Any, timeout: float = 60.0, checks: str = "all", **meta: Any) -> list[Finding]:
        """Run interpreted and return every finding; CUDA tensors are copied to the CPU first and stay as they are."""
        copies = _on_cpu((*args, *meta.values()))
        args, meta = copies[: len(args)], dict(zip(meta, copies[len(args) :], strict=True))
        return self._interpreted(args, meta, timeout, checks, collect=True)

    def _interpreted(
        self, args: tuple[Any, ...], meta: Mapping[str, Any], timeout: float, checks: str, collect: bool
    ) -> list[Finding]:
        function = self.kernel.jit_function
        for tensor in tensors_in((*args, *meta.values())):
            if tensor.device.type != "cpu":
                raise ArgumentError(f"{function.__name__}: tensors may be on cpu or cuda, got one on {tensor.device}")
        args, meta, hooks = self.kernel.configured(args, dict(meta))
        bound = bind(function, args, meta)
        for hook in hooks:
            hook({name: unwrapped(value) for name, value in bound.items()})
        return INTERPRETER.launch(function, self.grid, bound, timeout=timeout, checks=checks, collect=collect)

    def _mixed(self, args: tuple[Any, ...], meta: Mapping[str, Any]) -> ArgumentError:
        names = self.kernel.jit_function.arg_names
        named = [*zip(names, args, strict=False), *meta.items()]
        places = [f"{name} on {tensor.device}" for name, value in named for tensor in tensors_in([value])]
        places += [f"{name} a NumPy array" for name, value in named if isinstance(unwrapped(value), np.ndarray)]
        return ArgumentError(
            f"{self.kernel.jit_function.__name__}: expected all tensors on one device, got {', '.join(places)}"
        )


def _places(value: Any) -> tuple[set[int], bool]:
    """The GPUs that a tuple's or descriptor's tensors are on, and whether an array of it lies elsewhere."""
    tensors = list(tensors_in((value,)))
    inside = {tensor.get_device() for tensor in tensors if tensor.is_cuda}
    return inside, isinstance(value, np.ndarray) or any(not tensor.is_cuda for tensor in tensors)


def _on_cpu(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors copied from a GPU to the CPU; views of one storage stay views of one."""
    storages: dict[int, torch.UntypedStorage] = {}

    def copied(item: Any) -> Any:
        if isinstance(item, torch.Tensor) and item.is_cuda:
            storage = item.untyped_storage()
            host = storages.setdefault(storage.data_ptr(), storage.cpu())
            return torch.empty(0, dtype=item.dtype).set_(host, item.storage_offset(), item.shape, item.stride())
        if isinstance(item, tuple):
            parts = [copied(part) for part in item]
            return type(item)(*parts) if hasattr(item, "_fields") else tuple(parts)
        if isinstance(item, (Out, Strided)):
            return type(item)(copied(item.value))
        if isinstance(item, TensorDescriptor):
            return TensorDescriptor(copied(item.base), item.shape, item.strides, item.block_shape, item.padding)
        return item

    return tuple(copied(value) for value in values)


class _Launchable:
    """What both kinds of kernel share."""

    jit_function: JITFunction

    def __getitem__(self, grid: Any) -> TritonLauncher:
        return TritonLauncher(self, grid)  # type: ignore[arg-type]

    def compile_for(self, *args: Any, target: str = "sm_90", **meta: Any) -> Any:
        """Compile as a launch with these arguments would (see ``wt.compile``); tensors may be on any device, also meta."""
        from warpwise.triton.compiler import compile_for

        args, meta, _ = self.configured(args, dict(meta))  # type: ignore[attr-defined]
        return compile_for(self.jit_function, args, meta, target)


class Kernel(_Launchable, JITFunction):
    """A kernel or device function; in every respect a ``triton.JITFunction`` too, so that others may call it."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        JITFunction.__init__(self, function, **options)
        taken = [name for name in self.arg_names if name in _OWN]
        if taken:
            raise ArgumentError(
                f"{function.__name__}: a parameter may not be called {taken[0]!r}: it is a launch's own"
            )

    @property
    def jit_function(self) -> JITFunction:
        """The plain Triton kernel, as ``torch.library.wrap_triton`` takes it."""
        return self

    def launch_compiled(self, args: tuple[Any, ...], meta: Mapping[str, Any], grid: Any) -> Any:
        return JITFunction.run(self, *args, grid=grid, warmup=False, **meta)

    def configured(
        self, args: tuple[Any, ...], meta: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], list[Any]]:
        """The arguments of an interpreted launch, and hooks to call before it."""
        return args, meta, [lambda bound, hook=hook: hook(**bound) for hook in self.pre_run_hooks]

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """What Triton's own decorators call; on a GPU with Triton's own errors, by which tuning passes over a configuration."""
        first = next((value for value in args if isinstance(value, torch.Tensor)), None)
        if first is None:
            first = next(tensors_in((*args, *kwargs.values())), None)
        if warmup or (first is not None and first.is_cuda):
            return JITFunction.run(self, *args, grid=grid, warmup=warmup, **kwargs)
        return TritonLauncher(self, grid)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Kernel({self.module}:{self.fn.__qualname__})"


class TunedKernel(_Launchable):
    """A kernel under ``autotune`` or ``heuristics``: tuned on a GPU; on the CPU its first configuration is taken."""

    def __init__(self, runner: Autotuner | Heuristics) -> None:
        self.fn = runner
        self.arg_names = runner.arg_names

    @property
    def jit_function(self) -> JITFunction:
        runner: Any = self.fn
        while not isinstance(runner, (JITFunction, InterpretedFunction)):
            runner = runner.fn
        return runner if isinstance(runner, JITFunction) else Kernel(runner.fn, **jit_options(runner))

    @property
    def __name__(self) -> str:
        return self.jit_function.__name__

    def launch_compiled(self, args: tuple[Any, ...], meta: Mapping[str, Any], grid: Any) -> Any:
        return self.fn.run(*args, grid=grid, warmup=False, **meta)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """What Triton's own decorators call."""
        if warmup:
            return self.fn.run(*args, grid=grid, warmup=True, **kwargs)
        return TritonLauncher(self, grid)(*args, **kwargs)

    def configured(
        self, args: tuple[Any, ...], meta: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], list[Any]]:
        """The arguments with the first configuration and the heuristics filled in, outermost decorator first."""
        hooks: list[Any] = []
        runner: Any = self.fn
        while not isinstance(runner, (JITFunction, InterpretedFunction)):
            named = {**dict(zip(runner.arg_names, args, strict=False)), **meta}
            if isinstance(runner, Heuristics):
                plain = {name: unwrapped(value) for name, value in named.items()}
                for name, rule in runner.values.items():
                    meta[name] = plain[name] = rule(plain)
            elif isinstance(runner, Autotuner):
                configs = runner.configs
                if runner.early_config_prune:
                    plain = {name: unwrapped(value) for name, value in named.items()}
                    configs = runner.early_config_prune(configs, plain, **meta)
                meta.update({name: value for name, value in configs[0].all_kwargs().items() if name not in meta})
                hooks += [hook for hook in (configs[0].pre_hook,) if hook is not None]
                hooks.append(lambda bound, runner=runner: runner.pre_hook(bound, reset_only=True))
            runner = runner.fn
        return args, meta, hooks


@overload
def jit(function: Any, /) -> Any: ...


@overload
def jit(**options: Any) -> Callable[[Callable[..., Any]], Kernel]: ...


def jit(function: Any = None, /, **options: Any) -> Any:
    """Make a kernel of a Python function, a ``triton.jit`` kernel, or a stack of ``triton.autotune`` and ``heuristics``.

    Options are ``triton.jit``'s (``do_not_specialize``, ``noinline``, ``debug`` ...). Usable bare: ``@wt.jit``.
    """
    if function is None:
        return lambda inner: jit(inner, **options)
    if isinstance(function, (Kernel, TunedKernel)):
        return function
    if isinstance(function, (Autotuner, Heuristics)):
        return TunedKernel(function)
    if isinstance(function, (JITFunction, InterpretedFunction)):
        return Kernel(function.fn, **{**jit_options(function), **options})
    if not inspect.isfunction(function):
        raise ArgumentError(f"wt.jit: expected a function or a Triton kernel, got {type(function).__name__}")
    return Kernel(function, **options)


def autotune(configs: list[triton.Config], key: list[str], **options: Any) -> Callable[[Any], TunedKernel]:
    """``triton.autotune``, for a kernel of ``wt.jit``: tuned on a GPU; on the CPU the first configuration runs."""
    return lambda kernel: TunedKernel(autotuner.autotune(configs, key, **options)(_runner(kernel)))


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Any], TunedKernel]:
    """``triton.heuristics``, for a kernel of ``wt.jit``."""
    return lambda kernel: TunedKernel(autotuner.heuristics(dict(values))(_runner(kernel)))


def _runner(kernel: Any) -> Any:
    return kernel.fn if isinstance(kernel, TunedKernel) else kernel
