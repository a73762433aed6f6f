"""``warpwise.ops`` imports what its folders export, by a file that is written from them."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

import warpwise.ops
from warpwise.ops import _exports

HOME = Path(warpwise.ops.__file__).parent


def test_the_file_is_up_to_date():
    assert (HOME / "__init__.py").read_text() == _exports.source(), "run `make format`"


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in HOME.glob("[!_]*/op.py")))
def test_every_folder_is_exported(folder):
    module = importlib.import_module(f"warpwise.ops.{folder}")
    assert set(module.__all__) <= set(warpwise.ops.__all__)
    for name in module.__all__:
        function = getattr(warpwise.ops, name)
        assert inspect.isfunction(function), f"{name} is not the public function"
        assert function is getattr(module, name)


def test_a_folder_without_exports_is_an_error(tmp_path):
    (tmp_path / "__init__.py").write_text('"""An operation."""\n')
    with pytest.raises(ValueError, match="expected __all__"):
        _exports.exported(tmp_path)
