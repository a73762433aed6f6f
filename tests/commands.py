"""``command``: ``warpwise`` in a process of its own, forked from one that has imported torch."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory

PRELOAD = ["torch", "warpwise.cli", "warpwise.cli.kernel_options", "warpwise.cuda.program.session"]


def command(*args: str, timeout: float = 120, **variables: str) -> CompletedProcess[str]:
    """Run ``python -m warpwise ARGS``; the result has its exit status and what it wrote to file descriptors 1 and 2.

    ``variables`` are added to the environment.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    with TemporaryDirectory() as folder:
        outputs = [Path(folder) / name for name in ("out", "err")]
        process = context.Process(
            target=_run, args=(args, *map(str, outputs), os.getcwd(), {**os.environ, **variables})
        )
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise TimeoutError(f"warpwise {' '.join(args)} ran for more than {timeout} s")
        status = process.exitcode
        process.close()
        return CompletedProcess(args, status or 0, *(output.read_text() for output in outputs))


def _run(args: tuple[str, ...], out: str, err: str, folder: str, environment: dict[str, str]) -> None:
    for descriptor, path in enumerate((os.devnull, out, err)):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(descriptor, "rw"[descriptor > 0]) for descriptor in range(3))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["warpwise", *args]
    from warpwise.cli import main

    main()
