"""Texts as Inductor writes them for a GPU, in the forms of several releases of torch, for machines that have none."""

from __future__ import annotations

HEAD = """# AOT ID: ['0_inference']
from ctypes import c_void_p, c_long, c_int
import torch
import math
import os
from math import inf, nan
from torch._inductor.hooks import run_intermediate_hooks
from torch._inductor.codegen.memory_planning import _align as align
from torch import device, empty_strided
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.select_algorithm import extern_kernels
import triton
import triton.language as tl
from torch._inductor.runtime.triton_heuristics import start_graph, end_graph
from torch._C import _cuda_getCurrentRawStream as get_raw_stream

aten = torch.ops.aten
inductor_ops = torch.ops.inductor
assert_size_stride = torch._C._dynamo.guards.assert_size_stride
assert_alignment = torch._C._dynamo.guards.assert_alignment
empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu
empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
reinterpret_tensor = torch._C._dynamo.guards._reinterpret_tensor
async_compile = AsyncCompile()

"""

KERNEL_HEAD = """
import triton
import triton.language as tl

from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
from torch._inductor.runtime.hints import AutotuneHint, ReductionHint, TileHint, DeviceProperties
triton_helpers.set_driver_to_gpu()
"""

DEVICE = (
    "DeviceProperties(type='cuda', index=0, multi_processor_count=132, cc=90, major=9, regs_per_multiprocessor=65536, "
    "max_threads_per_multi_processor=2048, warp_size=32)"
)

SOFTMAX = (
    HEAD
    + """
# kernel path: /tmp/torchinductor_user/aa/abc.py
# Topologically Sorted Source Nodes: [softmax], Original ATen: [aten._softmax]
# Source node to ATen node mapping:
#   softmax => amax, div, exp, sub, sum_1
# Graph fragment:
#   %arg0_1 : Tensor "f32[12, 300][300, 1]cuda:0" = PlaceHolder[target=arg0_1]
#   return %div
triton_per_fused__softmax_0 = async_compile.triton('triton_per_fused__softmax_0', '''"""
    + KERNEL_HEAD
    + f"""
@triton_heuristics.persistent_reduction(
    size_hints={{'x': 16, 'r0_': 512}},
    reduction_hint=ReductionHint.INNER,
    filename=__file__,
    triton_meta={{'signature': {{'in_ptr0': '*fp32', 'out_ptr2': '*fp32', 'xnumel': 'i32', 'r0_numel': 'i32'}}, \
'device': {DEVICE}, 'constants': {{}}, 'configs': [{{(0,): [['tt.divisibility', 16]]}}]}},
    inductor_meta={{'grid_type': 'Grid1D', 'autotune_hints': set(), 'kernel_name': 'triton_per_fused__softmax_0', \
'mutated_arg_names': [], 'no_x_dim': True, 'num_load': 1, 'num_reduction': 2}}
)
@triton.jit
def triton_per_fused__softmax_0(in_ptr0, out_ptr2, xnumel, r0_numel):
    xnumel = 12
    XBLOCK: tl.constexpr = 1
    r0_numel = 300
    R0_BLOCK: tl.constexpr = 512
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = tl.full([1], xoffset, tl.int32)
    xmask = tl.full([R0_BLOCK], True, tl.int1)
    r0_index = tl.arange(0, R0_BLOCK)[:]
    r0_offset = 0
    r0_mask = r0_index < r0_numel
    roffset = r0_offset
    rindex = r0_index
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + 300*x0), r0_mask, other=0.0)
    tmp1 = tl.broadcast_to(tmp0, [R0_BLOCK])
    tmp3 = tl.where(r0_mask, tmp1, float("-inf"))
    tmp4 = triton_helpers.promote_to_tensor(triton_helpers.max2(tmp3, 0))
    tmp5 = tmp0 - tmp4
    tmp6 = tl_math.exp(tmp5)
    tmp7 = tl.broadcast_to(tmp6, [R0_BLOCK])
    tmp9 = tl.where(r0_mask, tmp7, 0)
    tmp10 = triton_helpers.promote_to_tensor(tl.sum(tmp9, 0))
    tmp11 = (tmp6 / tmp10)
    tl.store(out_ptr2 + (r0_1 + 300*x0), tmp11, r0_mask)
''', device_str='cuda')


async_compile.wait(globals())
del async_compile

def call(args):
    arg0_1, = args
    args.clear()
    assert_size_stride(arg0_1, (12, 300), (300, 1))
    with torch.cuda._DeviceGuard(0):
        torch.cuda.set_device(0)
        buf2 = empty_strided_cuda((12, 300), (300, 1), torch.float32)
        # Topologically Sorted Source Nodes: [softmax], Original ATen: [aten._softmax]
        stream0 = get_raw_stream(0)
        triton_per_fused__softmax_0.run(arg0_1, buf2, 12, 300, stream=stream0)
        del arg0_1
    return (buf2, )


def benchmark_compiled_module(times=10, repeat=10):
    from torch._dynamo.testing import rand_strided
    arg0_1 = rand_strided((12, 300), (300, 1), device='cuda:0', dtype=torch.float32)
    return print_performance(lambda: call([arg0_1]), times=times, repeat=repeat)
"""
)

# relu(x @ w + b), then the sum of each row: cuBLAS, a kernel that works in place, a reduction in a loop.
MATMUL_RELU = (
    HEAD
    + """
# kernel path: /tmp/torchinductor_user/bb/bcd.py
# Topologically Sorted Source Nodes: [add, relu], Original ATen: [aten.add, aten.relu]
triton_poi_fused_add_relu_0 = async_compile.triton('triton_poi_fused_add_relu_0', '''"""
    + KERNEL_HEAD
    + f"""
@triton_heuristics.pointwise(
    size_hints={{'x': 2048}},
    filename=__file__,
    triton_meta={{'signature': {{'in_out_ptr0': '*fp32', 'in_ptr0': '*fp32', 'xnumel': 'i32', 'XBLOCK': 'constexpr'}}, \
'device': {DEVICE}, 'constants': {{}}}},
    inductor_meta={{'grid_type': 'Grid1D', 'autotune_hints': set(), 'kernel_name': 'triton_poi_fused_add_relu_0', \
'mutated_arg_names': ['in_out_ptr0']}},
    min_elem_per_thread=0
)
@triton.jit
def triton_poi_fused_add_relu_0(in_out_ptr0, in_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1200
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x0 = (xindex % 40)
    tmp0 = tl.load(in_out_ptr0 + (x2), xmask)
    tmp1 = tl.load(in_ptr0 + (x0), xmask, eviction_policy='evict_last')
    tmp2 = tmp0 + tmp1
    tmp3 = tl.full([1], 0, tl.int32)
    tmp4 = triton_helpers.maximum(tmp3, tmp2)
    tl.store(in_out_ptr0 + (x2), tmp4, xmask)
''', device_str='cuda')


# kernel path: /tmp/torchinductor_user/cc/cde.py
# Topologically Sorted Source Nodes: [sum_1], Original ATen: [aten.sum]
triton_red_fused_sum_1 = async_compile.triton('triton_red_fused_sum_1', '''"""
    + KERNEL_HEAD
    + f"""
@triton_heuristics.reduction(
    size_hints={{'x': 32, 'r0_': 64}},
    reduction_hint=ReductionHint.INNER,
    filename=__file__,
    triton_meta={{'signature': {{'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'xnumel': 'i32', 'r0_numel': 'i32', \
'XBLOCK': 'constexpr', 'R0_BLOCK': 'constexpr'}}, 'device': {DEVICE}}},
    inductor_meta={{'grid_type': 'Grid1D', 'kernel_name': 'triton_red_fused_sum_1', 'no_x_dim': False}}
)
@triton.jit
def triton_red_fused_sum_1(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 30
    r0_numel = 40
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    _tmp2 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 40*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
        tmp3 = _tmp2 + tmp1
        _tmp2 = tl.where(r0_mask & xmask, tmp3, _tmp2)
    tmp2 = tl.sum(_tmp2, 1)[:, None]
    tl.store(out_ptr0 + (x0), tmp2, xmask)
''', device_str='cuda')


async_compile.wait(globals())
del async_compile

class Runner:
    def __init__(self, partitions):
        self.partitions = partitions

    def recursively_apply_fns(self, fns):
        new_callables = []
        for fn, c in zip(fns, self.partitions):
            new_callables.append(fn(c))
        self.partitions = new_callables

    def call(self, args):
        arg0_1, arg1_1, arg2_1 = args
        args.clear()
        assert_size_stride(arg0_1, (20, 30), (30, 1))
        assert_size_stride(arg1_1, (20, 40), (40, 1))
        assert_size_stride(arg2_1, (40, ), (1, ))
        with torch.cuda._DeviceGuard(0):
            torch.cuda.set_device(0)
            buf0 = empty_strided_cuda((30, 40), (40, 1), torch.float32)
            # Topologically Sorted Source Nodes: [t, matmul], Original ATen: [aten.t, aten.mm]
            extern_kernels.mm(reinterpret_tensor(arg0_1, (30, 20), (1, 30), 0), arg1_1, out=buf0)
            del arg0_1
            del arg1_1
            buf1 = buf0; del buf0  # reuse
            # Topologically Sorted Source Nodes: [add, relu], Original ATen: [aten.add, aten.relu]
            raw_stream0 = get_raw_stream(0)
            triton_poi_fused_add_relu_0.run(buf1, arg2_1, 1200, stream=raw_stream0)
            del arg2_1
            buf2 = empty_strided_cuda((30, ), (1, ), torch.float32)
            # Topologically Sorted Source Nodes: [sum_1], Original ATen: [aten.sum]
            raw_stream0 = get_raw_stream(0)
            triton_red_fused_sum_1.run(buf1, buf2, 30, 40, stream=raw_stream0)
        return (buf1, buf2, )

runner = Runner(partitions=[])
call = runner.call
recursively_apply_fns = runner.recursively_apply_fns
"""
)
