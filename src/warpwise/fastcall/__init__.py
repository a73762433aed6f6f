"""Calls of operations in C++, with less host time than PyTorch's own calls.

``Call`` finds the plan of a call by its key: shapes, strides, dtypes, alignment, attributes. ``Replay`` allocates the
outputs and repeats recorded launches. Until the library is built, or if it cannot be built, ``warpwise.operation`` and
``warpwise.cuda.gpu`` do the same in Python.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
from pathlib import Path
from typing import Any

import torch

from warpwise import native
from warpwise.fastcall.build import VARIABLE, BuildError, build, log, start, target

_tried = False
_path: Path | None = None
_library: Any = None
_builders: list[Any] = []  # kept: a Popen warns if it is deleted before its process ends


def library() -> Any:
    """The library with ``Call`` and ``Replay``, or None: without a GPU, before it is built, or if it cannot be built.

    The first call on a machine starts the build in another process. ``WARPWISE_FASTCALL=0`` switches the library off;
    with ``1`` it is also used without a GPU, and the first call waits for the build.
    """
    global _tried, _path, _library
    if not _tried:
        _tried = True
        _path = _find()
    if _path is not None and _path.exists():
        _library, _path = _load(_path), None
    return _library


def _find() -> Path | None:
    wanted = os.environ.get(VARIABLE, "")
    if wanted == "0" or not (wanted or torch.cuda.is_available()):
        return None
    try:
        if wanted:
            return build()
        path = target()
    except (BuildError, native.NoCompiler, OSError):
        return None
    if path.exists():
        return path
    if log(path).exists():
        return None
    _builders.append(start())
    return path


def _load(path: Path) -> Any:
    loader = importlib.machinery.ExtensionFileLoader("fastcall", str(path))
    spec = importlib.util.spec_from_loader("fastcall", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
