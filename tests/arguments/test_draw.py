"""Random test inputs: an unknown kind of values is refused where it is named."""

from __future__ import annotations

import pytest
import torch

from warpwise.operation import Case, draw


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
