"""Ctrl-C in a process of its own: an interrupt that strays ends that one, and not pytest or its worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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
    """Run ``setup`` and ``body``, in which ``once(function)`` wants one KeyboardInterrupt from ``function()``.

    The interrupt is sent ``after`` seconds, in which the function is to begin what it interrupts; on a busy machine it
    may come before that, and is wanted all the same.
    """
    program = _FRAME.format(setup=setup, body="".join(f"    {line}\n" for line in body.strip().splitlines()))
    path = [str(Path(__file__).parents[1]), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None and process.stderr is not None
        said = ""
        for said in process.stdout:
            if said == "ready\n":
                time.sleep(after)
                process.send_signal(signal.SIGINT)
        errors = process.stderr.read()
    assert (process.returncode, said) == (0, "done\n"), errors[-3000:]
