"""A batch of uint8 images, gathered by index and normalised to float32."""

from warpwise.ops.gather_images.op import gather_images

__all__ = ["gather_images"]
