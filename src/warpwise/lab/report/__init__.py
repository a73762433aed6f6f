"""The report: one HTML page per operation and an index, from recorded ladders, the results store or a new climb.

>>> report.write([report.collect(operation.get("softmax"), sources)], Path("report"))
"""

from __future__ import annotations

from warpwise.lab.report.collected import (
    Collected,
    NothingRecorded,
    RecordedRun,
    collect,
    from_ladder,
    from_store,
    read_file,
    recorded_files,
)
from warpwise.lab.report.draw import MissingLibrary, require_library
from warpwise.lab.report.explained import Explained, LadderAtPoint, explain_ladders
from warpwise.lab.report.files import require_folder, write
from warpwise.lab.report.page import shown_first

__all__ = [
    "Collected", "Explained", "LadderAtPoint", "MissingLibrary", "NothingRecorded", "RecordedRun", "collect",
    "explain_ladders", "from_ladder", "from_store", "read_file", "recorded_files", "require_folder", "require_library",
    "shown_first", "write",
]  # fmt: skip
