"""The code that torch.compile generates for an expression, as one file that runs and checks itself."""

from __future__ import annotations

from warpwise.lab.inductor.generate import Generated, InductorError, generate
from warpwise.lab.inductor.standalone import REMEDY, NotWritable, checked, standalone

__all__ = ["REMEDY", "Generated", "InductorError", "NotWritable", "checked", "generate", "standalone"]
