"""``benchmarks/makefiles.py``: the sources, macros and arguments of a program, and smaller arguments."""

from __future__ import annotations

import shutil

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
