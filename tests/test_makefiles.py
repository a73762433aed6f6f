"""``benchmarks/makefiles.py``: the sources, macros and arguments of a program, and smaller arguments."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from benchmarks import makefiles

MAKEFILE = """
FLAGS = -DN=64 -Iinclude -D DOUBLE -Imissing -std=c++20
program = main
$(program): main.o more.o
\tnvcc $(FLAGS) main.o more.o -o $@
%.o: %.cu
\tnvcc $(FLAGS) -c $< -o $@
run: $(program)
\t./$(program) 1000 file.txt
\t./$(program) 2 | tail
"""


def test_macros_of_cmake(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "add_executable(main main.cu) # add_definitions(-DCOMMENT)\nadd_definitions(-DN=64)\nif(HIP)\n"
        "  add_compile_definitions(HIP)\nendif()\n"
        "target_compile_definitions(main PRIVATE FAST\n  SIZE=128 PATH=${HERE})\n"
    )
    makefiles.recipe.cache_clear()
    assert makefiles.recipe(tmp_path).define == ("N=64", "FAST", "SIZE=128")
    (tmp_path / "include").mkdir()
    (tmp_path / "build").mkdir()
    command = {
        "directory": str(tmp_path / "build"),
        "file": "../main.cu",
        "command": "nvcc -DN=8 -I ../include -c x.cu",
    }
    other = {"directory": str(tmp_path / "include"), "file": "other.cu", "arguments": ["nvcc", "-DOTHER"]}
    (tmp_path / "build/compile_commands.json").write_text(json.dumps([command, other]))
    makefiles.recipe.cache_clear()
    found = makefiles.recipe(tmp_path)
    assert (found.define, found.include, found.sources) == (("N=8",), (tmp_path / "build/../include",), ())


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_recipe_of_a_makefile(tmp_path):
    assert makefiles.recipe(tmp_path / "none") == makefiles.Recipe()
    (tmp_path / "include").mkdir()
    (tmp_path / "Makefile").write_text(MAKEFILE)
    for name in ("main.cu", "more.cu"):
        (tmp_path / name).write_text("")
    found = makefiles.recipe(tmp_path)
    assert found.sources == (tmp_path / "main.cu", tmp_path / "more.cu")
    assert found.define == ("N=64", "DOUBLE") and found.include == (tmp_path / "include",)
    assert found.flags == ("-std=c++20",) and found.runs == (("main", ("1000", "file.txt")),)


def test_reduced_arguments_keep_their_powers_of_two():
    assert makefiles.reduced(("1000000", "4096", "7", "x.txt", "0.5"), "") == ("64", "256", "7", "x.txt", "0.5")
    assert makefiles.reduced(("1000", "1000"), "int n = atoi(argv[1]);\nint repeat = atoi(argv[2]);") == ("40", "2")
