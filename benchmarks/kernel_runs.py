"""Launch kernels of other projects on the emulator, with arguments that a script makes.

A pointer is a buffer of ``BUFFER_BYTES`` bytes: floating-point elements repeat 0.25 to 2, integers repeat 0 to 7, and
those of other types are zeros. A pointer to pointers is null. An integer by value is ``SIZE``, a floating-point number
1, a bool true, and a structure zeros; no argument is a texture object. The grid has 2 x 2 blocks of 128 threads, or of
the kernel's launch bounds, with ``SHARED_BYTES`` bytes of dynamic shared memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from warpwise import cuda
from warpwise.cuda.errors import ArgumentError, Finding, KernelTimeout, LaunchError, UnsupportedFeature
from warpwise.cuda.launch.elements import element
from warpwise.cuda.source.signature import Parameter, parse

BUFFER_BYTES = 1 << 20
SHARED_BYTES = 16 << 10
SIZE = 64
GRID = (2, 2)
THREADS = 128
# In the order of the table's columns. A crash is a signal, an exception that is not a finding, a process that does not
# end after the emulator's time limit, or a message without a line.
OUTCOMES = ("ran", "finding", "time limit", "refused", "crash")
_LINE = re.compile(r"[\w./+-]+\.\w+[(:]\d+")
_NO_TEXTURE = "not a live texture or surface object"
_GRACE = 30.0  # seconds in addition to the emulator's time limit: other processes may use the machine


def arguments(function_type: str, sizes: Sequence[int]) -> list[Any]:
    """An argument for each parameter of a kernel of this type."""
    return [_argument(each, size) for each, size in zip(parse(function_type), sizes, strict=True)]


def _argument(parameter: Parameter, size: int) -> Any:
    if parameter.pointers:
        return _buffer(parameter) if parameter.pointers == 1 else None
    known = element(parameter.element)
    if known is None:
        return bytes(size)
    number: int | float = SIZE if known.kind == "int" else 1.0
    if known.vector:
        return (number,) * known.lanes
    return True if known.kind == "bool" else number


def _buffer(parameter: Parameter) -> torch.Tensor:
    known = element(parameter.element)
    if known is None:
        return torch.zeros(BUFFER_BYTES, dtype=torch.uint8)
    dtype = known.dtypes[0]
    count = BUFFER_BYTES // known.bytes * known.bytes // dtype.itemsize
    values = torch.arange(count) % 8
    return ((values + 1) / 4).to(dtype) if dtype.is_floating_point or dtype.is_complex else values.to(dtype)


def run(kernel: cuda.Kernel, seconds: float) -> dict[str, Any]:
    """The outcome of a launch in a process of its own: one of ``OUTCOMES``, its class, the line and the message.

    ``seconds`` is the emulator's time limit.
    """
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with os.fdopen(write, "w") as pipe:
            pipe.write(json.dumps(launched(kernel, seconds)))
        os._exit(0)
    os.close(write)
    output, until = b"", time.monotonic() + seconds + _GRACE
    while select.select([read], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(read, 65536)
        if not part:
            break
        output += part
    ended = time.monotonic() < until
    os.close(read)
    if not ended:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not ended:
        return _outcome("crash", "no end after the time limit", "")
    if status or not output:
        return _outcome("crash", signal.Signals(-status).name if status < 0 else f"status {status}", "")
    return dict(json.loads(output))


def launched(kernel: cuda.Kernel, seconds: float) -> dict[str, Any]:
    """As ``run``, in this process."""
    try:
        build = kernel.build()
        given = arguments(build.function_type, build.sizes)
        bounds = kernel.declaration.launch_bounds if kernel.declaration else None
        findings = kernel[GRID, min(bounds or THREADS, 1024), SHARED_BYTES].check(*given, timeout=seconds)
    except (ArgumentError, LaunchError, UnsupportedFeature) as error:
        return refusal(type(error), str(error))
    except BaseException:  # noqa: BLE001 - any other exception is a defect of the emulator
        return _outcome("crash", "exception", traceback.format_exc(limit=-3))
    return of_findings(findings)


def refusal(kind: type[Exception], message: str) -> dict[str, Any]:
    """Refused arguments name the parameter or the limit, an unsupported feature its line."""
    if kind is UnsupportedFeature and not _LINE.search(message):
        return _outcome("crash", "message without a line", message)
    return _outcome("refused", kind.__name__, message)


def of_findings(findings: Sequence[Finding]) -> dict[str, Any]:
    if not findings:
        return _outcome("ran", "", "")
    first = next((each for each in findings if each.kind in (KernelTimeout, UnsupportedFeature)), findings[0])
    if first.kind is LaunchError:
        return refusal(first.kind, str(first))
    if not (first.access and first.access.line) and not _LINE.search(str(first)):
        return _outcome("crash", "message without a line", str(first))
    outcome = {KernelTimeout: "time limit", UnsupportedFeature: "refused"}.get(first.kind, "finding")
    if _NO_TEXTURE in first.message:
        return _outcome("finding", "no texture object", str(first))
    return _outcome(outcome, first.kind.__name__, str(first))


def _outcome(outcome: str, kind: str, message: str) -> dict[str, Any]:
    return {"outcome": outcome, "class": kind, "message": message[:1500]}


def completed(record: Mapping[str, Any]) -> bool:
    """True if the kernel compiles for a GPU and its launch on the emulator ends without a refusal or a crash."""
    return bool(record["gpu"]["by"]) and record.get("run", {}).get("outcome") in OUTCOMES[:3]
