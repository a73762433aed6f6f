"""Matrix transpose: reads or writes are uncoalesced until a tile is transposed in shared memory."""

from warpwise.ops.transpose.op import transpose

__all__ = ["transpose"]
