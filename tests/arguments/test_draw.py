"""Test inputs: values that are refused, and the memory between elements."""

from __future__ import annotations

import pytest
import torch

from warpwise.operation import LAYOUTS, Case, draw


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bool])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_draw_refuses_unknown_values(dtype, device):
    with pytest.raises(ValueError, match="^draw: expected values to be 'normal' or 'huge', got 'hugh'$"):
        draw((3,), dtype, torch.device(device), 0, "hugh")
    for values in ("normal", "huge"):
        assert draw((3,), dtype, torch.device(device), 0, values).shape == (3,)


def test_a_case_refuses_unknown_values():
    with pytest.raises(ValueError, match="^case 'big': expected values to be 'normal' or 'huge', got 'Huge'$"):
        Case("big", {"n": 3}, values="Huge")
    with pytest.raises(ValueError, match="^case 'big': expected values to be 'normal' or 'huge', got None$"):
        Case("big", {"n": 3}, values=None)


@pytest.mark.parametrize("layout", ["strided", "unaligned"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int16, torch.bool])
def test_memory_between_elements_holds_what_a_kernel_must_not_use(layout, dtype):
    values = torch.zeros(3, 5, dtype=dtype)
    arranged = LAYOUTS[layout](values)
    memory = torch.empty(0, dtype=dtype).set_(arranged.untyped_storage())
    foreign = memory[memory.to(torch.float32) != 0]  # NaN is not 0
    assert torch.equal(arranged.to(torch.float32), values.to(torch.float32))
    assert len(foreign) == len(memory) - values.numel() > 0
    assert foreign.to(torch.float32).isnan().all() or not dtype.is_floating_point
