"""What the specifications and launchers of several operations share."""

from warpwise.operation import FLOATS as FLOATS
from warpwise.operation import cdiv as cdiv
