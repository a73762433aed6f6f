"""Find ncu, query its version, and run it on a command."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from warpwise.lab.profile.ncu.errors import NcuError, NcuNotFound, NcuPermission
from warpwise.lab.profile.ncu.metrics import DEFAULT
from warpwise.lab.profile.ncu.table import Measured, parse

# Clocks are not locked: locking needs permissions, and the counters should be those of normal use.
# Caches are flushed before every pass.
OPTIONS = (
    "--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "mangled", "--profile-from-start", "off",
    "--replay-mode", "kernel", "--cache-control", "all", "--clock-control", "none",
)  # fmt: skip
_DENIED = "ERR_NVGPUCTRPERM"
_SHOWN = 40  # lines of output shown of a failed command


def find() -> Path:
    """The ncu to use: $WARPWISE_NCU, else the one on $PATH, else the CUDA toolkit's. Raises ``NcuNotFound``."""
    named = os.environ.get("WARPWISE_NCU")
    if named:
        if not os.access(named, os.X_OK):
            raise NcuError(f"WARPWISE_NCU={named!r} is not executable: expected the path of `ncu` itself")
        return Path(named)
    if found := shutil.which("ncu"):
        return Path(found)
    homes = [Path(os.environ[name]) / "bin" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    alone = sorted(Path("/opt/nvidia/nsight-compute").glob("*/"), reverse=True)
    for folder in (*homes, Path("/usr/local/cuda/bin"), *alone):
        if os.access(folder / "ncu", os.X_OK):
            return folder / "ncu"
    raise NcuNotFound


@functools.lru_cache(maxsize=4)
def version(ncu: Path) -> str:
    """The version of ncu, such as ``2025.3.1.0``."""
    said = subprocess.run([ncu, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"Version\s+([\d.]+)", said)
    return match[1] if match else "unknown"


def profile(
    command: Sequence[str | os.PathLike[str]],
    metrics: Sequence[str] = DEFAULT,
    *,
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> list[Measured]:
    """Run ``command`` under ncu; returns the metrics of each launch between ``cudaProfilerStart`` and
    ``cudaProfilerStop``.

    Kernel names are mangled. ``timeout`` is in seconds. Raises ``NcuNotFound``, ``NcuPermission``, and ``NcuError``
    with the end of the output if the command or ncu failed.
    """
    ncu = find()
    with tempfile.TemporaryDirectory(prefix="warpwise_ncu_") as folder:
        log = Path(folder) / "ncu.csv"
        line = [
            str(ncu),
            *OPTIONS,
            "--log-file",
            str(log),
            "--metrics",
            ",".join(dict.fromkeys(metrics)),
            *map(str, command),
        ]
        try:
            done = subprocess.run(
                line,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
                env={**os.environ, **(environment or {}), "LC_ALL": "C.UTF-8"},
            )
        except subprocess.TimeoutExpired as error:
            raise NcuError(f"ncu did not finish within {timeout:.0f} s: {' '.join(map(str, command))}") from error
        said = log.read_text(errors="replace") if log.exists() else ""
    return [_asked_for(measured, set(metrics)) for measured in _result(said, done)]


_PART = ".avg.pct_of_peak_sustained_elapsed"


def _asked_for(measured: Measured, names: set[str]) -> Measured:
    """``measured`` without metrics that were not requested: other roll-ups, and device attributes.

    The expansions of a breakdown are kept.
    """
    parts = any(name.startswith("breakdown:") for name in names)
    kept = {
        name: value for name, value in measured.metrics.items() if name in names or (parts and name.endswith(_PART))
    }
    units = {name: unit for name, unit in measured.units.items() if name in kept}
    texts = {name: text for name, text in measured.texts.items() if name in names}
    return replace(measured, metrics=kept, units=units, texts=texts)


def _result(said: str, done: subprocess.CompletedProcess[str]) -> list[Measured]:
    output = f"{said}\n{done.stdout}\n{done.stderr}"
    if _DENIED in output:
        raise NcuPermission
    if done.returncode or '"ID"' not in said:
        lines = [line for line in output.splitlines() if line.strip() and not line.startswith('"')]
        what = f"ended with exit status {done.returncode}" if done.returncode else "profiled no kernel"
        raise NcuError(f"ncu {what}; its output:\n" + "\n".join(lines[-_SHOWN:]))
    return parse(said)
