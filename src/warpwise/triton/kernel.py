"""``wt.jit``: a Triton kernel that runs compiled for CUDA tensors and interpreted, with checks, for CPU tensors."""

from __future__ import annotations

import functools
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
from warpwise.triton.arguments import bind, copied_to_cpu, tensor_devices, tensors_in, unwrap
from warpwise.triton.compat import (
    COMPILATION_DISABLED,
    LANGUAGE_IS_INTERPRETED,
    Autotuner,
    Heuristics,
    InterpretedFunction,
    JITFunction,
    KernelInterface,
    OutOfResources,
    direct_launcher,
    is_gluon,
    jit_options,
)
from warpwise.triton.interpreter import INTERPRETER, Interpreter
from warpwise.triton.launched import LaunchedKernel
from warpwise.triton.sources import replaced_source

_SCALARS = frozenset({bool, int, float, str, type(None)})
_RESERVED_NAMES = ("timeout", "checks", "grid", "warmup")


class BoundKernel:
    """``kernel[grid]``: a kernel bound to a launch grid. Calling it launches the kernel."""

    __slots__ = ("grid", "kernel")

    def __init__(self, kernel: Kernel | TunedKernel, grid: Any) -> None:
        self.kernel = kernel
        self.grid = (grid,) if isinstance(grid, int) else grid

    def __call__(self, *args: Any, timeout: float = 60.0, checks: str = "all", **meta: Any) -> Any:
        """Launch on the device of the tensors: compiled for CUDA tensors, interpreted and checked for CPU tensors.

        ``args`` are tensors, NumPy arrays (on the CPU), tensor descriptors, tuples and numbers, in the order of the
        kernel's parameters; ``meta`` are parameters by name and Triton's launch options, such as ``num_warps``.
        ``timeout`` (seconds) and ``checks`` apply on the CPU only: "all", "bounds" (no check for races) or "none" (no
        check for races, unwritten outputs or reads of them); bounds are always checked. Raises the exception of the
        first finding; ``ArgumentError`` for wrong arguments or tensors on several devices; ``LaunchError`` if the grid
        or the resources exceed the device's limits; ``CompileError`` with the kernel's line.

        Returns Triton's compiled kernel, on the CPU a ``LaunchedKernel``, which compiles when it is read.
        """
        if intercept.INTERCEPTORS and intercept.intercepted(self, args, {"timeout": timeout, "checks": checks, **meta}):
            return None
        device_index = -1
        on_cpu = wrapped = False
        for value in (*args, *meta.values()) if meta else args:
            kind = type(value)
            if kind in _SCALARS:
                continue
            if kind is Out or kind is Strided:
                wrapped = True
                value = value.value
            if isinstance(value, torch.Tensor):
                if not value.is_cuda:
                    on_cpu = True
                elif device_index < 0:
                    device_index = value.get_device()
                elif value.get_device() != device_index:
                    raise self._device_mismatch(args, meta)
                continue
            on_gpus, has_cpu = tensor_devices(value)
            on_cpu = on_cpu or has_cpu
            if len(on_gpus) > 1 or (device_index >= 0 and on_gpus and on_gpus != {device_index}):
                raise self._device_mismatch(args, meta)
            device_index = max(device_index, *on_gpus, -1)
        if device_index < 0:
            self._interpret(args, meta, timeout, checks, collect=False)
            return LaunchedKernel(self.kernel, args, meta)
        if on_cpu:
            raise self._device_mismatch(args, meta)
        if wrapped:
            args = tuple([unwrap(value) for value in args])
            meta = {name: unwrap(value) for name, value in meta.items()}
        if device_index != torch.cuda.current_device():
            with torch.cuda.device(device_index):
                return self._run_compiled(args, meta)
        return self._run_compiled(args, meta)

    def _run_compiled(self, args: tuple[Any, ...], meta: Mapping[str, Any]) -> Any:
        kernel = self.kernel
        if LANGUAGE_IS_INTERPRETED:
            raise LaunchError(f"{kernel.jit_function.__name__}: {COMPILATION_DISABLED}")
        try:
            return kernel.launch_compiled(args, meta, self.grid)
        except CompilationError as error:
            from warpwise.triton.compiler import compile_error

            raise compile_error(kernel.jit_function, error) from error
        except OutOfResources as error:
            raise LaunchError(f"{kernel.jit_function.__name__}: {error}") from error

    def resolve_arguments(
        self, args: tuple[Any, ...], options: Mapping[str, Any]
    ) -> tuple[tuple[int, ...], list[Any]] | None:
        """Return the grid and the value of every parameter of the compiled kernel.

        Return None if each launch computes them: with ``autotune``, ``heuristics``, hooks or a callable grid.
        """
        kernel = self.kernel
        if not isinstance(kernel, Kernel) or kernel.pre_run_hooks or callable(self.grid):
            return None
        given = {**dict(zip(kernel.arg_names, args, strict=False)), **options}
        values = [unwrap(given.get(parameter.name, parameter.default)) for parameter in kernel.params]
        return (*self.grid, 1, 1)[:3], values

    @staticmethod
    def relaunch(compiled: Any, grid: tuple[int, int, int], values: Sequence[Any]) -> Callable[[int, list[Any]], None]:
        """A function of a stream and of values for all parameters that launches ``compiled`` again."""
        return direct_launcher(compiled, grid, values)

    def check(
        self, *args: Any, timeout: float = 60.0, checks: str = "all", nan: bool = False, **meta: Any
    ) -> list[Finding]:
        """Run interpreted and return all findings. CUDA tensors are copied to the CPU; the originals do not change.

        The arguments and the errors are those of a call. With ``nan``, findings of the kind ``SpecialValue`` give the
        line, the program, the lane and the operands of the first operation that returns NaN, of the first that returns
        an infinity and of the first that returns a denormal number, where no operand is such a value and the result
        reaches a store.
        """
        copies = copied_to_cpu((*args, *meta.values()))
        args, meta = copies[: len(args)], dict(zip(meta, copies[len(args) :], strict=True))
        return self._interpret(args, meta, timeout, checks, collect=True, nan=nan)

    def _interpret(
        self,
        args: tuple[Any, ...],
        meta: Mapping[str, Any],
        timeout: float,
        checks: str,
        collect: bool,
        nan: bool = False,
    ) -> list[Finding]:
        function = self.kernel.jit_function
        for tensor in tensors_in((*args, *meta.values())):
            if tensor.device.type != "cpu":
                raise ArgumentError(f"{function.__name__}: expected tensors on cpu or cuda, got one on {tensor.device}")
        args, meta, hooks = self.kernel.apply_config(args, dict(meta))
        bound = bind(function, args, meta)
        for hook in hooks:
            hook({name: unwrap(value) for name, value in bound.items()})
        launch = _interpreter_of(function).launch
        options = {name: meta[name] for name in ("num_warps",) if name in meta}
        return launch(function, self.grid, bound, timeout=timeout, checks=checks, collect=collect, nan=nan, **options)

    def _device_mismatch(self, args: tuple[Any, ...], meta: Mapping[str, Any]) -> ArgumentError:
        names = self.kernel.jit_function.arg_names
        named = [*zip(names, args, strict=False), *meta.items()]
        devices = [f"{name} on {tensor.device}" for name, value in named for tensor in tensors_in([value])]
        devices += [f"{name} a NumPy array" for name, value in named if isinstance(unwrap(value), np.ndarray)]
        return ArgumentError(
            f"{self.kernel.jit_function.__name__}: expected all tensors on one device, got {', '.join(devices)}"
        )


def _interpreter_of(function: JITFunction) -> Interpreter:
    if not is_gluon(function):
        return INTERPRETER
    from warpwise.triton.gluon.interpreter import gluon_interpreter

    return gluon_interpreter()


class _BaseKernel:
    """Methods that ``Kernel`` and ``TunedKernel`` share."""

    jit_function: JITFunction

    def __getitem__(self, grid: Any) -> BoundKernel:
        return BoundKernel(self, grid)  # type: ignore[arg-type]

    def compile_for(self, *args: Any, target: str = "sm_90", **meta: Any) -> Any:
        """Compile as a launch with these arguments does (see ``wt.compile``); meta tensors are accepted."""
        from warpwise.triton.compiler import compile_for

        args, meta, _ = self.apply_config(args, dict(meta))  # type: ignore[attr-defined]
        return compile_for(self.jit_function, args, meta, target)


class Kernel(_BaseKernel, JITFunction):
    """A kernel or device function. It is a ``triton.JITFunction``, so other Triton kernels can call it.

    ``kernel[grid](...)`` launches it and ``kernel[grid].check(...)`` returns all findings, on the CPU. ``grid`` is the
    number of programs, an integer, a tuple of up to three, or a function of the arguments by name that returns one.
    Raises ``ArgumentError`` for a parameter whose name is a launch option: timeout, checks, grid or warmup.
    """

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        JITFunction.__init__(self, function, **options)
        reserved = [name for name in self.arg_names if name in _RESERVED_NAMES]
        if reserved:
            raise ArgumentError(f"{function.__name__}: parameter name {reserved[0]!r} is reserved for a launch option")

    @property
    def jit_function(self) -> JITFunction:
        """The Triton kernel, for example for ``torch.library.wrap_triton``."""
        return self

    def launch_compiled(self, args: tuple[Any, ...], meta: Mapping[str, Any], grid: Any) -> Any:
        return JITFunction.run(self, *args, grid=grid, warmup=False, **meta)

    def apply_config(
        self, args: tuple[Any, ...], meta: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], list[Any]]:
        """Return the arguments of an interpreted launch and the hooks to call before it."""
        return args, meta, [lambda bound, hook=hook: hook(**bound) for hook in self.pre_run_hooks]

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Entry point for Triton's decorators. On a GPU Triton's errors are kept: the autotuner catches them."""
        first = next((value for value in args if isinstance(value, torch.Tensor)), None)
        if first is None:
            first = next(tensors_in((*args, *kwargs.values())), None)
        if warmup and not torch.cuda.is_available():
            return LaunchedKernel(self, args, kwargs)
        if warmup or (first is not None and first.is_cuda):
            return JITFunction.run(self, *args, grid=grid, warmup=warmup, **kwargs)
        return BoundKernel(self, grid)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Kernel({self.module}:{self.fn.__qualname__})"


@functools.cache
def _gluon_kernel() -> type[Kernel]:
    """Return the class of Gluon kernels; Gluon is imported at the first one."""
    from triton.experimental.gluon._runtime import GluonJITFunction

    return type("GluonKernel", (Kernel, GluonJITFunction), {})


class TunedKernel(_BaseKernel):
    """A kernel under ``autotune`` or ``heuristics``, launched as a ``Kernel``.

    On a GPU Triton's autotuner times the configurations; on the CPU the first configuration is used.
    """

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

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["fn"], name)

    def launch_compiled(self, args: tuple[Any, ...], meta: Mapping[str, Any], grid: Any) -> Any:
        return self.fn.run(*args, grid=grid, warmup=False, **meta)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Entry point for Triton's decorators."""
        if warmup and not torch.cuda.is_available():
            return LaunchedKernel(self, args, kwargs)
        if warmup:
            return self.fn.run(*args, grid=grid, warmup=True, **kwargs)
        return BoundKernel(self, grid)(*args, **kwargs)

    def apply_config(
        self, args: tuple[Any, ...], meta: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], list[Any]]:
        """Return the arguments with the first configuration and the heuristics applied, outermost decorator first."""
        hooks: list[Any] = []
        runner: Any = self.fn
        while not isinstance(runner, (JITFunction, InterpretedFunction)):
            named = {**dict(zip(runner.arg_names, args, strict=False)), **meta}
            if isinstance(runner, Heuristics):
                plain = {name: unwrap(value) for name, value in named.items()}
                for name, rule in runner.values.items():
                    meta[name] = plain[name] = rule(plain)
            elif isinstance(runner, Autotuner):
                configs = runner.configs
                if runner.early_config_prune:
                    plain = {name: unwrap(value) for name, value in named.items()}
                    configs = runner.early_config_prune(configs, plain, **meta)
                runner.best_config = configs[0]
                meta.update({name: value for name, value in configs[0].all_kwargs().items() if name not in meta})
                hooks += [hook for hook in (configs[0].pre_hook,) if hook is not None]
                hooks.append(lambda bound, runner=runner: runner.pre_hook(bound, reset_only=True))
            elif configs := getattr(runner, "configs", None):  # of an autotuner that is not Triton's
                meta.update({name: value for name, value in configs[0].all_kwargs().items() if name not in meta})
            runner = runner.fn
        return args, meta, hooks


@overload
def jit(function: Any, /) -> Any: ...


@overload
def jit(**options: Any) -> Callable[[Callable[..., Any]], Kernel]: ...


def jit(function: Any = None, /, **options: Any) -> Any:
    """Make a kernel from a Python function or a ``triton.jit``, ``triton.autotune`` or ``triton.heuristics`` kernel.

    Options are those of ``triton.jit`` (``do_not_specialize``, ``noinline``, ``debug`` ...), or none: ``@wt.jit``.
    Raises ``ArgumentError`` for anything else.
    """
    if function is None:
        return lambda inner: jit(inner, **options)
    if isinstance(function, (Kernel, TunedKernel)):
        return function
    if isinstance(function, (JITFunction, InterpretedFunction)):
        kind = _gluon_kernel() if is_gluon(function) else Kernel
        kernel = kind(function.fn, **{**jit_options(function), **options})
        if (source := replaced_source(function)) is not None:
            kernel._unsafe_update_src(source)
        return kernel
    if isinstance(function, (Autotuner, Heuristics)) or (isinstance(function, KernelInterface) and _wraps(function)):
        return TunedKernel(function)
    if not inspect.isfunction(function):
        raise ArgumentError(f"wt.jit: expected a function or a Triton kernel, got {type(function).__name__}")
    return Kernel(function, **options)


def autotune(configs: list[triton.Config], key: list[str], *more: Any, **options: Any) -> Callable[[Any], TunedKernel]:
    """``triton.autotune`` for a ``wt.jit`` kernel: tuned on a GPU; on the CPU the first configuration runs.

    ``configs`` are the configurations to time, ``key`` the names of the parameters whose values select one, and
    ``more`` and ``options`` the further ones of ``triton.autotune``.
    """
    return lambda kernel: TunedKernel(autotuner.autotune(configs, key, *more, **options)(_runner(kernel)))


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Any], TunedKernel]:
    """``triton.heuristics`` for a ``wt.jit`` kernel: a parameter is computed from the others at each launch.

    ``values`` maps the parameter's name to a function of all arguments by name.
    """
    return lambda kernel: TunedKernel(autotuner.heuristics(dict(values))(_runner(kernel)))


def _wraps(runner: Any) -> bool:
    """Return True for an object around a Triton kernel: an autotuner that is not derived from Triton's."""
    while hasattr(runner, "fn") and not isinstance(runner, (JITFunction, InterpretedFunction)):
        runner = runner.fn
    return isinstance(runner, (JITFunction, InterpretedFunction))


def _runner(kernel: Any) -> Any:
    return kernel.fn if isinstance(kernel, TunedKernel) else kernel


def _on_cpu(runner: Autotuner, args: Sequence[Any], meta: Mapping[str, Any]) -> bool:
    """True if the runner's kernel is a ``wt.jit`` kernel, and the arguments hold tensors, none of them on a GPU."""
    kernel: Any = runner.fn
    while isinstance(kernel, (Autotuner, Heuristics)):
        kernel = kernel.fn
    tensors = list(tensors_in((*args, *meta.values())))
    return isinstance(kernel, Kernel) and bool(tensors) and not any(tensor.is_cuda for tensor in tensors)


_run_by_triton, _bench_by_triton = Autotuner.run, Autotuner._bench


def _run(self: Autotuner, *args: Any, **meta: Any) -> Any:
    if meta.get("warmup") or not _on_cpu(self, args, meta):
        return _run_by_triton(self, *args, **meta)
    return TunedKernel(self).run(*args, **meta)


def _bench(self: Autotuner, *args: Any, config: triton.Config, **meta: Any) -> Any:
    return [0.0, 0.0, 0.0] if _on_cpu(self, args, meta) else _bench_by_triton(self, *args, config=config, **meta)


# ``triton.autotune`` above ``wt.jit`` makes Triton's own object, which times configurations by a GPU's driver: on CPU
# tensors it runs the first configuration, as ``wt.autotune`` does. A subclass with its own ``run`` times them by
# ``_bench``: on CPU tensors all take the same time, so that it chooses the first.
Autotuner.run, Autotuner._bench = _run, _bench
