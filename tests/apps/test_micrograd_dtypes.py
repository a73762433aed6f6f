"""The dtypes of a ``Value``."""

from __future__ import annotations

import pytest
import torch

from warpwise.apps.micrograd import Value


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.bfloat16])
def test_a_value_has_a_gradient_in_float32_or_float64_only(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match=f"Value: expected float32 or float64, got {dtype}"):
        Value(torch.ones(3, dtype=dtype))
    assert Value([1, 2]).data.dtype == torch.float32
    assert Value(torch.ones(3, dtype=torch.float64)).data.dtype == torch.float64
