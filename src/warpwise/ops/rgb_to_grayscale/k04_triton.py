"""One block of pixels per program, any strides; the channel and pixel strides determine how well loads coalesce."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def rgb_to_grayscale(
    image_ptr, out_ptr, pixels, blocks_per_image, image_stride, channel_stride, pixel_stride, BLOCK: tl.constexpr
):
    # image: (n, 3, pixels), strides in elements; out: (n, pixels), contiguous. Grid: n * ceil(pixels / BLOCK).
    image = (tl.program_id(0) // blocks_per_image).to(tl.int64)
    pixel = (tl.program_id(0) % blocks_per_image).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = pixel < pixels
    at = image_ptr + image * image_stride + pixel * pixel_stride
    red = tl.load(at, mask=inside)
    green = tl.load(at + channel_stride, mask=inside)
    blue = tl.load(at + 2 * channel_stride, mask=inside)
    if red.dtype == tl.uint8:
        gray = (2989 * red.to(tl.int32) + 5870 * green.to(tl.int32) + 1140 * blue.to(tl.int32) + 5000) // 10000
    else:
        gray = 0.2989 * red.to(tl.float32) + 0.587 * green.to(tl.float32) + 0.114 * blue.to(tl.float32)
    tl.store(out_ptr + image * pixels + pixel, gray.to(red.dtype), mask=inside)
