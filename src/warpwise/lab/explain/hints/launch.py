"""Hints on the launch: occupancy, waves, the distribution of blocks, small grids, launch overhead."""

from __future__ import annotations

import math
from collections.abc import Iterator

from warpwise.lab.explain.hints.hint import WORTH, Hint, LaunchAnalysis, percent
from warpwise.lab.explain.model.time_model import imbalance
from warpwise.lab.explain.words import listed

_PER_SM = frozenset(
    {
        "L1 tag stage", "L1 data stage", "LSU issue", "FMA", "ALU", "FP64", "tensor", "SFU (XU)", "uniform", "ADU",
        "CBU",
        "issue slots",
    }
)  # fmt: skip
_EVEN_UP_TO, _EVEN_FROM = 0.5, 0.9  # of the places of all SMs, the share of blocks that are distributed evenly
_CURES = {
    "registers": "Use fewer registers: a smaller tile per thread, or __launch_bounds__ with more blocks.",
    "shared memory": "Use a smaller tile, or fewer bytes per element.",
    "blocks": "Use larger blocks: the number of blocks per SM is limited.",
    "warps": "Choose a number of warps per block that divides the maximum of the SM.",
    "barriers": "Use fewer named barriers per block.",
}


def occupancy(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Few resident warps, where more would hide latency."""
    fits, counts = launch.occupancy, launch.counts
    most = fits.profile.warps_per_sm // fits.warps_per_block
    of_sm = math.ceil(counts.blocks / launch.hardware.sm_count)
    if not fits.blocks or fits.fraction > 0.75 or of_sm <= fits.blocks:
        return
    gain = launch.speedup({"latency": math.ceil(of_sm / most) / math.ceil(of_sm / fits.blocks)})
    causes = [name for name in fits.binding if name != "warps" or fits.blocks == fits.limits["warps"]]
    needs = {
        "registers": f"{fits.registers} registers per thread ({fits.registers_allocated} allocated)",
        "shared memory": f"{fits.shared_allocated:,} bytes of shared memory per block",
        "blocks": f"{fits.threads} threads per block",
        "warps": f"{fits.threads} threads per block",
        "barriers": "barriers",
    }
    text = (
        f"{fits.warps} of {fits.profile.warps_per_sm} warps fit on an SM ({percent(fits.fraction)}): "
        f"{listed(dict.fromkeys(needs[name] for name in causes))} allow {fits.blocks} blocks."
    )
    yield Hint(
        "OPT" if gain >= WORTH else "INF",
        "low occupancy",
        text,
        gain,
        "sm__maximum_warps_per_active_cycle_pct",
        100 * fits.fraction,
        idea=_CURES[causes[0]] if causes else "",
    )


def waves(launch: LaunchAnalysis) -> Iterator[Hint]:
    """A partial last wave, in which SMs are idle."""
    fits, blocks, sms = launch.occupancy, launch.counts.blocks, launch.hardware.sm_count
    if not fits.blocks or blocks <= sms:
        return
    full = fits.waves(blocks, sms)
    uneven, rounds = imbalance(blocks, sms), math.ceil(math.ceil(blocks / sms) / fits.blocks)
    even = dict.fromkeys(_PER_SM, 1 / uneven) | {"latency": min(1.0, max(1.0, full) / rounds)}
    gain = launch.speedup(even)
    if gain < WORTH:
        return
    tail = fits.tail(blocks, sms)
    text = (
        f"{blocks:,} blocks are {full:.2f} waves of {fits.blocks * sms:,} ({fits.blocks} on each of {sms} SMs); "
        f"the last wave is {percent(tail)} full."
    )
    yield Hint(
        "OPT",
        "partial wave",
        text,
        gain,
        "launch__waves_per_multiprocessor",
        full,
        idea="Choose a grid of whole waves, or a persistent kernel whose blocks loop over the work.",
    )


def uneven(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Blocks that leave places free on the SMs, but need more than half of them.

    On an H200 the GPU then gives some SMs more blocks than others: sums of 462 long rows take 4.0 µs in blocks of which
    an SM holds eight, 5.1 in blocks of which it holds six (NOTES.md of reduce_sum).
    """
    fits, blocks, sms = launch.occupancy, launch.counts.blocks, launch.hardware.sm_count
    places, each = fits.blocks * sms, math.ceil(blocks / sms)
    if _mostly_launch(launch) or blocks <= sms or not places * _EVEN_UP_TO < blocks < places * _EVEN_FROM:
        return
    text = (
        f"{blocks:,} blocks for {places:,} places ({fits.blocks} on each of {sms} SMs): {each} blocks per SM would be "
        f"even, but the GPU may give some SMs up to {fits.blocks}."
    )
    yield Hint(
        "INF",
        "uneven blocks",
        text,
        None,
        "launch__waves_per_multiprocessor",
        fits.waves(blocks, sms),
        idea=f"Choose a block size of which an SM holds {each} blocks, or at least {2 * each}.",
    )


def small_grid(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Fewer blocks than SMs."""
    blocks, sms = launch.counts.blocks, launch.hardware.sm_count
    if not 0 < blocks < sms:
        return
    share = blocks / sms
    # More blocks shorten only the loops over the data: each block then has fewer iterations.
    accesses = launch.counts.column("executed")[launch.table.accesses("global")]
    iterations = float(accesses.max(initial=0)) / max(1, launch.counts.warps)
    gain = launch.speedup(dict.fromkeys(_PER_SM, share) | {"latency": max(share, 1 / max(1.0, iterations))})
    text = f"{blocks} {'block leaves' if blocks == 1 else 'blocks leave'} {sms - blocks} of {sms} SMs idle."
    yield Hint(
        "OPT" if gain >= WORTH else "INF",
        "grid too small",
        text,
        gain,
        "launch__grid_size",
        float(blocks),
        idea="Split the work among more blocks, and combine their results in a second pass or by atomics.",
    )


def overhead(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Launches whose time is mostly that of an empty kernel."""
    time, empty = launch.prediction.time, launch.hardware.launch_s
    if not _mostly_launch(launch):
        return
    text = f"launching an empty kernel takes about {empty * 1e6:.1f} µs of the {time * 1e6:.1f} µs predicted."
    yield Hint(
        "INF",
        "launch overhead",
        text,
        None,
        "gpu__time_duration.sum",
        time * 1e9,
        idea="Fuse neighbouring operations into one kernel, or batch small problems.",
    )


def _mostly_launch(launch: LaunchAnalysis) -> bool:
    return launch.prediction.time <= 2.5 * launch.hardware.launch_s


def roof(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Launches near the roofline."""
    if _mostly_launch(launch):
        return
    prediction = launch.prediction
    if prediction.floor_bytes and prediction.time <= 1.2 * prediction.floor and prediction.busiest == "DRAM":
        share, empty = prediction.floor / prediction.time, launch.hardware.launch_s
        text = (
            f"each byte is transferred from or to DRAM once: {prediction.floor_bytes / 1e6:,.1f} MB need "
            f"{(prediction.floor - empty) * 1e6:,.1f} µs and the launch {empty * 1e6:,.1f} µs, together "
            f"{percent(share)} of the {prediction.time * 1e6:,.1f} µs predicted. "
            "Only a kernel that moves fewer bytes can be faster."
        )
        yield Hint(
            "INF",
            "near the roofline",
            text,
            None,
            "dram__bytes.sum",
            float(prediction.floor_bytes),
            idea="Fuse with neighbouring operations, so that intermediate results do not go through DRAM.",
        )
        return
    busiest = prediction.busiest if prediction.demands else ""
    if busiest in ("FMA", "tensor", "FP64", "SFU (XU)") and prediction.utilisation(busiest) >= 0.8:
        text = f"the {busiest} pipe is busy {percent(prediction.utilisation(busiest))} of the predicted time."
        ideas = {"FMA": "Tensor cores multiply several times faster, for bf16, fp16 and TF32."}
        yield Hint(
            "INF",
            "near the roofline",
            text,
            None,
            "sm__inst_executed_pipe_fma.sum",
            prediction.demands[busiest].amount,
            idea=ideas.get(busiest, ""),
        )
