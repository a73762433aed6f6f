"""The files of ``load_inline`` that installations share in the cache."""

from __future__ import annotations

from pathlib import Path

from warpwise.cuda.inline import build


def test_each_installation_has_a_precompiled_header_of_its_own(monkeypatch, tmp_path):
    """Its file includes a header by its path: of a folder that is gone, it would not compile."""
    replacements = {
        "cache_dir": lambda: tmp_path,
        "toolchain_key": lambda: "the same",
        "compiler": lambda: "g++",
        "run": lambda command, verbose: Path(command[-1]).write_bytes(b""),
    }
    for name, value in replacements.items():
        monkeypatch.setattr(build, name, value)
    monkeypatch.setattr(build.native, "is_clang", lambda command: False)
    flags = []
    for place in ("here", "there"):
        monkeypatch.setattr(build, "_INCLUDE", tmp_path / place)
        flags += build._precompiled(verbose=False)
        header = Path(flags[-1].removeprefix("-I")) / "torch/types.h"
        assert str(tmp_path / place) in header.read_text()
    assert len(set(flags)) == 2
