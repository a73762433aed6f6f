"""Operations, one folder each: ``warpwise.ops.softmax(x, dim=-1)``.

On CUDA tensors a call runs the rung that is fastest for the arguments, or PyTorch; on CPU tensors it runs PyTorch.
``rung="k02"`` names one rung, which runs emulated and checked on CPU tensors. Importing this package registers its
operations with ``warpwise.operation``.
``make format`` writes this file from the folders.
"""

from warpwise.ops.addmm.op import addmm
from warpwise.ops.avg_pool2d.op import avg_pool2d, avg_pool2d_backward
from warpwise.ops.batch_norm.op import batch_norm, batch_norm_backward, layer_statistics, running_statistics
from warpwise.ops.batched_matmul.op import batched_matmul
from warpwise.ops.connected_components.op import connected_components
from warpwise.ops.conv2d.op import conv2d, conv2d_backward
from warpwise.ops.conv_block.op import conv_block, conv_block_backward
from warpwise.ops.cross_entropy.op import cross_entropy, cross_entropy_backward
from warpwise.ops.gather_images.op import gather_images
from warpwise.ops.gaussian_blur.op import gaussian_blur, gaussian_blur_backward
from warpwise.ops.gibbs_sweep.op import gibbs_sweep
from warpwise.ops.grouped_matmul.op import grouped_matmul, grouped_matmul_backward
from warpwise.ops.histogram.op import histogram
from warpwise.ops.kmeans_assign.op import kmeans_assign
from warpwise.ops.kmeans_update.op import kmeans_update
from warpwise.ops.linear.op import activation_backward, linear
from warpwise.ops.linear_backward.op import linear_backward
from warpwise.ops.linear_cross_entropy.op import (
    block_cross_entropy_gradients,
    linear_cross_entropy,
    linear_cross_entropy_backward,
    linear_cross_entropy_gradients,
)
from warpwise.ops.matmul.op import matmul
from warpwise.ops.matmul_tf32.op import matmul_tf32
from warpwise.ops.matrix_add.op import matrix_add
from warpwise.ops.matvec.op import matvec
from warpwise.ops.max_pool2d.op import max_pool2d, max_pool2d_backward
from warpwise.ops.polynomial.op import polynomial, polynomial_backward
from warpwise.ops.potts_bound.op import potts_bound
from warpwise.ops.potts_em_step.op import potts_em_step
from warpwise.ops.potts_m_step.op import potts_m_step
from warpwise.ops.reduce_sum.op import reduce_sum
from warpwise.ops.rgb_to_grayscale.op import rgb_to_grayscale
from warpwise.ops.scaled_matmul.op import scaled_matmul
from warpwise.ops.sgd.op import sgd
from warpwise.ops.smooth_features.op import smooth_features
from warpwise.ops.softmax.op import softmax, softmax_backward
from warpwise.ops.square.op import square
from warpwise.ops.transpose.op import transpose
from warpwise.ops.vector_add.op import vector_add

__all__ = [
    "activation_backward",
    "addmm",
    "avg_pool2d",
    "avg_pool2d_backward",
    "batch_norm",
    "batch_norm_backward",
    "batched_matmul",
    "block_cross_entropy_gradients",
    "connected_components",
    "conv2d",
    "conv2d_backward",
    "conv_block",
    "conv_block_backward",
    "cross_entropy",
    "cross_entropy_backward",
    "gather_images",
    "gaussian_blur",
    "gaussian_blur_backward",
    "gibbs_sweep",
    "grouped_matmul",
    "grouped_matmul_backward",
    "histogram",
    "kmeans_assign",
    "kmeans_update",
    "layer_statistics",
    "linear",
    "linear_backward",
    "linear_cross_entropy",
    "linear_cross_entropy_backward",
    "linear_cross_entropy_gradients",
    "matmul",
    "matmul_tf32",
    "matrix_add",
    "matvec",
    "max_pool2d",
    "max_pool2d_backward",
    "polynomial",
    "polynomial_backward",
    "potts_bound",
    "potts_em_step",
    "potts_m_step",
    "reduce_sum",
    "rgb_to_grayscale",
    "running_statistics",
    "scaled_matmul",
    "sgd",
    "smooth_features",
    "softmax",
    "softmax_backward",
    "square",
    "transpose",
    "vector_add",
]
