"""The C++ compiler that builds the emulator and the interpreter of machine code, and the error without a compiler."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from warpwise import native
from warpwise.cli import cli
from warpwise.machine import runtime


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The only folder that programs are looked for in."""
    monkeypatch.delenv("WARPWISE_CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ziglang", None)  # not installed
    return tmp_path


def program(path: Path) -> None:
    path.write_text("#!/bin/sh\necho a compiler of this test\n")
    path.chmod(0o755)


def test_a_compiler_that_ctrl_c_ends_is_an_interrupt() -> None:
    """A terminal sends SIGINT to the compiler too, and a program with a handler of its own gets no exception."""
    with pytest.raises(KeyboardInterrupt, match="sh: interrupted"):
        native.run(["sh", "-c", "kill -INT $$"])
    failed = native.run(["sh", "-c", "echo wrong >&2; exit 3"])
    assert (failed.returncode, failed.stderr) == (3, "wrong\n")


def test_the_named_compiler_comes_first(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(programs / "clang++")
    assert native.compiler() == ("clang++",)
    program(programs / "own")
    monkeypatch.setenv("WARPWISE_CXX", "own -m64")
    assert native.compiler() == ("own", "-m64")
    monkeypatch.setenv("WARPWISE_CXX", "")
    assert native.compiler() == ("clang++",)


def test_without_one_each_part_says_what_to_install(programs: Path) -> None:
    with pytest.raises(native.NoCompiler, match=r"apt install g\+\+"):
        native.compiler()
    with pytest.raises(FileNotFoundError, match=r"machine: .* needs a C\+\+17 compiler: install g\+\+"):
        runtime.library.__wrapped__()


def test_doctor_reports_a_missing_compiler(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWISE_CXX", "no-such-compiler")
    said = " ".join(CliRunner().invoke(cli, ["doctor"]).output.split())
    assert "WARPWISE_CXX='no-such-compiler': there is no such program" in said


@pytest.mark.parametrize("size, expected", [("8", 8), ("missing", 4)])
def test_small_headers_come_first_unless_they_do_not_compile(
    size: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path / "cache"))
    for folder, value in (("sources", ""), ("library", "4"), ("light", size)):
        (tmp_path / folder).mkdir()
        if value:
            (tmp_path / folder / "size.h").write_text(f"constexpr int size = {value};\n")
    (tmp_path / "sources" / "a.cpp").write_text('#include <size.h>\nextern "C" int stored() { return size; }\n')
    command = (*native.compiler(), "-fPIC", "-isystem", str(tmp_path / "library"))
    made = native.library("x", tmp_path / "sources", command, str, (), RuntimeError, light=tmp_path / "light")
    assert ctypes.CDLL(str(made)).stored() == expected
