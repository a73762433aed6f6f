"""A block of an image's pixels per program in Triton, which chooses the width of loads and stores; any image size.

Triton compiles a kernel for each divisibility by 16 of its integer arguments. If `pixels` is a multiple of 16, as for
28 x 28, so is the offset of every image, whatever its index, and accesses have up to 16 bytes.
"""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def gather_images(
    images_ptr, indices_ptr, labels_ptr, out_ptr, out_labels_ptr, pixels, scale, shift, BLOCK: tl.constexpr
):
    """images: (n, pixels), indices: (batch), out: (batch, pixels); labels: (n) and out_labels: (batch), or None.

    Grid: (batch, cdiv(pixels, BLOCK)) programs.
    """
    row = tl.program_id(0).to(tl.int64)
    image = tl.load(indices_ptr + row)
    offsets = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < pixels
    values = tl.load(images_ptr + image * pixels + offsets, mask=inside)
    tl.store(out_ptr + row * pixels + offsets, values.to(tl.float32) * scale + shift, mask=inside)
    if labels_ptr is not None:
        first = tl.program_id(1) == 0
        tl.store(out_labels_ptr + row, tl.load(labels_ptr + image, mask=first), mask=first)
