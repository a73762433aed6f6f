"""Damaged, foreign and newer stores; processes that are killed, and processes that write at once."""

from __future__ import annotations

import functools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from tests.commands import python
from tests.lab import toys
from tests.lab.store.samples import run, timed

from warpwise import operation
from warpwise.cli import cli
from warpwise.lab.store import NewerStore, Store, StoreError
from warpwise.lab.store.schema import MIGRATIONS, VERSION
from warpwise.operation import registry

ROOT = Path(__file__).parents[3]


def child(script: str) -> subprocess.Popen[str]:
    """A Python process with the tests' own modules and the store of this test. It may fork, after its imports."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", textwrap.dedent(script)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )


def damage(path: Path) -> bytes:
    """Overwrite the inside of a store, as a disk may."""
    data = bytearray(path.read_bytes())
    for at in range(4096, len(data)):
        data[at] = (at * 37) % 251
    path.write_bytes(data)
    return bytes(data)


def test_a_newer_store_is_refused_and_stays_as_it_is(own_store: Path) -> None:
    with Store.open() as store:
        store.record(run(), timed())
        store._connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = own_store.read_bytes()
    with pytest.raises(NewerStore, match=rf"schema is {VERSION + 1}, this version supports {VERSION}.*update Warpwise"):
        Store.open()
    assert own_store.read_bytes() == before


def test_a_damaged_store_is_reported_and_set_aside(own_store: Path) -> None:
    with Store.open() as store:
        store.record(run(), *(timed(message="x" * 500) for _ in range(200)))
    damaged = damage(own_store)
    with pytest.warns(RuntimeWarning, match=r"runs\.sqlite3 is damaged .* moved to runs\.sqlite3\.damaged-"):
        store = Store.open()
    with store:
        assert store.runs() == []
        store.record(run(), timed())
    (aside,) = own_store.parent.glob("*.damaged-*")
    assert aside.read_bytes() == damaged
    messages: list[str] = []
    own_store.write_bytes(b"garbage " * 1000)
    with Store.open(report=messages.append) as store:
        assert store.runs() == []
    assert len(messages) == 1
    assert len(list(own_store.parent.glob("*.damaged-*"))) == 2, "the first one was not overwritten"
    with Store.open(report=messages.append):
        assert len(messages) == 1, "once set aside, it is good again"


def test_a_store_that_lost_its_end_is_set_aside(own_store: Path) -> None:
    with Store.open() as store:
        store.record(run(), *(timed(message="x" * 500) for _ in range(200)))
    data = own_store.read_bytes()
    own_store.write_bytes(data[: len(data) // 2])
    messages: list[str] = []
    with Store.open(report=messages.append) as store:
        assert store.runs() == []
    assert "moved to" in messages[0]


@pytest.mark.parametrize("name", ["notes.txt", "notes"])
def test_what_is_no_store_is_left_alone(own_store: Path, name: str) -> None:
    path = own_store.parent / name
    path.parent.mkdir(parents=True)
    path.write_text("something that somebody wrote\n" * 100)
    with pytest.raises(StoreError, match="is not a results store"):
        Store.open(path)
    assert path.read_text() == "something that somebody wrote\n" * 100
    assert list(path.parent.iterdir()) == [path]


def test_another_programs_database_is_left_alone(own_store: Path) -> None:
    own_store.parent.mkdir(parents=True)
    with sqlite3.connect(own_store) as other:
        other.execute("CREATE TABLE runs (mileage)")
    other.close()
    before = own_store.read_bytes()
    with pytest.raises(StoreError, match="another database"):
        Store.open()
    assert own_store.read_bytes() == before


def test_a_migration_that_fails_changes_nothing(own_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open() as store:
        store.record(run(), timed())
    steps = (*MIGRATIONS, "ALTER TABLE runs ADD COLUMN host TEXT;\nINSERT INTO nothing VALUES (1);\n")
    monkeypatch.setattr("warpwise.lab.store.schema.MIGRATIONS", steps)
    for module in ("schema", "database"):
        monkeypatch.setattr(f"warpwise.lab.store.{module}.VERSION", len(steps))
    with pytest.raises(StoreError, match="nothing"):
        Store.open()
    monkeypatch.undo()
    with Store.open(own_store) as store:
        assert len(store.measurements()) == 1
        assert "host" not in [row[1] for row in store._connection.execute("PRAGMA table_info(runs)")]


def test_an_older_store_is_brought_up_to_date(own_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open() as store:
        store.record(run(), timed())
    steps = (*MIGRATIONS, "ALTER TABLE runs ADD COLUMN host TEXT;\n")
    monkeypatch.setattr("warpwise.lab.store.schema.MIGRATIONS", steps)
    for module in ("schema", "database"):
        monkeypatch.setattr(f"warpwise.lab.store.{module}.VERSION", len(steps))
    with Store.open() as store:
        assert len(store.measurements()) == 1
        assert "host" in [row[1] for row in store._connection.execute("PRAGMA table_info(runs)")]
        assert store._connection.execute("PRAGMA user_version").fetchone() == (len(steps),)


def test_sigkill_loses_nothing_that_was_recorded() -> None:
    writer = child("""
        from tests.lab.store.samples import run, timed
        from warpwise.lab.store import Store
        store, kept = Store.open(), run()
        for number in range(10**6):
            kept = store.record(kept, timed(f"k{number}"), timed(f"l{number}"))
            print(number, flush=True)
    """)
    with writer:
        told = [writer.stdout.readline() for _ in range(40)]
        writer.send_signal(signal.SIGKILL)
        told += writer.stdout.readlines()
    assert writer.returncode == -signal.SIGKILL
    last = max(int(line) for line in told if line.endswith("\n"))
    with Store.open(report=pytest.fail) as store:
        names = {one.name for one in store.measurements()}
        assert {f"{letter}{number}" for number in range(last + 1) for letter in "kl"} <= names
        assert len(names) % 2 == 0, "what is recorded at once is there whole or not at all"


def test_a_climb_records_each_verdict_as_it_comes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process that is killed during the next rung leaves them: see the tests above and below."""
    seen = tmp_path / "seen"

    def honest(out: torch.Tensor, x: torch.Tensor) -> None:
        out.copy_((2 * x.double() + 1).to(out.dtype))

    def broken(out: torch.Tensor, x: torch.Tensor) -> None:
        out[:-1] = 2 * x[:-1] + 1

    def looking(out: torch.Tensor, x: torch.Tensor) -> None:
        with Store.open() as beside:
            seen.write_text(json.dumps({one.name: one.verdict for one in beside.measurements()}))

    monkeypatch.setattr(registry, "_OPS", dict(registry._OPS))
    operation.register(toys.op(toys.AFFINE, honest, broken, looking))
    CliRunner().invoke(cli, ["climb", "affine", "--device", "cpu", "--dtype", "float32"], standalone_mode=False)
    assert json.loads(seen.read_text()) == {"honest": "right", "broken": "wrong"}


def test_a_climb_that_is_killed_keeps_the_verdicts_it_had() -> None:
    climber = child("""
        import time
        from tests.lab import toys
        from warpwise import operation
        from warpwise.cli import cli

        def honest(out, x):
            out.copy_((2 * x.double() + 1).to(out.dtype))

        def broken(out, x):
            out[:-1] = 2 * x[:-1] + 1

        def endless(out, x):
            print("hanging", flush=True)
            time.sleep(600)

        operation.register(toys.op(toys.AFFINE, honest, broken, endless))
        cli(["climb", "affine", "--device", "cpu", "--dtype", "float32"])
    """)
    with climber:
        line = climber.stdout.readline()
        while line and "hanging" not in line:
            line = climber.stdout.readline()
        with Store.open() as beside:
            while_it_runs = {one.name: one.verdict for one in beside.measurements()}
        climber.send_signal(signal.SIGKILL)
    with Store.open(report=pytest.fail) as store:
        (kept,) = store.runs()
        assert {one.name: one.verdict for one in store.measurements()} == {"honest": "right", "broken": "wrong"}
        assert while_it_runs == {"honest": "right", "broken": "wrong"}, "readers see it beside the writer"
        assert kept.finished is None
        broken = next(one for one in store.measurements(name="broken"))
        assert "float32" in broken.message


def test_two_processes_write_at_once() -> None:
    writers = python(
        textwrap.dedent("""
        import os
        from tests.lab.store.samples import run, timed
        from warpwise.lab.store import Store
        other = os.fork()
        with Store.open() as store:
            kept = run(f"op{bool(other):d}")
            for count in range(150):
                kept = store.record(kept, timed(f"k{count}"))
            store.finish(kept)
        if other:
            assert os.waitpid(other, 0)[1] == 0
    """)
    )
    assert writers.returncode == 0, writers.stderr
    with Store.open() as store:
        assert {one.op for one in store.runs()} == {"op0", "op1"}
        for number in range(2):
            assert {one.name for one in store.measurements(f"op{number}")} == {f"k{count}" for count in range(150)}
        assert store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_store_that_another_one_creates_meanwhile(own_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two questions that this one asks: the file is then neither empty nor, in part, a store."""
    other = threading.Thread(target=lambda: Store.open().close())

    class Late(sqlite3.Connection):
        def execute(self, statement: str, *rest: Any) -> sqlite3.Cursor:
            if "user_version" in statement and threading.current_thread() is not other and not other.ident:
                other.start()
                other.join(1)  # it waits for this one if the questions are one transaction
            return super().execute(statement, *rest)

    monkeypatch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, factory=Late))
    with Store.open(report=pytest.fail):
        other.join()


def test_a_writer_that_does_not_let_go_is_named(own_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open() as store:
        store._connection.execute("PRAGMA busy_timeout = 50")
        other = sqlite3.connect(own_store, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked; another process has been writing"):
            store.record(run(), timed())
        other.execute("ROLLBACK")
        other.close()
        store.record(run(), timed())
        assert len(store.measurements()) == 1


def test_processes_that_find_one_store_damaged_set_it_aside_once(own_store: Path) -> None:
    with Store.open() as store:
        store.record(run(), *(timed(message="x" * 500) for _ in range(200)))
    damaged = damage(own_store)
    writers = python(
        textwrap.dedent("""
        import os
        from tests.lab.store.samples import run, timed
        from warpwise.lab.store import Store
        other = os.fork()
        with Store.open(report=print) as store:
            store.record(run(), timed(f"k{bool(other):d}"))
        if other:
            assert os.waitpid(other, 0)[1] == 0
    """)
    )
    assert (writers.returncode, writers.stderr) == (0, "")
    assert writers.stdout.count("moved to") == 1
    (aside,) = (path for path in own_store.parent.glob("*.damaged-*") if not path.name.endswith(("-wal", "-shm")))
    assert aside.read_bytes() == damaged
    with Store.open(report=pytest.fail) as store:
        assert {one.name for one in store.measurements()} == {"k0", "k1"}
