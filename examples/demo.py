"""A demo that climbs two ladders, processes a photograph, and finds the bugs in three broken kernels."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from pathlib import Path

import torch
from PIL import Image
from rich.console import Console
from sklearn.datasets import load_sample_image

from warpwise import ops
from warpwise.cli import cli

HERE = Path(__file__).parent
OUT = Path("demo")
console = Console(highlight=False)
# The command of this environment, such as .venv/bin/warpwise.
WARPWISE = "warpwise" if shutil.which("warpwise") else os.path.relpath(Path(sys.executable).with_name("warpwise"))


def heading(text: str) -> None:
    console.print(f"\n[bold]{text}[/]")


def run(command: str) -> int:
    """Print ``warpwise COMMAND``, run it in this process, and return its exit code."""
    console.print(f"[dim]$[/] [cyan]warpwise {command.replace(str(HERE), HERE.name)}[/]", soft_wrap=True)
    return cli(shlex.split(command), standalone_mode=False)


def photograph() -> None:
    """Convert a photograph to grayscale and blur it, with the same kernel sources on a GPU and on a CPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    where = torch.cuda.get_device_name() if device == "cuda" else "the CPU, emulated and checked"
    pixels = torch.from_numpy(load_sample_image("flower.jpg").copy()).permute(2, 0, 1).contiguous().to(device)
    OUT.mkdir(exist_ok=True)
    steps = (
        ("gray.png", "rgb_to_grayscale", lambda: ops.rgb_to_grayscale(pixels, rung=GRAY)),
        ("blurred.png", "gaussian_blur", lambda: ops.gaussian_blur(pixels, [9, 9], [3.0, 3.0], rung=BLUR)),
    )
    Image.fromarray(pixels.permute(1, 2, 0).cpu().numpy()).save(OUT / "photograph.png")
    for file, name, compute in steps:
        start = time.perf_counter()
        image = compute().cpu()
        seconds = time.perf_counter() - start
        Image.fromarray(image.permute(1, 2, 0).squeeze(-1).numpy()).save(OUT / file)
        console.print(
            f"  {name} of {tuple(pixels.shape)} on {where}, {seconds:.1f} s with compilation → {OUT / file}",
            soft_wrap=True,
        )


GRAY, BLUR = "k01", "k01"
BROKEN = {
    "a missing bounds guard": "broken_guard.cu --kernel add --grid 4 --block 256"
    " --arg a=f32[1000] --arg b=f32[1000] --arg c=out:f32[1000] --arg n=1000",
    "a missing __syncthreads()": "broken_barrier.cu --kernel block_sum --grid 2 --block 256"
    " --arg x=f32[512] --arg sums=out:f32[2]",
    "a float where the kernel takes an int": "float_for_int.cu --kernel scale --grid 4 --block 256"
    " --arg x=f32[1000] --arg alpha=2 --arg n=1000.0",
}


def main() -> int:
    heading("1. Two ladders: every rung verified against float64")
    failed = run("climb matmul softmax")
    heading("2. A photograph processed by our kernels")
    photograph()
    heading("3. Three broken kernels, and their findings")
    missed = []
    for what, command in BROKEN.items():
        console.print(f"\n[bold]{what}[/]")
        if run(f"check {HERE}/{command}") != 1:
            missed.append(what)
    heading("What to try next")
    for command, meaning in (
        (f"{WARPWISE} climb transpose --rung k03", "one rung of another ladder"),
        (f"{WARPWISE} check --help", "how to check your own CUDA file"),
        (f"{WARPWISE} doctor", "what works on this machine"),
        ("less src/warpwise/ops/matmul/README.md", "a ladder, rung by rung"),
    ):
        console.print(f"  [cyan]{command:<46}[/] {meaning}", soft_wrap=True)
    console.print(f"  The pictures are in {OUT}/.")
    console.print("  With a GPU, the same commands time every rung against PyTorch.")
    if failed or missed:
        console.print(
            f"[red]the demo failed: {'a rung is wrong' if failed else 'no finding for ' + ', '.join(missed)}[/]"
        )
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
