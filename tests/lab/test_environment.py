"""The record of the machine, and the ceilings of its measured rates and computed peaks."""

from __future__ import annotations

import subprocess
from types import MappingProxyType

import pytest
import torch

from warpwise import device as devices
from warpwise.lab.timing.ceilings import ceilings_for, combined
from warpwise.lab.timing.environment import environment, git_commit, place, resolve
from warpwise.lab.timing.roofline import Roofline
from warpwise.operation import Cost

CPU = torch.device("cpu")


def test_a_cpu_is_named_with_the_word_cpu():
    assert place(CPU).startswith("cpu: ")
    assert environment(CPU)["device"] == place(CPU)
    assert resolve("cpu") == CPU


def test_the_environment_names_the_software():
    found = environment(CPU)
    assert found["warpwise"]
    assert found["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert found["date"].endswith("+00:00")
    assert None not in found.values()


def test_the_commit_says_whether_files_differ(tmp_path):
    assert git_commit(tmp_path) is None

    def git(*words: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", tmp_path, *identity, *words], check=True, capture_output=True)

    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "one")
    clean = git_commit(tmp_path)
    assert clean is not None
    assert len(clean) == 12
    (tmp_path / "file").write_text("two")
    assert git_commit(tmp_path) == clean + "+"


def test_ceilings_are_measured_rates_with_computed_peaks():
    described = devices.Description(
        "Fake GPU",
        "gpu",
        devices.Profile.of("sm_90"),
        clock_hz=2e9,
        memory_clock_hz=3e9,
        memory_bus_bits=6144,
        l2_bytes=60 << 20,
        peaks=MappingProxyType({"fp32": 67e12, "fp8": 2e15}),
    )
    measured = devices.Ceilings(
        "Fake GPU", "gpu", 4.3e12, MappingProxyType({"fp32": 51e12}), 4 << 30, (4096,), "driver 1", "2026-01-01"
    )
    found = combined(described, measured, "fp32")
    assert (found.bandwidth, found.flops, found.peak_flops) == (4.3e12, 51e12, 67e12)
    assert found.peak_bandwidth == pytest.approx(4.608e12)
    assert found.cache_bytes == 60 << 20
    assert "measured on Fake GPU" in found.source
    assert combined(described, measured, "fp8").flops == 2e15
    assert combined(described, measured, "").flops == 0


def test_a_cpu_has_no_ceilings_here():
    assert ceilings_for(CPU, torch.float32) is None


def test_the_floor_is_the_larger_of_two():
    ceilings = Roofline(bandwidth=1e12, flops=1e13)
    assert ceilings.floor(Cost(10**12, 10**12)) == 1.0
    assert ceilings.floor(Cost(10**11, 10**14)) == 10.0
    assert ceilings.bound(Cost(10**12, 10**12)) == "memory"
    assert ceilings.bound(Cost(10**11, 10**14)) == "compute"
    assert Roofline().floor(Cost(10**12, 10**12)) == 0.0
    assert Roofline().bound(Cost(10**12)) == ""
    assert Roofline().impossible(Cost(10**12)) == 0.0
