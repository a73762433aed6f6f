"""Ctrl-C in a process of its own: an interrupt that strays ends that one, and not pytest or its worker."""

from __future__ import annotations

import os
import signal
import time

from tests.commands import started

_FRAME = """
import signal, sys, threading, time
import numpy as np

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell inherits SIG_IGN
{setup}

def once(run):
    try:
        print("ready", flush=True)
        run()
    except KeyboardInterrupt:
        return
    sys.exit("ended without KeyboardInterrupt")

try:
{body}
    time.sleep(0.3)  # a second KeyboardInterrupt would come here
    print("done", flush=True)
except KeyboardInterrupt:
    sys.exit("KeyboardInterrupt outside of the run")
"""


def interrupted(setup: str, body: str, after: float = 0.3) -> None:
    """Run ``setup`` and ``body``, in which ``once(function)`` expects one KeyboardInterrupt from ``function()``.

    The interrupt is sent ``after`` seconds, in which the function is to begin what it interrupts; on a busy machine it
    may come before that, and is expected all the same.
    """
    program = _FRAME.format(setup=setup, body="".join(f"    {line}\n" for line in body.strip().splitlines()))
    with started(program) as (process, output, errors):
        said = ""
        for said in output:
            if said == "ready\n":
                time.sleep(after)
                os.kill(process.pid, signal.SIGINT)
        process.join()
        assert (process.exitcode, said) == (0, "done\n"), errors.read_text()[-3000:]
