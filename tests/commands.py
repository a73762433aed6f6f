"""``command`` and ``python``: programs in a process of their own, forked from one that has imported torch."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import runpy
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, util
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory
from typing import TextIO

PRELOAD = ["torch", "warpwise.cli", "warpwise.cli.kernel_options", "warpwise.cuda.program.session"]


def fork_server() -> None:
    """Fork the server, from which all these processes are forked, from this process, before its first test.

    It then has this process's modules, whose imports take a new interpreter 4 s, and each process 4 s more where it
    imports the tests, an operation or torch._dynamo. A process with a CUDA context must not be forked.
    """
    spawned = util.spawnv_passfds

    def forked(path: bytes, args: list[str], passed: list[int]) -> int:
        if "forkserver" not in args[-1]:
            return spawned(path, args, passed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that this process has threads
            pid = os.fork()
        if pid == 0:
            try:
                faulthandler.disable()
                sys.stdout, sys.stderr = (os.fdopen(descriptor, "w", closefd=False) for descriptor in (1, 2))
                opened = {int(name) for name in os.listdir("/proc/self/fd")}
                for descriptor in opened - {0, 1, 2, *passed}:
                    with suppress(OSError):
                        os.close(descriptor)
                exec(args[-1], {})  # noqa: S102
            finally:
                os._exit(0)
        return pid

    util.spawnv_passfds = forked
    try:
        forkserver.set_forkserver_preload(PRELOAD)
        forkserver.ensure_running()
    finally:
        util.spawnv_passfds = spawned


def command(*args: str, timeout: float = 280, **variables: str) -> CompletedProcess[str]:
    """Run ``python -m warpwise ARGS``; the result has its exit status and what it wrote to file descriptors 1 and 2.

    ``variables`` are added to the environment.
    """
    return _forked("warpwise", args, timeout, variables)


def python(program: str | Path, *args: str, timeout: float = 280, **variables: str) -> CompletedProcess[str]:
    """As ``command``: run the file ``program`` if it is a path, else the text ``program`` as ``python -c`` does.

    It takes 3 s of CPU less than a new interpreter that imports torch.
    """
    if isinstance(program, Path):
        return _forked(program, args, timeout, variables)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"
        file.write_text(program)
        return _forked(file, args, timeout, variables)


def interpreter(program: str, **variables: str) -> CompletedProcess[str]:
    """As ``python`` with a text, in a new interpreter: for what modules do when they are imported."""
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=280, check=False, env=environment
    )


def _forked(
    program: str | Path, args: tuple[str, ...], timeout: float, variables: dict[str, str]
) -> CompletedProcess[str]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    with TemporaryDirectory() as folder:
        outputs = [Path(folder) / name for name in ("out", "err")]
        process = context.Process(
            target=_run, args=(program, args, *map(str, outputs), os.getcwd(), {**os.environ, **variables})
        )
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise TimeoutError(f"{program} {' '.join(args)} ran for more than {timeout} s")
        status = process.exitcode
        process.close()
        return CompletedProcess(args, status or 0, *(output.read_text() for output in outputs))


@contextmanager
def started(program: str) -> Iterator[tuple[BaseProcess, TextIO, Path]]:
    """Start the text ``program`` as ``python`` does: the process, its output as it comes, and the file of errors."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    with TemporaryDirectory() as folder:
        file, out, err = (Path(folder) / name for name in ("program.py", "out", "err"))
        file.write_text(program)
        os.mkfifo(out)
        process = context.Process(target=_run, args=(file, (), str(out), str(err), os.getcwd(), dict(os.environ)))
        process.start()
        try:
            with open(out) as output:  # ends when the process does
                yield process, output, err
        finally:
            process.kill()
            process.join()


def _run(
    program: str | Path, args: tuple[str, ...], out: str, err: str, folder: str, environment: dict[str, str]
) -> None:
    for descriptor, path in enumerate((os.devnull, out, err)):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(descriptor, "rw"[descriptor > 0]) for descriptor in range(3))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [str(program), *args]
    if program == "warpwise":
        from warpwise.cli import main

        main()
    else:
        warnings.filterwarnings("ignore", "This process", DeprecationWarning)  # that it forks with threads
        sys.path.insert(0, str(Path(program).parent))
        runpy.run_path(str(program), run_name="__main__")
