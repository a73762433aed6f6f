"""The metrics to request from ncu, in groups, by ncu's names.

ncu reports ``n/a`` for a metric that the device or its version lacks, and the result omits it, so the lists hold the
names of several generations.
"""

from __future__ import annotations


def _sums(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}.sum" for name in names)


GLOBAL = _sums(
    *(
        f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}"
        for what in ("requests", "sectors")
        for op in ("ld", "st", "red", "atom")
    ),
    *(f"l1tex__t_{what}_pipe_lsu_mem_local_op_{op}" for what in ("requests", "sectors") for op in ("ld", "st")),
    *(
        f"l1tex__t_sectors_pipe_lsu_mem_{space}_op_{op}_lookup_{found}"
        for space in ("global", "local")
        for op in ("ld", "st")
        for found in ("hit", "miss")
    ),
    "l1tex__t_requests_pipe_lsu_mem_global_op_ldgsts_cache_access",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access",
    "l1tex__t_requests",
    "l1tex__t_sectors",
    "l1tex__t_sectors_pipe_lsu_lookup_hit",
    "l1tex__t_sectors_pipe_lsu_lookup_miss",
    "l1tex__t_set_accesses",
    "l1tex__t_set_conflicts",
    "l1tex__t_output_wavefronts",
    "l1tex__t_output_wavefronts_pipe_lsu",
    "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld",
    "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_st",
    "l1tex__m_xbar2l1tex_read_sectors",
    "l1tex__m_l1tex2xbar_write_sectors",
)
"""Global and local memory in L1: requests, sectors, hits, the tag stage."""

SHARED = _sums(
    *(
        f"l1tex__data_{what}_mem_shared{op}"
        for what in ("pipe_lsu_wavefronts", "bank_conflicts_pipe_lsu")
        for op in ("", "_op_ld", "_op_st", "_op_atom", "_op_ldgsts")
    ),
    *(f"smsp__inst_executed_op_shared_{op}" for op in ("ld", "st", "atom", "atom_dot_alu", "atom_dot_cas")),
    "smsp__inst_executed_op_ldsm",
    "smsp__inst_executed_op_ldgsts",
    "l1tex__lsuin_requests",
    "l1tex__data_pipe_lsu_wavefronts",
    "l1tex__data_bank_reads",
    "l1tex__data_bank_writes",
    "l1tex__data_bank_conflicts_pipe_lsu",
)
"""Shared memory and the data stage: instructions, wavefronts, bank conflicts."""

INSTRUCTIONS = (
    *_sums(
        "smsp__inst_executed", "smsp__thread_inst_executed", "smsp__thread_inst_executed_pred_on", "smsp__inst_issued",
        *(f"smsp__inst_executed_op_{op}" for op in (
            "branch", "global_ld", "global_st", "global_red", "local_ld", "local_st", "generic_ld", "generic_st",
            "generic_atom_dot_alu", "generic_atom_dot_cas",
        )),
        *(f"sm__inst_executed_pipe_{pipe}" for pipe in (
            "alu", "adu", "cbu", "fma", "fmaheavy", "fmalite", "fma_type_fp16", "fp16", "fp64", "ipa", "lsu", "tex",
            "tensor", "tensor_op_hmma", "tensor_op_gmma", "tensor_op_imma", "tensor_op_dmma", "uniform", "xu",
        )),
    ),
    "smsp__thread_inst_executed_per_inst_executed.ratio",
    "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
)  # fmt: skip
"""Warp and thread instructions, by pipe and by kind."""

CACHES = (
    *_sums(
        *(f"lts__t_sectors_op_{op}" for op in ("read", "write", "atom", "red")),
        *(f"lts__t_requests_srcunit_tex{op}" for op in ("", "_op_read", "_op_write", "_op_red", "_op_atom")),
        *(
            f"lts__t_sectors_srcunit_tex{op}"
            for op in ("", "_op_read", "_op_write", "_op_red", "_op_atom", "_lookup_hit", "_lookup_miss")
        ),
        "lts__t_sectors",
        "lts__t_sectors_lookup_hit",
        "lts__t_sectors_lookup_miss",
        "dram__bytes_read",
        "dram__bytes_write",
        "dram__sectors_read",
        "dram__sectors_write",
        "dram__bytes_op_read",
        "dram__bytes_op_write",
    ),
)
"""The L2 cache and DRAM."""

TIME = (
    "gpu__time_duration.sum", "sm__cycles_active.avg", "sm__cycles_active.max", "sm__cycles_elapsed.avg",
    "sm__cycles_elapsed.max", "gpc__cycles_elapsed.max", "smsp__cycles_active.avg",
    "sm__cycles_elapsed.avg.per_second", "gpc__cycles_elapsed.avg.per_second", "lts__cycles_elapsed.avg.per_second",
    "dram__cycles_elapsed.avg.per_second",
)  # fmt: skip
"""Duration and clocks."""

LAUNCH = (
    "launch__registers_per_thread", "launch__registers_per_thread_allocated", "launch__grid_size", "launch__block_size",
    "launch__thread_count", "launch__shared_mem_per_block", "launch__shared_mem_per_block_static",
    "launch__shared_mem_per_block_dynamic", "launch__shared_mem_per_block_driver",
    "launch__shared_mem_per_block_allocated",
    "launch__shared_mem_config_size", "launch__occupancy_limit_blocks", "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem", "launch__occupancy_limit_warps", "launch__occupancy_limit_barriers",
    "launch__waves_per_multiprocessor", "launch__stack_size",
    "sm__maximum_warps_per_active_cycle_pct", "sm__maximum_warps_avg_per_active_cycle",
    "sm__warps_active.avg.pct_of_peak_sustained_active", "sm__warps_active.avg.per_cycle_active",
)  # fmt: skip
"""Resources and occupancy."""

_ELAPSED = "avg.pct_of_peak_sustained_elapsed"

THROUGHPUT = (
    *(f"{unit}__throughput.{_ELAPSED}" for unit in ("sm", "l1tex", "lts", "dram")),
    f"gpu__compute_memory_throughput.{_ELAPSED}", f"gpu__compute_memory_access_throughput.{_ELAPSED}",
    f"gpu__compute_memory_request_throughput.{_ELAPSED}", f"gpu__dram_throughput.{_ELAPSED}",
    f"breakdown:sm__throughput.{_ELAPSED}", f"breakdown:gpu__compute_memory_throughput.{_ELAPSED}",
    f"breakdown:gpu__compute_memory_access_throughput.{_ELAPSED}",
    f"breakdown:gpu__compute_memory_request_throughput.{_ELAPSED}",
    f"l1tex__data_pipe_lsu_wavefronts.{_ELAPSED}", f"l1tex__lsuin_requests.{_ELAPSED}", f"l1tex__t_sectors.{_ELAPSED}",
    f"l1tex__t_requests.{_ELAPSED}", f"l1tex__data_bank_reads.{_ELAPSED}", f"l1tex__data_bank_writes.{_ELAPSED}",
    f"l1tex__m_xbar2l1tex_read_sectors.{_ELAPSED}", f"l1tex__m_l1tex2xbar_req_cycles_active.{_ELAPSED}",
    f"lts__t_sectors.{_ELAPSED}", f"lts__d_sectors.{_ELAPSED}", f"lts__t_tag_requests.{_ELAPSED}",
    f"lts__d_atomic_input_cycles_active.{_ELAPSED}", f"lts__lts2xbar_cycles_active.{_ELAPSED}",
    f"dram__cycles_active.{_ELAPSED}", f"sm__inst_issued.{_ELAPSED}", f"sm__issue_active.{_ELAPSED}",
    f"sm__mio_inst_issued.{_ELAPSED}", f"sm__mio_pq_read_cycles_active.{_ELAPSED}",
    f"sm__mio2rf_writeback_active.{_ELAPSED}",
    *(f"sm__inst_executed_pipe_{pipe}.{_ELAPSED}" for pipe in (
        "alu", "adu", "cbu_pred_on_any", "fma", "fmaheavy", "fp16", "fp64", "lsu", "uniform", "xu", "tensor_op_hmma",
    )),
    *(f"sm__pipe_{pipe}_cycles_active.{_ELAPSED}"
      for pipe in ("alu", "fma", "fmaheavy", "shared", "tensor_op_hmma", "fp64", "xu")),
)  # fmt: skip
"""The utilisation of each unit in percent of its peak: ncu's Speed Of Light with its breakdowns."""

SOURCE = _sums(
    *(f"smsp__sass_thread_inst_executed_op_{op}_pred_on" for op in (
        "fadd", "fmul", "ffma", "hadd", "hmul", "hfma", "dadd", "dmul", "dfma", "integer", "conversion", "control",
        "memory", "bit", "inter_thread_communication", "fp32", "fp16", "fp64", "uniform",
    )),
    *(f"smsp__sass_inst_executed_op_{op}" for op in (
        "global", "global_ld", "global_st", "global_red", "global_atom", "local", "local_ld", "local_st", "shared",
        "shared_ld", "shared_st", "shared_atom", "ldsm", "ldgsts_cache_access", "ldgsts_cache_bypass", "branch",
    )),
    *(f"smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared{op}"
      for op in ("_op_ldsm", "_op_ldgsts", "_op_ldgsts_cache_access", "_op_ldgsts_cache_bypass")),
    *(f"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared{op}"
      for op in ("_op_ld", "_op_st", "_op_atom", "_op_ldsm", "_op_ldgsts", "_op_ldgsts_cache_access",
                 "_op_ldgsts_cache_bypass")),
    *(f"smsp__sass_l1tex_t_{what}_pipe_lsu_mem_global_op_ldgsts_cache_{way}"
      for what in ("requests", "sectors") for way in ("access", "bypass")),
    *(f"sm__sass_data_bytes_mem_{space}_op_{op}"
      for space, ops in (
          ("global", ("ld", "st", "red", "atom")), ("shared", ("ld", "st", "atom")), ("local", ("ld", "st")),
      )
      for op in ops),
)  # fmt: skip
"""Metrics collected by instrumenting the machine code: exact, and slow on long kernels."""

STORES = _sums(
    "l1tex__t_requests_pipe_lsu_mem_global_op_st",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st_lookup_hit",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st_lookup_miss",
)
"""Global stores, collected in one pass. Hits and misses of different passes do not add up to the sectors: the state of
L1 differs between passes when a partial sector is stored, and the sum is wrong by some percent.
"""

DEFAULT = (*GLOBAL, *SHARED, *INSTRUCTIONS, *CACHES, *TIME, *LAUNCH, *THROUGHPUT)
"""The metrics that ``explain`` predicts, and every unit's throughput."""
EVERYTHING = (*DEFAULT, *SOURCE)
COUNTERS = (*GLOBAL, *SHARED, *INSTRUCTIONS, *CACHES, *LAUNCH, *SOURCE)
"""The metrics that count events, independent of time."""
