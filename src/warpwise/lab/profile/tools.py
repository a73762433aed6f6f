"""Run a command under Nsight Systems (``nsys``) or Nsight Compute (``ncu``)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from warpwise.lab.profile.record import ProfileError
from warpwise.lab.profile.schedule import Schedule
from warpwise.ranges import ASKED

TOOLKIT = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute", "/opt/nvidia/nsight-systems/bin")
NO_COUNTERS = "ERR_NVGPUCTRPERM"


@dataclass(frozen=True)
class Tool:
    """A profiler: its command, what it shows, how to install it, and the file suffix of its reports."""

    command: str
    title: str
    shows: str
    get: str
    ending: str
    viewer: str

    def find(self) -> Path | None:
        """The command on $PATH or in the install folders of NVIDIA's packages, or None."""
        found = shutil.which(self.command) or shutil.which(self.command, path=os.pathsep.join(TOOLKIT))
        return Path(found) if found else None

    def explanation(self) -> str:
        """The message if it is not installed."""
        return f"{self.command} is not installed here. {self.title} {self.shows} {self.get}"


TOOLS: Mapping[str, Tool] = {
    "nsys": Tool(
        "nsys",
        "Nsight Systems",
        "shows when each kernel, copy and launch ran, on one timeline with named ranges of the host.",
        "To get it: apt install nsight-systems from NVIDIA's CUDA repository, or "
        "https://developer.nvidia.com/nsight-systems; the CUDA toolkit's installer has it too. Without it, "
        "--trace FILE.json records the same timeline through torch.",
        ".nsys-rep",
        "nsys-ui REPORT, or nsys stats REPORT in a terminal",
    ),
    "ncu": Tool(
        "ncu",
        "Nsight Compute",
        "reads the hardware's counters for each kernel: bandwidth, occupancy, stalls, bank conflicts.",
        "To get it: apt install nsight-compute from NVIDIA's CUDA repository, or "
        "https://developer.nvidia.com/nsight-compute; the CUDA toolkit has it too. It needs a GPU and permission to "
        "read its counters.",
        ".ncu-rep",
        "ncu-ui REPORT, or ncu --import REPORT in a terminal",
    ),
}


@dataclass(frozen=True)
class ProfilerReport:
    """The result of a tool: its exit status, its report or None, and a remark on errors."""

    command: tuple[str, ...]
    status: int
    path: Path | None
    remark: str = ""


def command_line(tool: Tool, found: Path, report: Path, child: Sequence[str], whole: bool = False) -> list[str]:
    """The command that profiles ``child`` with ``tool`` and writes ``report``.

    With ``whole`` all of the child's run is profiled, else the range of ``captured``.
    """
    if tool.command == "nsys":
        marked = [] if whole else ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
        options = [
            "profile",
            "--trace=cuda,nvtx,cublas,cudnn,osrt",
            *marked,
            "--force-overwrite=true",
            f"--output={report}",
        ]
    else:
        marked = [] if whole else ["--profile-from-start", "off"]
        options = [
            "--log-file", "stderr", "--set", "full", "--nvtx", "--target-processes", "all", *marked, "--import-source",
            "yes",
            "--force-overwrite", "--export", str(report),
        ]  # fmt: skip
    return [str(found), *options, *child]


def run_under(name: str, report: Path, child: Sequence[str], whole: bool = False) -> ProfilerReport:
    """Run ``child`` under ``nsys`` or ``ncu``, passing its output through; unless ``whole``, only the range of
    ``captured``.

    Raises ``ProfileError`` if the tool is not installed or there is no GPU.
    """
    tool = TOOLS[name]
    found = tool.find()
    if found is None:
        raise ProfileError(tool.explanation())
    if not torch.cuda.is_available():
        raise ProfileError(f"--with {name}: {tool.title} profiles a GPU, and there is no CUDA device here")
    path = report if report.name.endswith(tool.ending) else report.with_name(report.name + tool.ending)
    command = command_line(tool, found, path, child, whole)
    environment = os.environ | {ASKED: "1"}
    ran = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    said = ran.stderr.strip()
    if NO_COUNTERS in said:
        remark = (
            "no permission to read the GPU's counters (ERR_NVGPUCTRPERM): run as root, give the container the "
            "capability SYS_ADMIN, or load the driver with NVreg_RestrictProfilingToAdminUsers=0"
        )
    else:
        remark = said if ran.returncode else ""
    return ProfilerReport(tuple(command), ran.returncode, path if path.exists() else None, remark)


def captured(call: Any, schedule: Schedule) -> None:
    """The steps of ``schedule`` without torch's profiler, the active ones between ``cudaProfilerStart`` and
    ``cudaProfilerStop``.
    """
    for _ in range(schedule.repeat):
        for _ in range(schedule.wait + schedule.warmup):
            call()
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        for _ in range(schedule.active):
            call()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
