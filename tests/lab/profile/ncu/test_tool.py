"""ncu is found and run: its options, and the errors for its failures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.lab.profile.ncu.fake_ncu import FakeNcu

from warpwise.lab.profile.ncu import NcuError, NcuNotFound, NcuPermission, tool
from warpwise.lab.profile.ncu.metrics import DEFAULT, EVERYTHING

RAW = (Path(__file__).parent / "recorded" / "raw_page.csv").read_text()
DENIED = """==PROF== Connected to process 4711 (/usr/bin/python3.12)
==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target
device 0. For instructions on enabling permissions and to get more information see
https://developer.nvidia.com/ERR_NVGPUCTRPERM
"""


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNcu:
    fake = FakeNcu(tmp_path)
    monkeypatch.setenv("WARPWISE_NCU", str(fake.path))
    return fake


def test_version(ncu: FakeNcu) -> None:
    assert tool.version(tool.find()) == "2025.3.1.0"


def test_the_command_is_profiled_without_touching_clocks(ncu: FakeNcu) -> None:
    ncu.plan(RAW)
    found = tool.profile(["python3", "program.py"], ["gpu__time_duration.sum", "dram__bytes_read.sum"])
    assert [measured.grid for measured in found] == [(4, 4, 1), (16384, 1, 1)]
    assert found[0].metrics == {"gpu__time_duration.sum": 18240, "dram__bytes_read.sum": 131584}
    arguments = ncu.arguments
    assert arguments[-2:] == ["python3", "program.py"]
    assert arguments[arguments.index("--clock-control") + 1] == "none"
    assert arguments[arguments.index("--cache-control") + 1] == "all"
    assert arguments[arguments.index("--profile-from-start") + 1] == "off"
    assert arguments[arguments.index("--metrics") + 1] == "gpu__time_duration.sum,dram__bytes_read.sum"


def test_what_a_breakdown_expands_to_is_kept(ncu: FakeNcu) -> None:
    ncu.plan(RAW)
    found = tool.profile(["program"], ["breakdown:sm__throughput.avg.pct_of_peak_sustained_elapsed"])
    assert found[0].metrics == {"dram__throughput.avg.pct_of_peak_sustained_elapsed": 0.42}
    assert list(found[0].texts) == ["breakdown:sm__throughput.avg.pct_of_peak_sustained_elapsed"]


def test_the_command_runs_with_the_environment_it_is_given(ncu: FakeNcu, tmp_path: Path) -> None:
    ncu.plan(RAW, run=sys.executable)
    written = tmp_path / "written"
    program = f"import os; open({str(written)!r}, 'w').write(os.environ['MARK'] + os.environ['LC_ALL'])"
    tool.profile([sys.executable, "-c", program], ["gpu__time_duration.sum"], environment={"MARK": "here "})
    assert written.read_text() == "here C.UTF-8"


def test_no_permission_says_what_it_is_and_the_cure(ncu: FakeNcu) -> None:
    ncu.plan(DENIED, code=1)
    with pytest.raises(NcuPermission) as raised:
        tool.profile(["python3"])
    for part in ("ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0", "--cap-add=SYS_ADMIN", "CAP_SYS_ADMIN"):
        assert part in str(raised.value)


def test_a_failing_command_is_shown_with_what_it_said(ncu: FakeNcu) -> None:
    ncu.plan(
        "==PROF== Connected\n==ERROR== The application returned an error code (3).\n", code=3, stdout="Traceback: boom"
    )
    with pytest.raises(NcuError, match="(?s)exit status 3.*error code.*boom"):
        tool.profile(["python3"])


def test_nothing_profiled_is_an_error(ncu: FakeNcu) -> None:
    ncu.plan("==WARNING== No kernels were profiled.\n")
    with pytest.raises(NcuError, match="(?s)profiled no kernel.*No kernels were profiled"):
        tool.profile(["python3"])


def test_a_command_that_hangs_is_ended(ncu: FakeNcu) -> None:
    ncu.plan(RAW, run=sys.executable)
    with pytest.raises(NcuError, match="did not finish within 0 s"):
        tool.profile([sys.executable, "-c", "import time; time.sleep(20)"], timeout=0.3)


def test_ncu_that_is_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("WARPWISE_NCU", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tool.os, "access", lambda *args: False)
    with pytest.raises(NcuNotFound, match=r"developer\.nvidia\.com/nsight-compute"):
        tool.find()


def test_a_variable_that_names_no_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WARPWISE_NCU", str(tmp_path))
    monkeypatch.setenv("WARPWISE_NCU", str(tmp_path / "missing"))
    with pytest.raises(NcuError, match="WARPWISE_NCU"):
        tool.find()


def test_ncu_of_a_toolkit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    fake = FakeNcu(tmp_path / "bin")
    monkeypatch.delenv("WARPWISE_NCU", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert tool.find() == fake.path


def test_every_metric_is_asked_for_once() -> None:
    assert len(set(EVERYTHING)) == len(EVERYTHING)
    assert set(DEFAULT) < set(EVERYTHING)
    assert not any(" " in name or "," in name for name in EVERYTHING)
