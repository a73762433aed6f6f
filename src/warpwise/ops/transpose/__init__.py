"""Matrix transpose: reads or writes are uncoalesced until shared memory turns the tile."""

from warpwise.ops.transpose.op import transpose

__all__ = ["transpose"]
