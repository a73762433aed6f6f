"""Write the bytecode of the tests and of the modules that they import late: ``python -m tests.bytecode``.

pytest rewrites the assertions of its test files; collecting them writes that bytecode too.
"""

from __future__ import annotations

import importlib
import sys

import pytest

LATE = ("torch._inductor.compile_fx", "torch._dynamo.convert_frame")


def main() -> int:
    """Import and collect everything. Returns pytest's exit status."""
    status = pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider"])
    for name in LATE:
        importlib.import_module(name)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
