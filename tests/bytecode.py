"""Write the bytecode of the tests and of the modules that they import late: ``python -m tests.bytecode``.

pytest rewrites the assertions of its test files; importing them for collection writes that bytecode too.
"""

from __future__ import annotations

import importlib
import sys

import pytest


class NoItems:
    """A plugin: test files are imported, and nothing is made of their functions and parameters."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self) -> list[pytest.Item]:
        return []


LATE = ("torch._inductor.compile_fx", "torch._dynamo.convert_frame")


def main() -> int:
    """Import and collect everything. Returns pytest's exit status, 0 for none."""
    status = pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider"], plugins=[NoItems()])
    for name in LATE:
        importlib.import_module(name)
    return 0 if status == pytest.ExitCode.NO_TESTS_COLLECTED else int(status)


if __name__ == "__main__":
    sys.exit(main())
