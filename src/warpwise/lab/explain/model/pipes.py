"""The pipe of an SM that executes an opcode, and the rate of each pipe in warp instructions per clock.

Sources: the pipelines as Nsight Compute's Kernel Profiling Guide describes them, NVIDIA's statements on the FMA pipes
of GA10x and GH100 (a heavy one for integers, a light one for float32 alone, both together for half precision), and the
CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions", divided by 32 lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from warpwise.device import Profile

_OPCODES = {
    "fma": "FADD FMUL FFMA FFMA32I FADD32I FMUL32I HADD2 HMUL2 HFMA2 HADD2_32I HFMA2_32I HMUL2_32I FSWZADD",
    "fmaheavy": "IMAD IMUL IDP IMAD32I IDP4A XMAD VIADD",
    "alu": "IADD3 IADD IADD32I ISCADD VIMNMX VIADDMNMX IMNMX LEA LOP3 LOP LOP32I SHF SHL SHR SGXT BMSK ISETP ICMP SEL "
    "FSEL FSET FSETP FMNMX FCMP HSET2 HSETP2 HMNMX2 PLOP3 PSETP PSET P2R R2P MOV MOV32I PRMT VOTE VABSDIFF VABSDIFF4 "
    "IABS CS2R F2FP I2FP I2IP",
    "fp64": "DADD DMUL DFMA DSETP DMNMX DSET",
    "xu": "MUFU FCHK I2F F2I F2F I2I FRND POPC FLO BREV",
    "lsu": "LDG LD LDS LDL LDSM STG ST STS STL ATOM ATOMG ATOMS RED REDG SHFL S2R LDGSTS LDGDEPBAR MEMBAR ERRBAR CCTL "
    "CCTLL CCTLT SYNCS STSM UBLKCP ARRIVES MATCH LDGMC REDS",
    "tex": "TEX TLD TLD4 TMML TXD TXQ SULD SUST SUATOM SURED",
    "uniform": "UIADD3 UIMAD ULEA ULOP3 ULOP USHF USEL UISETP UPLOP3 UPSETP UPRMT USGXT UBMSK UFLO UPOPC UBREV UP2UR "
    "UR2UP UCLEA VOTEU R2UR REDUX UF2FP UI2F UF2I",
    "tensor": "HMMA IMMA DMMA BMMA QGMMA HGMMA IGMMA BGMMA MOVM",
    "adu": "BAR LDC LDCU S2UR B2R BRX BRXU JMX JMXU DEPBAR B2B LEPC",
    "cbu": "EXIT BSSY BSYNC BREAK WARPSYNC CALL RET YIELD BMOV KILL RTT BPT NANOSLEEP RPCMOV WARPGROUP",
}
PIPE_OF: Mapping[str, str] = MappingProxyType(
    {opcode: pipe for pipe, names in _OPCODES.items() for opcode in names.split()}
)
"""Opcode to pipe, on sm_90, as ncu's counters by pipe add up on an H200 (benchmarks/results/h200/ncu).

"fma" instructions use either half of the FMA pipe, "fmaheavy" only the half with integer units. BRA, ULDC, UMOV and NOP
use no pipe.
"""

PIPES = ("fma", "alu", "fp64", "xu", "lsu", "tex", "uniform", "tensor", "adu", "cbu")
"""Pipes that instructions are counted in; ``fmaheavy`` counts in ``fma`` too."""

_WIDE = {
    "issue": 4.0,
    "fma": 4.0,
    "fmaheavy": 2.0,
    "alu": 2.0,
    "xu": 0.5,
    "lsu": 1.0,
    "uniform": 2.0,
    "adu": 1.0,
    "cbu": 1.0,
    "tex": 1.0,
}
_NARROW = {**_WIDE, "fma": 2.0, "fmaheavy": 2.0}

_RATES: dict[tuple[int, int], dict[str, float]] = {
    (7, 0): {**_NARROW, "fp64": 1.0},
    (7, 2): {**_NARROW, "fp64": 1.0},
    (7, 5): {**_NARROW, "lsu": 0.5, "fp64": 2 / 32},
    (8, 0): {**_NARROW, "fp64": 1.0},
    (8, 7): {**_WIDE, "fp64": 2 / 32},
    (9, 0): {**_WIDE, "fp64": 2.0},
    (10, 0): {**_WIDE, "fp64": 2.0},
}
_GEFORCE = {**_WIDE, "lsu": 0.5, "fp64": 2 / 32}  # GA10x and later of the same kind: 16 load/store lanes per SM


def pipe_of(opcode: str, modifiers: Iterable[str] = ()) -> str | None:
    """The pipe of an opcode ("HMMA": "tensor"), or None if it uses no pipe or is unknown.

    HFMA2.MMA, which the compiler often uses to load constants, runs on the tensor pipe.
    """
    return "tensor" if "MMA" in modifiers else PIPE_OF.get(opcode)


def rates(profile: Profile) -> dict[str, float]:
    """Warp instructions per clock and SM by pipe; "issue" is the total of the four schedulers."""
    found = _RATES.get(profile.compute_capability)
    if found is None:
        found = _RATES[(10, 0)] if profile.threads_per_sm == 2048 else _GEFORCE
    if profile.compute_capability >= (12, 0):
        found = {**found, "alu": 4.0}  # integers on all 128 lanes (RTX Blackwell white paper)
    return dict(found)


def multiply_adds(modifiers: Iterable[str]) -> int:
    """Multiply-adds of one matrix instruction of a warp, by its shape: 16816 is 16 x 8 x 16. 0 if no modifier names
    one, as in MOVM.16.MT88, which transposes a matrix.

    64x64x16 is the shape of a warpgroup: each of its four warps executes the instruction and computes a quarter.
    """
    for modifier in modifiers:
        digits = modifier.split("x")
        if modifier.isdigit():
            m, rest = (16, modifier[2:]) if modifier.startswith("16") else (int(modifier[0]), modifier[1:])
            if len(rest) > 1:
                return m * int(rest[0]) * int(rest[1:])
        elif len(digits) == 3 and all(part.isdigit() for part in digits):
            return int(digits[0]) * int(digits[1]) * int(digits[2]) // 4
    return 0
