"""Files made of Inductor's code for a GPU: their kernels, run emulated, compute what was asked for."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton
from tests.lab.inductor.recorded import HEAD, MATMUL_RELU, SOFTMAX

from warpwise import cuda
from warpwise.lab.inductor import Generated, NotWritable, checked, standalone

CPU = torch.device("cpu")


def made(code, expression, inputs, order, outputs, configs=None):
    return Generated(expression, inputs, {}, "triton", CPU, code, order, outputs, configs=configs or {})


@pytest.fixture
def softmax():
    x = torch.randn(12, 300)
    return made(SOFTMAX, "torch.softmax(x, -1)", {"x": x}, ("x",), (torch.softmax(x, -1),))


@pytest.fixture
def product():
    w, x, b = torch.randn(20, 40), torch.randn(20, 30), torch.randn(40)
    y = torch.relu(x.t() @ w + b)
    given = {"w": w, "x": x, "b": b}
    expression = "(lambda y: (y, y.sum(1)))(torch.relu(x.t() @ w + b))"
    configs = {"triton_red_fused_sum_1": triton.Config({"XBLOCK": 4, "R0_BLOCK": 16}, num_warps=2, num_stages=1)}
    return made(MATMUL_RELU, expression, given, ("x", "w", "b"), (y, y.sum(1)), configs)


def test_the_softmax_is_correct_and_short(softmax):
    text = standalone(softmax, ["torch.softmax(x, -1)", "", 'a "quoted" \\ heading """ of $5'])
    checked(text)
    for gone in (
        "triton_heuristics",
        "set_driver",
        "get_raw_stream",
        "assert_size_stride",
        "async_compile",
        "_DeviceGuard",
        "del ",
        "args.clear",
        "aten =",
    ):
        assert gone not in text
    assert "triton_per_fused__softmax_0[12,](arg0_1, buf2, 12, 300, num_warps=4)" in text.replace("(12,)", "12,")
    assert "# softmax: aten._softmax\n@wt.jit\n" in text
    assert "    return buf2\n" in text


def test_a_file_whose_launch_takes_too_long_ends_in_one_message(softmax, tmp_path):
    path = tmp_path / "slow.py"
    path.write_text(standalone(softmax, ["x"]).replace("num_warps=4)", "num_warps=4, timeout=1e-9)"))
    with pytest.raises(SystemExit, match="^not checked: triton_per_fused__softmax_0: .*: still running after") as found:
        runpy.run_path(str(path), run_name="__main__")
    assert str(found.value).endswith("\nrun the file on a GPU, or generate one for smaller tensors")


def test_library_calls_and_kernels_keep_their_order_and_tuned_configurations(product):
    text = standalone(product, ["x"])
    checked(text)
    run = text[text.index("def run(w, x, b):") :].replace("[(", "[").replace(",)]", ",]")
    calls = [
        "arg0_1, arg1_1, arg2_1 = (x, w, b)",
        "torch.mm(arg0_1.as_strided((30, 20), (1, 30)), arg1_1, out=buf0)",
        "buf1 = buf0",
        "triton_poi_fused_add_relu_0[triton.cdiv(1200, 1024),](buf1, arg2_1, 1200, XBLOCK=1024, num_warps=4)",
        (
            "triton_red_fused_sum_1[triton.cdiv(30, 4),](buf1, buf2, 30, 40, XBLOCK=4, R0_BLOCK=16, num_warps=2, "
            "num_stages=1)"
        ),
        "return buf1, buf2",
    ]
    places = [run.index(call) for call in calls]
    assert places == sorted(places)


def test_an_input_may_have_the_name_of_a_buffer(softmax):
    x = softmax.inputs["x"]
    renamed = made(SOFTMAX, "torch.softmax(buf2, -1)", {"buf2": x}, ("buf2",), softmax.outputs)
    checked(standalone(renamed, ["x"]))


def test_the_file_runs_as_a_program(softmax, tmp_path):
    path = tmp_path / "k00_inductor.py"
    path.write_text(standalone(softmax, ["torch.softmax(x, -1)", "", 'a "quoted" \\ heading """ of $5']))
    done = subprocess.run(
        [sys.executable, "-W", "error", path],
        capture_output=True,
        text=True,
        check=False,
        env={
            "PYTHONPATH": str(Path(__file__).parents[3] / "src"),
            "HOME": str(tmp_path),
            "PATH": "",
            "CUDA_VISIBLE_DEVICES": "",
        },
    )
    assert done.stdout == "correct: equal to eager mode on cpu\n", done.stderr


def test_the_files_check_finds_a_wrong_kernel(softmax):
    text = standalone(softmax, ["x"]).replace("torch.cuda.is_available()", "False")
    with pytest.raises(AssertionError, match="not close"):
        checked(text.replace("tmp6 / tmp10", "tmp6 / tmp10 * 1.001"))
    with pytest.raises(cuda.OutOfBounds):
        checked(text.replace("(r0_1 + 300*x0), r0_mask, other=0.0)", "(r0_1 + 301*x0), r0_mask, other=0.0)"))
    with pytest.raises(ValueError, match=r"x: expected shape, strides and dtype \(\(12, 300\)"):
        checked(text.replace("run(**given), eager", "run(given['x'].t()), eager"))


def test_the_result_may_be_a_view(softmax):
    code = SOFTMAX.replace("return (buf2, )", "return (reinterpret_tensor(buf2, (299, 12), (1, 300), 1), )")
    expected = torch.softmax(softmax.inputs["x"], -1).t()[1:]
    text = standalone(made(code, "torch.softmax(x, -1).t()[1:]", softmax.inputs, ("x",), (expected,)), ["x"])
    assert "return buf2.as_strided((299, 12), (1, 300), buf2.storage_offset() + 1)" in text
    checked(text)


def test_two_kernels_share_a_helper_once(product):
    helper = (
        "@triton.jit\ndef _triton_helper_fn_add0(arg0_0, arg1_0):\n    return arg0_0 + arg1_0\n\n@triton_heuristics"
    )
    code = MATMUL_RELU.replace("@triton_heuristics", helper)
    text = standalone(made(code, product.expression, product.inputs, product.order, product.outputs), ["x"])
    assert text.count("def _triton_helper_fn_add0") == 1
    checked(text)
    first, _, rest = code.partition("return arg0_0 + arg1_0")
    other = first + "return arg0_0 * arg1_0" + rest
    with pytest.raises(NotWritable, match="different functions named _triton_helper_fn_add0"):
        standalone(made(other, product.expression, product.inputs, product.order, product.outputs), ["x"])


UNSUPPORTED = [
    (
        lambda code: code.replace("'grid_type': 'Grid1D'", "'grid_type': 'MixOrderReductionGrid'"),
        "the grid MixOrderReductionGrid",
    ),
    (
        lambda code: code.replace("_0.run(arg0_1, buf2, 12, 300", "_0.run(arg0_1, buf2, 12"),
        "3 arguments for the parameters",
    ),
    (
        lambda code: code.replace("triton_per_fused__softmax_0.run(", "another.run("),
        "another is launched, but the kernels are",
    ),
    (lambda code: code.replace("    arg0_1, = args", "    arg0_1, arg1_1 = args"), "takes 2 inputs for 1"),
    (lambda code: code.replace("return (buf2, )", "return (buf2, buf2, )"), "returns 2 tensors for 1"),
    (lambda code: code.replace("return (buf2, )", ""), "returns nothing"),
    (lambda code: HEAD, "no function named call"),
    (lambda code: code + "def partition_0(args):\n    return args\n", "for CUDA graphs"),
    (lambda code: code.replace("async_compile.triton(", "async_compile.cutedsl("), "does not create a Triton kernel"),
]


@pytest.mark.parametrize("change,message", UNSUPPORTED, ids=[message for _, message in UNSUPPORTED])
def test_unsupported_code_is_named(softmax, change, message):
    with pytest.raises(NotWritable, match=rf"{message}.*--raw"):
        standalone(made(change(SOFTMAX), "torch.softmax(x, -1)", softmax.inputs, ("x",), softmax.outputs), ["x"])


def test_a_block_size_without_a_rule_is_named(product):
    code = MATMUL_RELU.replace("R0_BLOCK : tl.constexpr", "R0_BLOCK : tl.constexpr, SPLIT : tl.constexpr")
    with pytest.raises(NotWritable, match=r"no rule for its parameter SPLIT.*--raw"):
        standalone(made(code, product.expression, product.inputs, product.order, product.outputs), ["x"])
