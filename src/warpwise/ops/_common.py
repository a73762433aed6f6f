"""What the specifications and launchers of several operations share."""

from warpwise.operation import FLOATS, cdiv

__all__ = ["FLOATS", "cdiv"]
