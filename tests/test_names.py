"""A class name of the public interface, and of the lab, names one class."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections import defaultdict
from pathlib import Path

import warpwise

ROOT = Path(warpwise.__file__).parent
BOTH_LANGUAGES = {"Kernel"}  # warpwise.cuda.Kernel and warpwise.triton.Kernel: a kernel of either language


def test_packages_export_different_classes_under_different_names() -> None:
    found: dict[str, set[type]] = defaultdict(set)
    for module in pkgutil.walk_packages([str(ROOT)], "warpwise."):
        if module.ispkg:
            package = importlib.import_module(module.name)
            for name in getattr(package, "__all__", ()):
                if inspect.isclass(exported := getattr(package, name)):
                    found[name].add(exported)
    assert {name for name, classes in found.items() if len(classes) > 1} == BOTH_LANGUAGES


def test_classes_of_the_lab_have_different_names() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "lab").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))
    assert not {name: paths for name, paths in found.items() if len(paths) > 1}
