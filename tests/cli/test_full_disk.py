"""The message if a disk is full."""

from __future__ import annotations

import errno
import sys

import pytest

import warpwise.cli
from warpwise.cuda.emulator.messages import readable


def test_a_full_disk_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "cache/kernel.so")

    monkeypatch.setattr(warpwise.cli, "cli", full)
    monkeypatch.setattr(sys, "argv", ["warpwise"])
    with pytest.raises(SystemExit) as ended:
        warpwise.cli.main()
    said = capsys.readouterr().err
    assert ended.value.code == 1 and "'cache/kernel.so'" in said and "set TMPDIR and WARPWISE_CACHE" in said


@pytest.mark.parametrize(
    "message",
    [
        "/usr/bin/ld: final link failed: No space left on device\ncollect2: error: ld returned 1 exit status",
        "g++: internal compiler error: File size limit exceeded signal terminated program as",
    ],
)
def test_a_compiler_that_cannot_write_is_no_error_of_the_kernel(message: str) -> None:
    said = readable(message, "scale.cu", "__global__ void scale() {}", "scale")
    assert "does not compile" not in said and "was not compiled" in said and "TMPDIR" in said
