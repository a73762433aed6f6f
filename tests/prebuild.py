"""Build the C++ libraries and the precompiled device headers before the tests: ``python -m tests.prebuild``.

A test builds whatever is missing, but only one process can, and the others wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from warpwise import fastcall, native
from warpwise.cuda.emulator import runtime as emulator
from warpwise.cuda.emulator import toolchain
from warpwise.cuda.inline import build as inline
from warpwise.machine import runtime as machine


def main() -> None:
    """Build everything in parallel. Raises what a build raises."""
    compiler = toolchain.command()
    headers = [toolchain.flags(compiler, checked) for checked in (True, False)]
    builds: list[Callable[[], object]] = [emulator.library, machine.library, fastcall.build, inline.support_library]
    if not native.is_clang(compiler):
        builds += [lambda flags=flags: toolchain.precompiled(compiler, flags) for flags in headers]
    with ThreadPoolExecutor(len(builds)) as pool:
        for done in [pool.submit(build) for build in builds]:
            done.result()


if __name__ == "__main__":
    main()
