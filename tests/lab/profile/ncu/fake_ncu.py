"""A substitute for ncu: it records its command line and writes the output that a test specifies."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

SCRIPT = """#!{python}
import json, subprocess, sys
plan = json.load(open({plan!r}))
arguments = sys.argv[1:]
if arguments == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 36398880) (public-release)")
    sys.exit(0)
json.dump(arguments, open({seen!r}, "w"))
if plan["log"] is not None:
    open(arguments[arguments.index("--log-file") + 1], "w").write(plan["log"])
print(plan["stdout"])
if plan["run"]:
    code = subprocess.run(arguments[arguments.index(plan["run"]):]).returncode
    sys.exit(code or plan["code"])
sys.exit(plan["code"])
"""


class FakeNcu:
    """An executable in ``folder`` that writes ``log`` as its --log-file and ends with ``code``."""

    def __init__(self, folder: Path) -> None:
        self.path, self._plan, self._seen = folder / "ncu", folder / "plan.json", folder / "seen.json"
        self.path.write_text(SCRIPT.format(python=sys.executable, plan=str(self._plan), seen=str(self._seen)))
        os.chmod(self.path, self.path.stat().st_mode | stat.S_IXUSR)
        self.plan()

    def plan(self, log: str | None = None, code: int = 0, stdout: str = "", run: str = "") -> None:
        """What the next run does; ``run`` is the argument that the command to be profiled begins with."""
        self._plan.write_text(json.dumps({"log": log, "code": code, "stdout": stdout, "run": run}))

    @property
    def arguments(self) -> list[str]:
        """The command line of the last run."""
        return json.loads(self._seen.read_text())
