"""Register bank conflicts, counted by hand: even and odd registers are two banks, each of one word a clock."""

from __future__ import annotations

import pytest

from warpwise.lab.register_banks import MIN_FFMAS, busiest_loop, conflicts

LOOPS = {
    "both banks": (["FFMA R0, R1, R2, R3"], 1),  # R1 and R3
    "one bank": (["FFMA R1, R2, R4, R6"], 2),
    "one register twice": (["FFMA R0, R2, R2, R1"], 0),
    "kept by reuse": (["FFMA R0, R2.reuse, R1, R3", "FFMA R5, R2, R4, R7"], 1),  # the first waits for R1 and R3
    "kept at another position": (["FFMA R0, R2.reuse, R1, R4", "FFMA R5, R6, R2, R7"], 1 + 1),
    "forgotten by another instruction": (["FFMA R0, R2.reuse, R1, R5", "LDS R9, [R8]", "FFMA R5, R2, R4, R7"], 1 + 1),
}


@pytest.mark.parametrize("name", LOOPS)
def test_conflicts(name: str) -> None:
    loop, clocks = LOOPS[name]
    assert conflicts(loop) == clocks


def test_the_busiest_loop_has_the_largest_share_of_ffmas() -> None:
    def listing(label: str, ffmas: int, others: int) -> list[str]:
        body = [f"/*{0:04x}*/ FFMA R0, R1, R2, R0 ;"] * ffmas + [f"/*{0:04x}*/ @P0 MOV R3, R4 ;"] * others
        return [f".{label}:", *body, f"/*{0:04x}*/ @P0 BRA `(.{label}) ;"]

    few, dense, sparse = listing("L_x_1", MIN_FFMAS - 1, 0), listing("L_x_2", 120, 10), listing("L_x_3", 200, 90)
    loop = busiest_loop("\n".join([*few, *dense, *sparse]))
    assert len(loop) == 131 and loop[-2] == "MOV R3, R4"
    assert busiest_loop("\n".join(few)) == []
