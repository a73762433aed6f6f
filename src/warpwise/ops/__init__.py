"""Operations, one folder each: ``warpwise.ops.softmax(x, dim=-1)``.

On CUDA tensors the fastest rung that takes the arguments computes; on CPU tensors PyTorch does. ``rung="k02"`` asks for
one rung by name, which on CPU tensors runs emulated and checked. Importing this package registers every operation with
``warpwise.registry``; a folder put beside the others is found by itself.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from warpwise import registry

__all__: list[str] = []


def _bind() -> None:
    """Import each folder and make what its ``__all__`` lists an attribute here, in place of the folder's module.

    An operation's function can be asked what it would run: ``linear.chosen(x, weight)``.
    """
    from warpwise.ops._tables import asked

    for found in pkgutil.iter_modules(__path__):
        if not found.ispkg or found.name.startswith("_"):
            continue
        module = importlib.import_module(f"{__name__}.{found.name}")
        for name in module.__all__:
            function: Any = getattr(module, name)
            globals()[name] = function
            __all__.append(name)
            for op in registry.all_ops():
                if op.name == name and not hasattr(function, "chosen"):
                    function.chosen = asked(op, function)


_bind()
