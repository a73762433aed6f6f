"""Calls in C++: which calls have a plan there, and which run in Python."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from warpwise import fastcall
from warpwise.cuda.gpu import recording


class Counted:
    """The call in Python, which plans ``torch.add``; counts its calls."""

    def __init__(self, kinds: str) -> None:
        self.calls = 0
        self.planned = True
        recording.native_library()
        self.call = fastcall.library().Call(kinds, self.general, self.find)

    def general(self, *args: Any) -> Any:
        self.calls += 1
        return "general"

    def find(self, *args: Any) -> Any:
        return (lambda *given: ("plan", *given)) if self.planned else None

    def __call__(self, *args: Any, rung: Any = None) -> str:
        made = self.call(*args, rung)
        if made == "general":
            return made
        assert made == ("plan", *args)
        return "plan"


def test_equal_keys_share_a_plan():
    counted, x = Counted("tfv"), torch.zeros(4, 6)
    for args in ((x, 1, 0.5), (x, 2, 0.5), (x, True, 0.5), (x, (1, 2), 0.5), (x, "a", 0.5), (x, None, 0.5),
                 (x, 1.0, 0.5), (x.t(), 1, 0.5), (x[:, :5], 1, 0.5), (x.double(), 1, 0.5),
                 (torch.nn.Parameter(x), 1, 0.5), (None, 1, 0.5), (x, 1, 2), (x, 1, 2**40)):  # fmt: skip
        assert counted(*args) == "general", args
        assert counted(*args) == "plan", args
    assert counted(x, 1, 0.25) == counted(x.view(4, 6), 1, 3.5) == counted(x, [1, 2], 0.5) == "plan"
    assert counted(x.view(-1)[1:13].view(3, 4), 1, 0.5) == "general", "another shape and alignment"
    assert counted(x, 1, 3) == "plan", "of at most 32 bits, as 2"
    assert counted(x, 1, 0.5, rung="k01") == "general"
    with torch.no_grad():
        assert counted(x, 1, 0.5) == "general"
    counted.call.forget()
    assert counted(x, 1, 0.5) == "general"


def test_what_has_no_key():
    counted, x = Counted("tf"), torch.zeros(4, 6)

    class Own(torch.Tensor):
        pass

    for args in ((x.as_subclass(Own), 1), (x.to_sparse(), 1), (x._neg_view(), 1), (x.to("meta"), 1), ("text", 1),
                 (x, object()), (x, 2**70), (x, "long" * 1000), (x, (object(),))):  # fmt: skip
        for _ in range(2):
            assert counted(*args) == "general", args
    assert counted.calls == 18
    with pytest.raises(TypeError, match="expected 2 arguments and the rung"):
        counted(x)


def test_modes_and_transforms():
    counted, x = Counted("t"), torch.zeros(4)
    counted(x)
    assert counted(x) == "plan"
    with torch.inference_mode():
        assert counted(x) == "general", "gradients are not recorded"
        assert counted(x) == "plan"
    for mode in (torch.autocast("cpu", dtype=torch.bfloat16), torch.autograd.forward_ad.dual_level(),
                 FlopCounterMode(display=False)):  # fmt: skip
        with mode:
            assert counted(x) == "general", mode
    seen = []
    torch.func.vmap(lambda row: seen.append(counted(row)) or row)(x[None])
    assert seen == ["general"]
    assert counted(x) == "plan"


def test_no_plan_is_kept_where_python_keeps_none():
    counted, x = Counted("t"), torch.zeros(4)
    counted.planned = False
    assert [counted(x), counted(x)] == ["general", "general"]
