"""Files made of Inductor's output for a GPU: their kernels, run emulated, compute what was asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.lab.inductor.recorded import HEAD, MATMUL_RELU, SOFTMAX

from warpwise import cuda
from warpwise.lab.inductor import Generated, NotWritable, checked, parse, standalone

CPU = torch.device("cpu")


def made(code, expression, inputs, order, outputs, blocks=None):
    return Generated(expression, inputs, {}, "triton", CPU, code, parse(code), order, outputs, blocks=blocks or {})


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
    blocks = {"triton_red_fused_sum_1": {"XBLOCK": 4, "R0_BLOCK": 16, "num_warps": 2, "num_stages": 1}}
    return made(MATMUL_RELU, expression, given, ("x", "w", "b"), (y, y.sum(1)), blocks)


def test_the_softmax_is_right_and_short(softmax):
    text = standalone(softmax, ["torch.softmax(x, -1)"])
    checked(text)
    for gone in (
        "triton_heuristics",
        "set_driver",
        "get_raw_stream",
        "assert_size_stride",
        "async_compile",
        "rnumel =",
        "_DeviceGuard",
        "aten =",
    ):
        assert gone not in text
    assert "triton_per_fused__softmax_0[(12,)](x, buf2, 12, 300, num_warps=4)" in text
    assert "# softmax: aten._softmax" in text
    assert "buf2 = output" in text


def test_libraries_and_kernels_keep_their_order_and_measured_blocks(product):
    text = standalone(product, ["x"])
    checked(text)
    launch = text[text.index("def launch(") :]
    calls = [
        "torch.mm(_view(x, (30, 20), (1, 30), 0), w, out=buf0)",
        "triton_poi_fused_add_relu_0[(triton.cdiv(1200, 1024),)](buf1, b, 1200",
    ]
    calls.append(
        "triton_red_fused_sum_1[(triton.cdiv(30, 4),)](buf1, buf2, 30, 40, XBLOCK=4, R0_BLOCK=16, num_warps=2, num_stages=1)"
    )
    places = [launch.index(call) for call in calls]
    assert places == sorted(places)
    assert "def launch(output, w, x, b):" in launch
    assert "buf0 = output[0]" in launch
    assert "buf2 = output[1]" in launch


def test_the_file_runs_as_a_program(softmax, tmp_path):
    path = tmp_path / "k00_inductor.py"
    path.write_text(standalone(softmax, ["torch.softmax(x, -1)", "", 'a "quoted" \\ heading """']))
    done = subprocess.run(
        [sys.executable, "-W", "error", path], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[3] / "src"), "HOME": str(tmp_path), "PATH": "", "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert done.stdout == "right: equal to eager on cpu\n", done.stderr


def test_a_wrong_kernel_is_found_by_the_files_own_check(softmax):
    text = standalone(softmax, ["x"]).replace("torch.cuda.is_available()", "False")
    with pytest.raises(AssertionError, match="not close"):
        checked(text.replace("tmp6 / tmp10", "tmp6 / tmp10 * 1.001"))
    with pytest.raises(cuda.OutOfBounds):
        checked(text.replace("(r0_1 + 300*x0), r0_mask, other=0.0)", "(r0_1 + 301*x0), r0_mask, other=0.0)"))
    with pytest.raises(ValueError, match=r"x: expected shape, strides and dtype \(\(12, 300\)"):
        checked(text.replace("launch(made[0]", "given['x'] = given['x'].t(); launch(made[0]"))


def test_a_copy_is_made_where_the_result_is_another_view(softmax):
    code = SOFTMAX.replace("return (buf2, )", "return (reinterpret_tensor(buf2, (300, 12), (1, 300), 0), )")
    x = softmax.inputs["x"]
    text = standalone(made(code, "torch.softmax(x, -1).t()", {"x": x}, ("x",), (torch.softmax(x, -1).t(),)), ["x"])
    assert "output.copy_(_view(buf2, (300, 12), (1, 300), 0))" in text
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


UNKNOWN = [
    (lambda code: code.replace("'grid_type': 'Grid1D'", "'grid_type': 'MixOrderReductionGrid'"), "its grid is a MixOrderReductionGrid"),
    (lambda code: code.replace("_0.run(arg0_1, buf2, 12, 300", "_0.run(arg0_1, buf2, 12"), "3 arguments for the parameters"),
    (lambda code: code.replace("triton_per_fused__softmax_0.run(", "another.run("), "another is run, and is none of"),
    (lambda code: code.replace("    arg0_1, = args", "    arg0_1, arg1_1 = args"), "takes 2 inputs for 1"),
    (lambda code: code.replace("return (buf2, )", "return (buf2, buf2, )"), "returns 2 tensors for 1"),
]  # fmt: skip


@pytest.mark.parametrize("change,said", UNKNOWN, ids=[said for _, said in UNKNOWN])
def test_what_is_not_understood_is_named(softmax, change, said):
    with pytest.raises(NotWritable, match=rf"{said}.*--raw"):
        standalone(made(change(SOFTMAX), "torch.softmax(x, -1)", softmax.inputs, ("x",), softmax.outputs), ["x"])


@pytest.mark.parametrize(
    "code,said",
    [
        (HEAD, "no function called call"),
        ("def call(:", "is no Python"),
        ("def call(args):\n    args.clear()\n", "returns nothing"),
        ("def partition_0(args):\n    return args\n\ndef call(args):\n    return (x, )\n", "for CUDA graphs"),
        ("k = async_compile.cutedsl('k', 'text')\ndef call(args):\n    return (x, )\n", "no Triton kernel"),
    ],
)
def test_what_is_no_output_of_inductors_is_said(code, said):
    with pytest.raises(NotWritable, match=f"{said}.*--raw"):
        parse(code)
