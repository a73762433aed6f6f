"""Build the package's C++ libraries. ``include`` holds the headers that several of them use."""

from __future__ import annotations

from warpwise.native.build import INCLUDE, library, path_of
from warpwise.native.toolchain import NoCompiler, compiler, header_folders, is_clang, run, vector_flags, version

__all__ = [
    "INCLUDE", "NoCompiler", "compiler", "header_folders", "is_clang", "library", "path_of", "run", "vector_flags",
    "version",
]  # fmt: skip
