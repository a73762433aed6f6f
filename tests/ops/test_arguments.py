"""Wrong arguments: the error names the operation and the argument, what was expected and what came."""

from __future__ import annotations

import contextlib
import re

import pytest
import torch

from warpwise import ops, optim

VECTOR, MATRIX, IMAGE = torch.zeros(4), torch.zeros(4, 4), torch.zeros(3, 8, 8)
IMAGES, FILTERS, TARGET = IMAGE[None], torch.zeros(2, 3, 3, 3), torch.tensor([0, 1, 2, 3])


@pytest.mark.parametrize(
    "call,error,message",
    [
        (lambda: ops.vector_add([1.0], VECTOR), TypeError, "vector_add: expected a to be a torch.Tensor, got list"),
        (lambda: ops.vector_add(VECTOR, VECTOR.long()), TypeError,
         "vector_add: expected b of dtype .* got torch.int64"),
        (lambda: ops.vector_add(VECTOR, VECTOR.half()), TypeError,
         "vector_add: expected b of a's dtype torch.float32, got torch.float16"),
        (lambda: ops.vector_add(VECTOR, torch.zeros(5)), ValueError,
         r"vector_add: expected b of a's shape \(4,\), got \(5,\)"),
        (lambda: ops.vector_add(MATRIX, MATRIX), ValueError,
         r"vector_add: expected a with 1 dimension, got shape \(4, 4\)"),
        (lambda: ops.vector_add(VECTOR, VECTOR.to("meta")), ValueError,
         "vector_add: expected b on a's device cpu, got meta"),
        (lambda: ops.matrix_add(MATRIX, VECTOR), ValueError, "matrix_add: expected b with 2 dimensions"),
        (lambda: ops.square(VECTOR.int()), TypeError, "square: expected input of dtype"),
        (lambda: ops.square(MATRIX.to_sparse()), TypeError, "square: expected input to be dense"),
        (lambda: ops.polynomial(None), TypeError, "polynomial: expected input to be a torch.Tensor, got NoneType"),
        (lambda: ops.polynomial_backward(VECTOR, MATRIX), ValueError,
         "polynomial_backward: expected input of grad_output's shape"),
        (lambda: ops.transpose(VECTOR), ValueError, "transpose: expected input with 2 dimensions"),
        (lambda: ops.rgb_to_grayscale(torch.zeros(4, 8, 8)), ValueError,
         r"expected image of shape \(3, H, W\) or .* got \(4, 8, 8\)"),
        (lambda: ops.rgb_to_grayscale(MATRIX), ValueError, "rgb_to_grayscale: expected image with 3 or 4 dimensions"),
        (lambda: ops.gaussian_blur(IMAGE, 4), ValueError, r"expected kernel_size to be odd and positive, got \(4, 4\)"),
        (lambda: ops.gaussian_blur(IMAGE, 3, 0.0), ValueError, "expected sigma to be positive and finite"),
        (lambda: ops.gaussian_blur(IMAGE, 3, float("nan")), ValueError, "expected sigma to be positive and finite"),
        (lambda: ops.gaussian_blur(IMAGE, 17), ValueError,
         "width 8 of image.* needs 8 more pixels beside the border, got 17"),
        (lambda: ops.gaussian_blur(IMAGE, [3]), TypeError, "expected kernel_size to be two integers"),
        (lambda: ops.gaussian_blur(IMAGE, 3.0), TypeError, "expected kernel_size to be two integers"),
        (lambda: ops.gaussian_blur(IMAGE, 3, "wide"), TypeError, "expected sigma to be two numbers"),
        (lambda: ops.max_pool2d(IMAGE[None], None), TypeError,
         r"max_pool2d: expected kernel_size to be an int or two, \(vertical, horizontal\), got None"),
        (lambda: ops.avg_pool2d_backward(IMAGE[None], (1, 3, 8, 8), 1, "1"), TypeError,
         "avg_pool2d_backward: expected stride to be an int or two, .* got '1'"),
        (lambda: ops.conv2d(IMAGE[None], torch.zeros(2, 3, 3, 3), stride=1.5), TypeError,
         "conv2d: expected stride to be an int or two, .* got 1.5"),
        (lambda: ops.gather_images(IMAGE.byte(), VECTOR.long(), VECTOR), TypeError,
         "gather_images: expected mean to be a real number, got Tensor"),
        (lambda: ops.gather_images(IMAGE.byte(), VECTOR.int()), TypeError,
         r"expected indices of dtype torch.int64, got torch.int32; convert it: indices.to\(torch.int64\)"),
        (lambda: ops.conv_block(IMAGE[None], torch.zeros(2, 3, 3, 3), VECTOR[:2], VECTOR[:2], "small"), TypeError,
         "conv_block: expected eps to be a real number, got str"),
        (lambda: ops.sgd([VECTOR], [VECTOR], [VECTOR], 0.1), ValueError,
         "sgd: expected no buffers without momentum, got 1"),
        (lambda: ops.sgd([VECTOR], [None], None, 0.1), TypeError,
         r"sgd: expected grads\[0\] to be a torch.Tensor, got NoneType"),
        (lambda: ops.sgd(None, [VECTOR], None, 0.1), TypeError,
         "sgd: expected params to be a sequence of tensors, got NoneType"),
        (lambda: ops.sgd([VECTOR], [VECTOR], None, "x"), TypeError, "sgd: expected lr to be a real number, got str"),
        (lambda: ops.sgd([VECTOR], [VECTOR], None, None), TypeError, "expected lr to be a real number, got NoneType"),
        (lambda: ops.sgd([VECTOR], [VECTOR], None, 1, "x"), TypeError, "expected momentum to be a real number"),
        (lambda: optim.SGD([VECTOR], None), TypeError, "SGD: expected lr to be a real number, got NoneType"),
        (lambda: optim.SGD([VECTOR], momentum="x"), TypeError, "SGD: expected momentum to be a real number, got str"),
        *((lambda groups=groups: ops.conv2d(IMAGES, FILTERS, groups=groups), TypeError,
           f"conv2d: expected groups to be an int, got {type(groups).__name__}")
          for groups in (None, "x", (3,), True, 1.5)),
        *((lambda name=name, wrong=wrong: ops.conv2d(IMAGES, FILTERS, **{name: wrong}), TypeError,
           f"conv2d: expected {name} to be two integers, got {re.escape(str(wrong))}")
          for name in ("stride", "padding", "dilation") for wrong in ((None, 1), ("a", 1), (1.5, 1), (True, 1))),
        (lambda: ops.conv2d(IMAGES, FILTERS, stride=True), TypeError, r"stride to be two integers, got \(True, True\)"),
        (lambda: ops.conv2d(IMAGES, FILTERS, stride=2**70), ValueError,
         "conv2d: expected stride of at most 64 bits, got 1180591620717411303424"),
        (lambda: ops.conv2d(IMAGES, FILTERS, tf32="x"), TypeError, "conv2d: expected tf32 to be a bool, got str"),
        *((lambda shape=shape: ops.conv2d(torch.zeros(1, shape[1], 8, 8), torch.zeros(shape)), ValueError,
           f"conv2d: expected weight with at least one element, got shape {re.escape(str(shape))}")
          for shape in ((0, 3, 3, 3), (4, 0, 3, 3), (4, 3, 0, 3))),
        *((lambda pool=pool, wrong=wrong: pool(IMAGES, wrong), TypeError,
           f"{pool.__name__}: expected kernel_size to be two integers, got {re.escape(str(wrong))}")
          for pool in (ops.max_pool2d, ops.avg_pool2d) for wrong in (("a", 2), (2.0, 2), (2.5, 2))),
        (lambda: ops.max_pool2d_backward(IMAGES, IMAGES.int(), None, 1, 1), TypeError,
         "max_pool2d_backward: expected shape_input to be a sequence of integers, got NoneType"),
        (lambda: ops.gaussian_blur(IMAGE, "3"), TypeError,
         r"gaussian_blur: expected kernel_size to be two integers, got \['3'\]"),
        (lambda: ops.gaussian_blur(IMAGE, 3, (None, 1.0)), TypeError, "expected sigma to be two numbers"),
        (lambda: ops.cross_entropy(MATRIX, TARGET, None), TypeError,
         "cross_entropy: expected ignore_index to be an int, got NoneType"),
        (lambda: ops.cross_entropy(MATRIX, TARGET, 2**70), ValueError, "expected ignore_index of at most 64 bits"),
        *((lambda at=at, rung=rung: ops.gather_images(IMAGE.byte(), torch.tensor([0, at]), rung=rung), IndexError,
           rf"gather_images: expected indices in \[0, 3\), got {at}") for at in (-1, 3) for rung in (None, "k02")),
        *((lambda at=at: ops.cross_entropy(MATRIX, torch.tensor([0, -100, at, 1])), IndexError,
           rf"cross_entropy: expected target in \[0, 4\), or -100 for a row to ignore, got {at}") for at in (-1, 4)),
        *((lambda function=function: function(MATRIX, MATRIX, torch.tensor([0, 1, 2, 9])), IndexError,
           rf"{function.__name__}: expected target in \[0, 4\), or -100 for a row to ignore, got 9")
          for function in (ops.linear_cross_entropy, ops.linear_cross_entropy_gradients)),
        *((lambda at=at: ops.max_pool2d_backward(IMAGES, torch.full_like(IMAGES, at, dtype=torch.int32),
                                                 IMAGES.shape, 1, 1), IndexError,
           rf"max_pool2d_backward: expected indices in \[0, 64\), or -1 for no gradient, got {at}") for at in (-2, 64)),
        (lambda: ops.batch_norm(IMAGES, eps=float("nan")), ValueError,
         "batch_norm: expected eps of at least 0, got nan"),
        (lambda: ops.conv_block(IMAGES, torch.zeros(2, 3, 3, 3), VECTOR[:2], VECTOR[:2], float("nan")), ValueError,
         "conv_block: expected eps of at least 0, got nan"),
        *((lambda rung=rung, at=at: ops.batch_norm_backward(
               *(IMAGES if at else IMAGES.double(), None, None, IMAGES, None, None, 1e-5),
               *(VECTOR[:3].bfloat16() if at else VECTOR[:3], VECTOR[:3]), rung=rung), TypeError,
           f"batch_norm_backward: expected {('grad_output', 'mean')[at]} of dtype torch.float32, got torch")
          for rung in (None, "k06_c") for at in (0, 1)),
        (lambda: ops.linear_cross_entropy_backward(torch.tensor(1.0, dtype=torch.float64), None, MATRIX, MATRIX, TARGET,
                                                   None, -100, MATRIX, torch.tensor(4), rung="k03_c"), TypeError,
         "linear_cross_entropy_backward: expected grad_loss of dtype torch.float32, got torch.float64; convert it"),
        (lambda: ops.square(VECTOR, rung="k01@wide"), ValueError,
         "k01_thread_per_element@wide has no configuration 'wide' .*; k01_thread_per_element has none"),
        (lambda: ops.gaussian_blur_backward(IMAGE.byte(), 3), TypeError,
         "gaussian_blur_backward: expected grad_output of dtype"),
    ],
)  # fmt: skip
def test_wrong_arguments(call, error, message):
    for context in (contextlib.nullcontext(), torch.autocast("cpu", dtype=torch.bfloat16)):
        with context, pytest.raises(error, match=message):
            call()


def test_the_gradient_of_what_is_not_differentiable_says_so():
    """As of PyTorch's operators without a derivative, the error comes in the backward."""
    eights, scale = torch.zeros(4, 16).to(torch.float8_e4m3fn), torch.ones(1, requires_grad=True)
    product = ops.scaled_matmul(eights, eights.t(), scale, torch.ones(1))
    with pytest.raises(
        RuntimeError, match="scaled_matmul is not differentiable, but a gradient of scale_a is required"
    ):
        product.sum().backward()
    labels, distances = ops.kmeans_assign(MATRIX.clone().requires_grad_(), MATRIX, True)
    assert not labels.requires_grad
    with pytest.raises(RuntimeError, match="kmeans_assign is not differentiable, but a gradient of X is required"):
        distances.sum().backward()


def test_a_rung_that_cannot_take_the_arguments_says_why():
    planar = torch.zeros(3, 8, 8, dtype=torch.uint8)
    with pytest.raises(ValueError, match="k03_interleaved_packs takes interleaved pixels"):
        ops.rgb_to_grayscale(planar, rung="k03")
    with pytest.raises(ValueError, match="k05_register_window takes up to 31 taps an axis"):
        ops.gaussian_blur(torch.zeros(1, 40, 40), 33, rung="k05")
    with pytest.raises(ValueError, match=r"k04_shared_tile needs [\d,]+ bytes of shared memory"):
        ops.gaussian_blur(torch.zeros(1, 200, 200), 151, rung="k04")


def test_grids_beyond_the_hardware_are_refused_before_any_memory_is_touched():
    tall = torch.empty(1, 1).expand(2**22, 1)
    with pytest.raises(ValueError, match="k01_coalesced_reads needs 131072 blocks in y, beyond the 65535"):
        ops.transpose(tall, rung="k01")
    with pytest.raises(ValueError, match="k02_coalesced needs 524288 blocks in y"):
        ops.matrix_add(tall, tall, rung="k02")
