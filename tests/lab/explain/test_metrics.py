"""Counters under ncu's names, from counts made by hand."""

from __future__ import annotations

import pytest
from tests.lab.explain.handmade import H200, load, made, row

from warpwise.device import Profile
from warpwise.lab.explain.model.metrics import CounterTable, line_metrics, metrics
from warpwise.lab.explain.model.occupancy import occupancy
from warpwise.lab.explain.model.pipes import PIPE_OF, PIPES, multiply_adds, pipe_of, rates


def counted() -> dict[str, float]:
    counts = made(
        load("LDG.E", 3, 100, sectors=32, ideal=4, tags=32, l1_hits=1200, l2_sectors=2000),
        load("LDG.E.128", 4, 10, sectors=16, ideal=16, tags=4, bytes=512),
        load("STG.E", 5, 20, sectors=4, ideal=4, tags=1),
        load("REDG.E.ADD", 6, 7, sectors=1, ideal=1, tags=1, bytes=4),
        load("LDL", 7, 3, sectors=4, ideal=4, tags=1),
        row("LDS", 8, 50, requests=50, wavefronts=80, ideal_wavefronts=50, conflicts=30, bytes=6400),
        row("STS.128", 8, 5, requests=5, wavefronts=20, ideal_wavefronts=20),
        row("ATOMS.ADD", 9, 6, requests=6, wavefronts=60, conflicts=54),
        row("FFMA", 10, 1000, threads=16000, threads_on=8000),
        row("IMAD.MOV.U32", 10, 200),
        row("ISETP", 11, 300),
        row("EXIT", 12, 40),
        sectors_read=1000,
        sectors_written=50,
        l2_misses=1100,
        barriers=17,
    )
    return metrics(counts, occupancy("sm_90", 256, 40, 1024), H200)


@pytest.mark.parametrize(
    "name, value",
    [
        ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", 110),
        ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", 3360),
        ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", 80),
        ("l1tex__t_requests_pipe_lsu_mem_global_op_red.sum", 7),
        ("l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum", 0),
        ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", 12),
        ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum", 1200),
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", 80),
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", 20),
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum", 60),
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", 160),
        ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", 30),
        ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", 84),
        ("smsp__inst_executed_op_shared_ld.sum", 50),
        ("smsp__inst_executed.sum", 1741),
        ("smsp__thread_inst_executed.sum", 741 * 32 + 16000),
        ("smsp__thread_inst_executed_pred_on.sum", 741 * 32 + 8000),
        ("smsp__thread_inst_executed_per_inst_executed.ratio", (741 * 32 + 16000) / 1741),
        ("sm__inst_executed_pipe_fma.sum", 1200),
        ("sm__inst_executed_pipe_alu.sum", 300),
        ("sm__inst_executed_pipe_lsu.sum", 201),
        ("sm__inst_executed_pipe_cbu.sum", 40),
        ("lts__t_sectors_srcunit_tex_op_red.sum", 7),
        ("lts__t_sectors_srcunit_tex_op_write.sum", 80),
        ("lts__t_sectors_srcunit_tex_lookup_miss.sum", 1100),
        ("dram__bytes_read.sum", 32000),
        ("dram__bytes_write.sum", 1600),
        ("barriers", 17),
        ("launch__grid_size", 1056),
        ("launch__thread_count", 1056 * 256),
        ("launch__registers_per_thread", 40),
        ("launch__occupancy_limit_registers", 6),
        ("launch__occupancy_limit_warps", 8),
        ("launch__occupancy_limit_blocks", 32),
        ("launch__shared_mem_per_block_allocated", 2048),
        ("launch__waves_per_multiprocessor", 1056 / (6 * 132)),
        ("sm__maximum_warps_per_active_cycle_pct", 75),
    ],
)
def test_totals(name: str, value: float) -> None:
    assert counted()[name] == pytest.approx(value)


def test_asynchronous_copies_are_loads_to_l1_and_instructions_of_their_own() -> None:
    counts = made(
        load("LDGSTS.E", 1, 10, sectors=4, ideal=4, tags=2, wavefronts=20, conflicts=10),
        load("LDGSTS.E.BYPASS.128", 1, 5, sectors=16, ideal=16, tags=4, bytes=512),
        load("LDG.E", 2, 3, sectors=4, ideal=4, tags=1),
    )
    found = metrics(counts, occupancy("sm_90", 256, 40), H200)
    loads = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
    assert found[loads.format("requests")] == 18 and found[loads.format("sectors")] == 40 + 80 + 12
    assert found["smsp__inst_executed_op_global_ld.sum"] == 3 and found["smsp__inst_executed_op_ldgsts.sum"] == 15
    assert found["l1tex__t_requests_pipe_lsu_mem_global_op_ldgsts_cache_access.sum"] == 10
    assert found["l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum"] == 40
    assert found["lts__t_sectors_srcunit_tex_op_read.sum"] == 132
    assert found["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum"] == 10


def test_lines_add_up_to_the_totals() -> None:
    counts = made(
        load("LDG.E", 3, 100, sectors=32, ideal=4, tags=32, stall_cycles=300),
        load("LDG.E", 4, 10, sectors=4, ideal=4, tags=1, stall_cycles=100),
        row("FFMA", 4, 1000),
        row("FFMA", 0, 10),
        row("NOP", 9, 0),
    )
    lines, totals = line_metrics(counts), metrics(counts, occupancy("sm_90", 256, 32), H200)
    assert lines["kernel.cu", 3]["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 3200
    assert lines["kernel.cu", 3]["ideal_sectors"] == 400 and lines["kernel.cu", 3]["tags"] == 3200
    assert lines["kernel.cu", 3]["stall_share"] == 0.75
    assert lines["kernel.cu", 4]["smsp__inst_executed.sum"] == 1010
    assert lines["kernel.cu", 9] == {"stall_share": 0.0, "instructions": 1.0}
    for name in (
        "smsp__inst_executed.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "sm__inst_executed_pipe_fma.sum",
    ):
        assert sum(line.get(name, 0) for line in lines.values()) == totals[name]


def test_each_opcode_has_one_pipe_and_each_pipe_a_rate() -> None:
    assert set(PIPE_OF.values()) <= {*PIPES, "fmaheavy"}
    assert pipe_of("FFMA") == "fma" and pipe_of("IMAD") == "fmaheavy" and pipe_of("S2R") == "lsu"
    assert pipe_of("NOP") is None and pipe_of("HFMA2", ("MMA",)) == "tensor"
    for profile in Profile.known():
        known = rates(profile)
        assert {*PIPES, "fmaheavy", "issue"} - {"tensor"} <= set(known), profile.name
        assert known["fma"] * 32 * 2 == profile.flops_per_clock["fp32"], profile.name


@pytest.mark.parametrize(
    "modifiers, products",
    [
        (("16816", "F32"), 2048),
        (("1688", "F32", "TF32"), 1024),
        (("884",), 256),
        (("16832", "S8", "S8"), 4096),
        (("64x128x16", "F32"), 64 * 128 * 16 // 4),
        (("F32",), 0),
        (("16", "MT88"), 0),  # MOVM, which transposes the fragment of a wmma load
    ],
)
def test_multiply_adds_of_a_matrix_instruction(modifiers: tuple[str, ...], products: int) -> None:
    assert multiply_adds(modifiers) == products


def test_masks_by_access() -> None:
    found = metrics(made(row("S2R", 1, 9)), occupancy("sm_90", 256, 12), H200)
    assert found["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"] == 9  # special registers come that way
    assert found["launch__registers_per_thread"] == 16  # the driver gives no fewer
    table = CounterTable(made(row("LDG"), row("STS"), row("LDL"), row("ATOMS"), row("FADD")))
    assert table.accesses("shared").tolist() == [False, True, False, True, False]
    assert table.accesses("global", "ld").tolist() == [True, False, False, False, False]
    assert table.of("LDL", "FADD").tolist() == [False, False, True, False, True]
