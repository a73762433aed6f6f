"""Write ``warpwise/ops/__init__.py``: for each folder beside this file, an import of the names in its ``__all__``.

``make format`` runs this file as a script, so that it works while ``__init__.py`` names a folder that is gone.
"""

from __future__ import annotations

import ast
from pathlib import Path

HERE = Path(__file__).parent
COLUMNS = 120
HEADER = '''"""Operations, one folder each: ``warpwise.ops.softmax(x, dim=-1)``.

On CUDA tensors a call runs the rung that is fastest for the arguments, or PyTorch; on CPU tensors it runs PyTorch.
``rung="k02"`` names one rung, which runs emulated and checked on CPU tensors. Importing this package registers its
operations with ``warpwise.operation``.
``make format`` writes this file from the folders.
"""

'''


def exported(folder: Path) -> list[str]:
    """``__all__`` of the operation in ``folder``, sorted. Raises ``ValueError`` if its ``__init__.py`` has none."""
    for node in ast.parse((folder / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == "__all__" for target in node.targets):
            return sorted(ast.literal_eval(node.value))
    raise ValueError(f"{folder / '__init__.py'}: expected __all__ = [...] with the names of the public functions")


def source() -> str:
    """The text of ``__init__.py``."""
    folders = sorted(path.parent for path in HERE.glob("[!_]*/*.py") if path.name in ("__init__.py", "op.py"))
    folders = list(dict.fromkeys(folders))
    for folder in folders:
        if not (folder / "__init__.py").exists():
            raise ValueError(f"{folder}: expected an __init__.py with __all__ = [...], the public functions")
    names = {folder.name: exported(folder) for folder in folders}
    imports = "".join(_import(folder, listed) for folder, listed in names.items() if listed)
    listing = "".join(f'    "{name}",\n' for name in sorted(name for listed in names.values() for name in listed))
    return f"{HEADER}{imports}\n__all__ = [\n{listing}]\n"


def _import(folder: str, names: list[str]) -> str:
    line = f"from warpwise.ops.{folder}.op import {', '.join(names)}"
    if len(line) <= COLUMNS:
        return f"{line}\n"
    return f"from warpwise.ops.{folder}.op import (\n{''.join(f'    {name},{chr(10)}' for name in names)})\n"


if __name__ == "__main__":
    (HERE / "__init__.py").write_text(source())
