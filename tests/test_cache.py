"""Files of the cache are written whole or not at all, and built again if they are damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpwise import cache


def test_the_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("WARPWISE_CACHE", raising=False)
    assert cache.cache_dir() == tmp_path / "xdg" / "warpwise"
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path / "own"))
    assert cache.cache_dir() == tmp_path / "own"
    assert (tmp_path / "own").is_dir()


def test_a_folder_that_cannot_be_made_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(OSError, match="set WARPWISE_CACHE to a writable one"):
        cache.cache_dir()


def test_a_key_is_twenty_digits_and_stable() -> None:
    assert cache.key("a", 1) == cache.key("a", 1)
    assert len(cache.key()) == 20
    assert int(cache.key("x"), 16) >= 0


@given(st.lists(st.text()), st.lists(st.text()))
def test_keys_of_different_parts_differ(first: list[str], second: list[str]) -> None:
    assert (cache.key(*first) == cache.key(*second)) == (first == second)


def test_a_write_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "entry"
    cache.atomic_write(path, "one")
    cache.atomic_write(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_keeps_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    cache.atomic_write(path, "one")
    with pytest.raises(TypeError):
        cache.atomic_write(path, 5)  # type: ignore[arg-type]
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_damaged_reads_as_absent(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    assert cache.load(path) is None
    cache.save(path, b"payload")
    assert cache.load(path) == b"payload"
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole + b"x", b"", whole[:-1] + b"X"):
        path.write_bytes(damaged)
        assert cache.load(path) is None


WRITER = """
import sys
from pathlib import Path
from warpwise import cache
for _ in range(200):
    cache.save(Path(sys.argv[1]), sys.argv[2].encode() * 10_000)
"""


def _start(program: str, *arguments: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_processes_writing_one_entry_leave_one_of_theirs(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    writers = [_start(WRITER, path, letter) for letter in "ab"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            seen.add(cache.load(path))
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    seen.add(cache.load(path))
    assert seen <= {b"a" * 10_000, b"b" * 10_000}


OTHER_PROCESS = """
import fcntl, sys
from pathlib import Path
from warpwise import cache
path = Path(sys.argv[1])
with path.with_name(f".{path.name}.lock").open() as lock:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("locked", flush=True)
with cache.build_lock(path) as must_build:
    print(must_build, path.read_text(), flush=True)
"""


def test_one_of_several_processes_builds_and_the_others_wait(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "entry"
    with cache.build_lock(path) as must_build:
        assert must_build
        others = [_start(OTHER_PROCESS, path) for _ in range(2)]
        assert [other.stdout.readline() for other in others if other.stdout] == ["locked\n"] * 2
        cache.atomic_write(path, "whole")
    assert [other.communicate()[0] for other in others] == ["False whole\n"] * 2


def test_a_build_that_failed_is_repeated_by_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    with cache.build_lock(path) as must_build:
        assert must_build  # and nothing is written
    with cache.build_lock(path) as must_build:
        assert must_build
        cache.atomic_write(path, "whole")
    with cache.build_lock(path) as must_build:
        assert not must_build
