"""cuDNN's graph patterns for the parts of a block, through cudnn-frontend (the wheel ``nvidia-cudnn-frontend``).

>>> patterns = cudnn_graphs.Patterns(device)
>>> pattern = patterns.make("conv_statistics", Sizes(128, 16, 14, 14, 32))
>>> pattern.build(0); y, sums, squares = pattern.run(0, x, w)

The Python package expresses most patterns. ``FROM_CPP`` need operations without a Python binding (bn_finalize,
dbn_weight, resample): cudnn_patterns.cpp, which g++ compiles in the background from the headers of the same wheel.
``Unavailable`` says what is missing, ``Unsupported`` why cuDNN refuses a pattern.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cache

SOURCE = Path(__file__).parent / "cudnn_patterns.cpp"
WINDOW = {"padding": [1, 1], "stride": [1, 1], "dilation": [1, 1]}
MESSAGE = 1 << 14  # bytes of an error
EPS, MOMENTUM = 1e-5, 0.1


class Unavailable(RuntimeError):
    """cudnn-frontend, or the compiler for its C++ patterns, is missing; the message gives the reason."""


class Unsupported(RuntimeError):
    """cuDNN refuses a pattern at a shape, with its reason."""


class Sizes(NamedTuple):
    """``n`` images of ``c`` channels, ``h`` x ``w``, and ``k`` filters."""

    n: int
    c: int
    h: int
    w: int
    k: int


def shape(kind: str, size: Sizes) -> tuple[int, ...]:
    """The shape of a kind of argument: x, w, y and z of a block, and vectors of C ("c", "half c") or K."""
    n, c, h, w, k = size
    vectors = {"c": (1, c, 1, 1), "half c": (1, c, 1, 1), "k": (1, k, 1, 1)}
    return {"x": (n, c, h, w), "w": (k, c, 3, 3), "y": (n, k, h, w), "z": (n, k, h // 2, w // 2), **vectors}[kind]


def is_half(kind: str) -> bool:
    return kind not in ("c", "k")


def _normalised(graph: Any, input: Any, scale: Any, shift: Any) -> Any:
    """relu(scale input + shift)."""
    return graph.relu(graph.bias(input=graph.scale(input=input, scale=scale), bias=shift))


def _conv_statistics(graph: Any, x: Any, w: Any) -> tuple[Any, ...]:
    y = graph.conv_fprop(image=x, weight=w, **WINDOW)
    return (y, *graph.genstats(input=y))


def _normalise_relu_conv_statistics(graph: Any, x: Any, w: Any, scale: Any, shift: Any) -> tuple[Any, ...]:
    return _conv_statistics(graph, _normalised(graph, x, scale, shift), w)


def _normalise_relu(graph: Any, y: Any, scale: Any, shift: Any) -> tuple[Any, ...]:
    return (_normalised(graph, y, scale, shift),)


def _batch_norm_relu(graph: Any, y: Any, gamma: Any, beta: Any, *rest: Any) -> tuple[Any, ...]:
    mean, var, eps, momentum = rest
    result, *statistics = graph.batchnorm(
        input=y, scale=gamma, bias=beta, in_running_mean=mean, in_running_var=var, epsilon=eps, momentum=momentum
    )
    return (graph.relu(result), *statistics)


def _relu_batch_norm_backward(graph: Any, dy: Any, y: Any, *vectors: Any) -> tuple[Any, ...]:
    mean, deviation, gamma, beta = vectors
    given = {"input": y, "mean": mean, "inv_variance": deviation, "scale": gamma}
    masked = graph.relu_backward(loss=dy, input=graph.batchnorm_inference(bias=beta, **given))
    masked.set_data_type(torch.float16)
    return tuple(graph.batchnorm_backward(grad=masked, **given))


def _normalise_relu_wgrad(graph: Any, x: Any, dy: Any, scale: Any, shift: Any) -> tuple[Any, ...]:
    return (graph.conv_wgrad(image=_normalised(graph, x, scale, shift), loss=dy, **WINDOW),)


class Signature(NamedTuple):
    """The kinds of the arguments and results of a pattern, what it computes, what a block needs besides, and its graph
    in Python.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    computes: str
    remains: str
    graph: Callable[..., tuple[Any, ...]] | None = None
    constants: tuple[float, ...] = ()


SIGNATURES = {
    "conv_statistics": Signature(
        ("x", "w"), ("y", "k", "k"), "convolution, sums and sums of squares of its channels",
        "statistics from the sums, normalisation, relu, pooling", _conv_statistics,
    ),
    "normalise_relu_conv_statistics": Signature(
        ("x", "w", "half c", "half c"), ("y", "k", "k"), "normalisation and relu of the input, convolution, sums",
        "pooling before the convolution; those of `conv_statistics`", _normalise_relu_conv_statistics,
    ),
    "normalise_relu": Signature(
        ("y", "k", "k"), ("y",), "normalisation with known statistics, relu", "convolution, statistics, pooling",
        _normalise_relu,
    ),
    "batch_norm_relu": Signature(
        ("y", "k", "k", "k", "k"), ("y", "k", "k", "k", "k"), "statistics, normalisation, relu, running statistics",
        "convolution, pooling", _batch_norm_relu, (EPS, MOMENTUM),
    ),
    "relu_batch_norm_backward": Signature(
        ("y", "y", "k", "k", "k", "k"), ("y", "k", "k"), "gradients of relu and of batch normalisation",
        "gradients of pooling and of the convolution", _relu_batch_norm_backward,
    ),
    "normalise_relu_wgrad": Signature(
        ("x", "y", "half c", "half c"), ("w",), "normalisation and relu of the input, gradient of the weight",
        "pooling before the convolution, its gradient, those of relu, normalisation and input", _normalise_relu_wgrad,
    ),
    "finalize": Signature(
        ("k",) * 6, ("k",) * 6, "scale and shift of the normalisation from the sums",
        "convolution and sums, normalisation, relu, pooling",
    ),
    "normalise_pool": Signature(
        ("y", "k", "k"), ("z",), "max pooling, normalisation with known statistics and scales of at least 0, relu",
        "convolution, statistics, negative scales",
    ),
    "dgrad_drelu_dbn": Signature(
        ("y", "w", "x", "c", "c", "c", "c"), ("x", "c", "c", "c", "c", "c"),
        "gradient of the input, of the relu before it, and sums of the batch normalisation before that",
        "gradient of the pooling between the two, the last step of that of the normalisation, that of the weight",
    ),
}  # fmt: skip
FROM_CPP = tuple(name for name, signature in SIGNATURES.items() if signature.graph is None)


class Pattern(ABC):
    """A graph with the plans that cuDNN proposes for it."""

    count: int  # of plans

    def __init__(self, name: str, size: Sizes, device: torch.device) -> None:
        self.name, self.size, self.signature = name, size, SIGNATURES[name]
        self.results = tuple(
            torch.empty(
                shape(kind, size),
                dtype=torch.float16 if is_half(kind) else torch.float32,
                device=device,
                memory_format=torch.channels_last,
            )
            for kind in self.signature.outputs
        )
        self._workspaces: dict[int, torch.Tensor] = {}

    def run(self, plan: int, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Launch on the current stream; ``results``, which the next run overwrites."""
        given = (*inputs, *self.results)
        for kind, one in zip((*self.signature.inputs, *self.signature.outputs), given, strict=True):
            if tuple(one.shape) != shape(kind, self.size) or one.dtype != (
                torch.float16 if is_half(kind) else torch.float32
            ):
                raise ValueError(f"{self.name}: expected {kind} {shape(kind, self.size)}, got {tuple(one.shape)}")
            if not one.is_contiguous(memory_format=torch.channels_last):
                raise ValueError(f"{self.name}: expected {kind} in NHWC order, got strides {one.stride()}")
        self._launch(plan, [one.data_ptr() for one in given])
        return self.results

    def workspace(self, plan: int) -> int:
        """The address of memory for ``plan``."""
        if plan not in self._workspaces:
            size = max(1, self.workspace_bytes(plan))
            self._workspaces[plan] = torch.empty(size, dtype=torch.uint8, device=self.results[0].device)
        return self._workspaces[plan].data_ptr()

    @abstractmethod
    def build(self, plan: int) -> None:
        """Build a plan. Raises ``Unsupported``."""

    @abstractmethod
    def workspace_bytes(self, plan: int) -> int: ...

    @abstractmethod
    def plan_name(self, plan: int) -> str: ...

    @abstractmethod
    def _launch(self, plan: int, pointers: Sequence[int]) -> None: ...


class _PythonPattern(Pattern):
    def __init__(self, cudnn: Any, handle: Any, name: str, size: Sizes, device: torch.device) -> None:
        super().__init__(name, size, device)
        self._cudnn, self._handle = cudnn, handle
        half, single = cudnn.data_type.HALF, cudnn.data_type.FLOAT
        self._graph = graph = cudnn.pygraph(
            io_data_type=half, intermediate_data_type=single, compute_data_type=single, handle=handle
        )

        def described(kind: str) -> dict[str, Any]:
            n, c, h, w = shape(kind, size)
            return {"dim": [n, c, h, w], "stride": [c * h * w, 1, c * w, c]}

        def dtype(kind: str) -> Any:
            return half if is_half(kind) else single

        signature, scalar = self.signature, {"dim": [1] * 4, "stride": [1] * 4, "data_type": single}
        inputs = [graph.tensor(**described(kind), data_type=dtype(kind)) for kind in signature.inputs]
        constants = [graph.tensor(**scalar, is_pass_by_value=True) for _ in signature.constants]
        assert signature.graph is not None
        outputs = signature.graph(graph, *inputs, *constants)
        for kind, one in zip(signature.outputs, outputs, strict=True):
            layout = described(kind)
            one.set_output(True).set_data_type(dtype(kind)).set_dim(layout["dim"]).set_stride(layout["stride"])
        self._tensors = [*inputs, *outputs]
        self._constants = {
            tensor: torch.full((1, 1, 1, 1), value)
            for tensor, value in zip(constants, signature.constants, strict=True)
        }
        try:
            graph.validate()
            graph.build_operation_graph()
            graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        except (cudnn.cudnnGraphNotSupportedError, RuntimeError) as error:
            raise Unsupported(reason(str(error))) from None
        self.count = graph.get_execution_plan_count()

    def build(self, plan: int) -> None:
        try:
            self._graph.build_plan_at_index(plan)
        except (self._cudnn.cudnnGraphNotSupportedError, RuntimeError) as error:
            raise Unsupported(reason(str(error))) from None

    def workspace_bytes(self, plan: int) -> int:
        return int(self._graph.get_workspace_size_plan_at_index(plan))

    def plan_name(self, plan: int) -> str:
        return str(self._graph.get_plan_name_at_index(plan))

    def _launch(self, plan: int, pointers: Sequence[int]) -> None:
        self._cudnn.set_stream(self._handle, torch.cuda.current_stream().cuda_stream)
        pack = dict(zip(self._tensors, pointers, strict=True)) | self._constants
        self._graph.execute_plan_at_index(pack, self.workspace(plan), plan, self._handle)


class _CppPattern(Pattern):
    def __init__(
        self, cudnn: Any, handle: Any, library: ctypes.CDLL, name: str, size: Sizes, device: torch.device
    ) -> None:
        super().__init__(name, size, device)
        self._cudnn, self._handle, self._library = cudnn, handle, library
        message = ctypes.create_string_buffer(MESSAGE)
        sizes = (ctypes.c_int64 * len(size))(*size)
        self._made = library.make_pattern(handle.backend_handle, name.encode(), sizes, message, MESSAGE)
        if not self._made:
            raise Unsupported(reason(message.value.decode(errors="replace")))
        self.count = library.plans(self._made)

    def build(self, plan: int) -> None:
        self._checked(self._library.build_plan, plan)

    def workspace_bytes(self, plan: int) -> int:
        return int(self._library.workspace(self._made, plan))

    def plan_name(self, plan: int) -> str:
        return str(plan)

    def _launch(self, plan: int, pointers: Sequence[int]) -> None:
        self._cudnn.set_stream(self._handle, torch.cuda.current_stream().cuda_stream)
        addresses = (ctypes.c_void_p * len(pointers))(*pointers)
        self._checked(self._library.run_pattern, plan, addresses, len(pointers), self.workspace(plan))

    def _checked(self, function: Callable[..., int], *args: Any) -> None:
        message = ctypes.create_string_buffer(MESSAGE)
        if function(self._handle.backend_handle, self._made, *args, message, MESSAGE):
            raise Unsupported(reason(message.value.decode(errors="replace")))


class Patterns:
    """The patterns on a device. Raises ``Unavailable`` without cudnn-frontend."""

    def __init__(self, device: torch.device) -> None:
        try:
            import cudnn
        except ImportError as error:
            raise Unavailable(f"no cudnn-frontend: pip install --no-deps nvidia-cudnn-frontend ({error})") from None
        self._cudnn, self._device = cudnn, device
        self._handle = cudnn.create_handle()
        self.versions = {"cudnn": cudnn.backend_version_string(), "cudnn_frontend": cudnn.__version__}
        self._library: Future[ctypes.CDLL] = ThreadPoolExecutor(1).submit(_compiled, Path(cudnn.__file__).parents[1])

    def make(self, name: str, size: Sizes) -> Pattern:
        """The graph of a pattern. Raises ``Unsupported``, or ``Unavailable`` if the C++ patterns do not compile."""
        if name in FROM_CPP:
            library = self._library.result()
            return _CppPattern(self._cudnn, self._handle, library, name, size, self._device)
        return _PythonPattern(self._cudnn, self._handle, name, size, self._device)


def reason(message: str) -> str:
    """The first line of cuDNN's message, and the distinct reasons in it."""
    first, *lines = message.strip().splitlines() or [""]
    found = dict.fromkeys(line.partition("Reason: ")[2].strip() for line in lines if "Reason: " in line)
    return "; ".join((first[:200], *list(found)[:4]))


def _compiled(site: Path) -> ctypes.CDLL:
    """cudnn_patterns.cpp, compiled once; ``site`` is the folder where cudnn-frontend is installed."""
    compiler = shutil.which("g++")
    if compiler is None:
        raise Unavailable("no g++ on PATH")
    options = [
        *("-std=c++17", "-O0", "-w", "-shared", "-fPIC"),
        *("-DNV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING", "-DCUDNN_FRONTEND_SKIP_JSON_LIB"),
        *(f"-I{folder}" for folder in (site / "include", *_headers())),
    ]
    target = cache.cache_dir() / "cudnn_patterns" / f"{cache.key(SOURCE.read_text(), compiler, *options)}.so"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        made = target.with_suffix(f".{os.getpid()}")
        command = [compiler, *options, str(SOURCE), "-o", str(made), "-ldl"]
        built = subprocess.run(command, check=False, capture_output=True, text=True)
        if built.returncode:
            raise Unavailable(f"g++ failed on {SOURCE.name}:\n{built.stderr[-2000:]}")
        made.replace(target)
    library = ctypes.CDLL(str(target))
    pointer, long = ctypes.c_void_p, ctypes.c_int64
    end = [ctypes.c_char_p, long]
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "make_pattern": (pointer, [pointer, ctypes.c_char_p, pointer, *end]),
        "plans": (long, [pointer]),
        "build_plan": (ctypes.c_int, [pointer, pointer, long, *end]),
        "workspace": (long, [pointer, long]),
        "run_pattern": (ctypes.c_int, [pointer, pointer, long, pointer, long, pointer, *end]),
    }
    for name, (result, arguments) in signatures.items():
        getattr(library, name).restype, getattr(library, name).argtypes = result, arguments
    return library


def _headers() -> list[Path]:
    """The folders of cudnn.h and of cuda.h."""
    spec = importlib.util.find_spec("nvidia.cudnn")
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable("no headers of cuDNN: pip install nvidia-cudnn-cu13")
    from torch.utils.cpp_extension import CUDA_HOME

    root = CUDA_HOME or os.environ.get("CUDA_PATH")
    if root is None:
        raise Unavailable("no CUDA toolkit: set CUDA_PATH")
    return [Path(next(iter(spec.submodule_search_locations))) / "include", Path(root) / "include"]
