"""Device profiles, descriptions and measured ceilings."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from warpwise import cache, device
from warpwise.device import Profile
from warpwise.device.profiles import parse_target


@pytest.mark.parametrize(
    "target, capability",
    [
        ("sm_90", (9, 0)),
        ("sm_90a", (9, 0)),
        ("9.0", (9, 0)),
        ("120", (12, 0)),
        ("compute_121", (12, 1)),
        ((8, 6), (8, 6)),
    ],
)
def test_parse_target(target: str | tuple[int, int], capability: tuple[int, int]) -> None:
    assert parse_target(target) == capability
    assert Profile.of(target).compute_capability == capability


def test_unknown_target() -> None:
    with pytest.raises(ValueError, match="no profile for target 'sm_50'; known targets: sm_70, "):
        Profile.of("sm_50")
    with pytest.raises(ValueError, match="expected a compute capability such as 'sm_90'"):
        Profile.of("hopper")


@pytest.mark.parametrize("profile", Profile.known(), ids=lambda profile: profile.name)
def test_profile_limits_are_consistent(profile: Profile) -> None:
    assert profile.shared_per_block <= profile.shared_per_block_optin
    # One block can use all shared memory of an SM except the part that the system reserves per block.
    assert profile.shared_per_block_optin + profile.shared_reserved_per_block == profile.shared_per_sm
    assert profile.shared_per_sm <= profile.l1_and_shared_per_sm
    assert profile.warps_per_sm * profile.warp_size == profile.threads_per_sm
    assert profile.threads_per_block <= profile.threads_per_sm


def test_limits_of_the_programming_guide() -> None:
    hopper, turing, ampere = Profile.of("sm_90"), Profile.of("sm_75"), Profile.of("sm_86")
    assert (hopper.shared_per_block_optin, hopper.shared_per_sm, hopper.warps_per_sm) == (232448, 233472, 64)
    assert (turing.shared_per_block_optin, turing.warps_per_sm, turing.blocks_per_sm) == (65536, 32, 16)
    assert (ampere.shared_per_block_optin, ampere.warps_per_sm, ampere.blocks_per_sm) == (101376, 48, 16)


def test_describe_target() -> None:
    described = device.describe("sm_80")
    rows = dict(described.rows())
    assert described.place == "target"
    assert described.sm_count is None
    assert described.peaks == {}
    assert described.peak_bandwidth is None
    assert rows["shared memory per block"] == "48 KiB, 163 KiB opt-in"
    assert rows["threads per block, max"] == "1,024 (1,024 × 1,024 × 64)"


def test_describe_cpu() -> None:
    described = device.describe("cpu")
    assert (described.place, described.profile) == ("cpu", None)
    assert described.sm_count is not None
    assert described.sm_count >= 1
    assert dict(described.rows())["driver"] == f"torch {torch.__version__}"


def test_ceilings_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    assert device.ceilings("cpu") is None
    measured = device.measure_ceilings("cpu", copy_bytes=1 << 16, sizes=(16, 32))
    assert measured.place == "cpu"
    assert measured.copy > 0
    assert measured.matmul["fp32"] > 0
    assert measured.sizes == (16, 32)
    assert device.ceilings("cpu") == measured
    assert "measured on" in measured.provenance
    assert "(cpu)" in measured.provenance
    assert measured.date in measured.provenance
    (entry,) = (tmp_path / "ceilings").iterdir()
    entry.write_bytes(b"damaged")
    assert device.ceilings("cpu") is None


def test_cached_ceilings_depend_on_the_torch_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    device.measure_ceilings("cpu", copy_bytes=1 << 16, sizes=(16,))
    monkeypatch.setattr(torch, "__version__", "0.0")
    assert device.ceilings("cpu") is None
    assert cache.cache_dir() == tmp_path


def test_measuring_a_target_without_a_device() -> None:
    with pytest.raises(ValueError, match="expected a local device, got a target"):
        device.measure_ceilings("sm_90")
    assert device.ceilings("sm_90") is None


def test_measurement_restores_fp32_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    before = torch.backends.cuda.matmul.fp32_precision
    device.measure_ceilings("cpu", copy_bytes=1 << 16, sizes=(16,))
    assert torch.backends.cuda.matmul.fp32_precision == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_describe_cuda_without_a_gpu() -> None:
    with pytest.raises(ValueError, match="no CUDA device found"):
        device.describe("cuda")


@pytest.mark.gpu
def test_profile_agrees_with_the_gpu() -> None:
    described = device.current()
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    profile = described.profile
    assert described.place == "gpu"
    assert profile is not None
    assert profile.threads_per_sm == properties.max_threads_per_multi_processor
    assert profile.registers_per_sm == properties.regs_per_multiprocessor
    assert profile.shared_per_sm == properties.shared_memory_per_multiprocessor
    assert profile.shared_per_block_optin == properties.shared_memory_per_block_optin
    assert profile.warp_size == properties.warp_size
    assert described.sm_count == properties.multi_processor_count
    assert described.clock_hz is not None
    assert described.clock_hz > 5e8
    assert described.peak_bandwidth is not None
    assert described.peak_bandwidth > 1e11


@pytest.mark.gpu
def test_measured_ceilings_are_below_theoretical_peaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    measured = device.measure_ceilings("cuda", copy_bytes=1 << 30, sizes=(4096,))
    described = device.current()
    assert measured.place == "gpu"
    assert 0 < measured.copy <= (described.peak_bandwidth or 0)
    for kind, rate in measured.matmul.items():
        assert 0 < rate <= described.peaks.get(kind, float("inf"))
    assert device.ceilings() == measured
