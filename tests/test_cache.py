"""What is kept on disk: whole or not at all, and built again when damaged."""

from __future__ import annotations

import multiprocessing
import time
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


def _write_often(path: Path, letter: bytes) -> None:
    for _ in range(200):
        cache.save(path, letter * 10_000)


def test_processes_writing_one_entry_leave_one_of_theirs(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_often, args=(path, letter)) for letter in (b"a", b"b")]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        if path.exists():
            seen.add(cache.load(path))
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    seen.add(cache.load(path))
    assert seen <= {b"a" * 10_000, b"b" * 10_000}


def _make_once(path: Path, made: Path) -> None:
    with cache.made_once(path) as missing:
        if missing:
            with made.open("a") as file:
                file.write("made\n")
            time.sleep(0.3)
            cache.atomic_write(path, "whole")
    assert path.read_text() == "whole"


def test_what_several_processes_need_one_of_them_makes(tmp_path: Path) -> None:
    path, made = tmp_path / "deep" / "entry", tmp_path / "made"
    context = multiprocessing.get_context("spawn")
    makers = [context.Process(target=_make_once, args=(path, made)) for _ in range(3)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
        assert maker.exitcode == 0
    assert made.read_text() == "made\n"


def test_what_could_not_be_made_the_next_one_makes(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    with cache.made_once(path) as missing:
        assert missing  # and nothing is made
    _make_once(path, tmp_path / "made")
    _make_once(path, tmp_path / "made")
    assert (tmp_path / "made").read_text() == "made\n"
