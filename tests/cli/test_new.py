"""``warpwise new``, and commands that take the file of a user's operation instead of a name."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
import torch
from click.testing import CliRunner, Result
from tests.sampled import FULL

from warpwise import operation
from warpwise.cli import cli, targets
from warpwise.lab import climb, template
from warpwise.lab.store import Store
from warpwise.lab.verify.gradient import verify_gradient
from warpwise.operation import registry

TINY = """
from pathlib import Path
from tests.lab import toys
from warpwise.operation import register
from dataclasses import replace

def rung(out, x):
    out.copy_((2 * x.double() + 1).to(out.dtype))

"""
ONE = TINY + "register(toys.op(replace(toys.AFFINE, schema='tiny(Tensor x) -> Tensor'), rung, source=Path(__file__)))\n"


def command(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)), standalone_mode=False)


def said(result: Result) -> str:
    message = result.exception.format_message() if hasattr(result.exception, "format_message") else ""
    return " ".join(f"{result.output} {message}".split())


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_files: None) -> None:
    """A folder of its own to work in."""
    monkeypatch.chdir(tmp_path)


def test_a_new_file_passes_as_it_is() -> None:
    made = command("new", "softplus")
    assert made.return_value == 0
    assert "wrote softplus.py; `warpwise climb softplus.py`" in said(made)
    result = command("climb", "softplus.py", "--device", "cpu")
    assert result.return_value == 0, said(result)
    assert said(result).count("✓ right") == 3
    with Store.open() as store:
        assert {(one.op, one.name, one.verdict) for one in store.measurements()} == {
            ("softplus", name, "right")
            for name in ("k01_thread_per_element", "k02_vectorised", "k03_triton", "gradient")
        }
        assert all(one.source for one in store.measurements(kind="rung"))


def test_a_mistake_in_it_is_found() -> None:
    path = Path("softplus.py")
    path.write_text(template.operation("softplus").replace("if (i < n) out[i]", "if (i <= n) out[i]"))
    result = command("climb", "softplus.py", "--device", "cpu", "--rung", "k01", "--dtype", "float32")
    assert result.return_value == 1
    assert "read of x[1037], but 'x' has 1,037 elements" in said(result)


@pytest.mark.parametrize(
    "old, new, words",
    [
        ('draw((case.sizes["n"],)', 'draw((case.sizes["m"],)', "softplus: KeyError: 'm' (inputs, "),
        ("if not x.dtype.is_floating_point", "if not x.dtype.is_float", "has no attribute 'is_float' (check, "),
        ("return torch.logaddexp(x", "return torch.logaddexp(x.full", "has no attribute 'full' (reference, "),
        (
            "dtypes=DTYPES",
            'dtypes=("float32",)',
            "softplus: expected dtypes to be a tuple such as (torch.float32,), got",
        ),
        ('"k02_vectorised", "16', '"k01_thread_per_element", "16', "rungs: expected different names, got 'k01_thread"),
        ('"triton", in_triton', '"c++", in_triton', "k03_triton: expected language to be one of 'cuda', 'triton'"),
        (
            "in_triton, Path(__file__)",
            'in_triton, Path("nofile.cu")',
            "k03_triton: its source nofile.cu does not exist",
        ),
        (
            'return "k02_vectorised"',
            'return "k09"',
            "softplus: default returns 'k09' for even(n=1024): softplus: no rung",
        ),
        ('Case("ragged", {"n": 1037})', 'Case("even", {"n": 1037})', "cases: expected different names, got 'even' 2"),
        ('Case("large", {"n"', 'Case("large", {"m"', "the size large(m=67108864) has no 'n', which the inputs need"),
        ("def default(x)", "def default(x, y)", "default takes (x, y), expected the schema's (x): missing"),
        (
            'Output(like="x"',
            "Output(shape=lambda a, b: a.shape",
            "shape of output takes (a, b), expected the schema's (x)",
        ),
        ("(Tensor x) -> Tensor", "(Tensor x, float b=1.0) -> Tensor", "check takes (x), expected the schema's (x, b)"),
        (
            'Output(like="x"',
            "Output(shape=lambda x: x.numel()",
            "expected the shape of output to be a sequence of sizes",
        ),
        (
            "cost=lambda x: Cost(bytes=2 * x.numel() * x.element_size(), flops=4 * x.numel()),",
            "cost=lambda x: 2 * x.numel(),",
            "softplus: expected cost to return a Cost of bytes and FLOPs, got int",
        ),
        (
            "seed, case.values)}",
            "seed, case.values)}.keys()",
            "expected inputs to return a mapping by argument name, got",
        ),
    ],
)
def test_a_mistake_in_the_specification_is_told_in_a_line(old: str, new: str, words: str) -> None:
    text = template.operation("softplus")
    assert old in text
    Path("softplus.py").write_text(text.replace(old, new))
    result = command("climb", "softplus.py", "--device", "cpu", "--no-store")
    assert isinstance(result.exception, click.ClickException)
    assert words in said(result)


@pytest.mark.parametrize(
    "ctype, dtype",
    [
        ("__nv_bfloat16", torch.bfloat16),
        pytest.param("float", torch.float32, marks=FULL),
        pytest.param("__half", torch.float16, marks=FULL),
    ],
)
def test_its_kernels_compile_for_a_gpu_that_is_not_there(ctype: str, dtype: torch.dtype) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    Path("softplus.py").write_text(template.operation("softplus"))
    op = targets.find_op("softplus.py")
    module = sys.modules[op.spec.inputs.__module__]
    assert dtype in op.spec.dtypes
    for kernel in ("thread_per_element", "vectorised"):
        assert len(module.CUDA[f"{kernel}<{ctype}>"].cubin("sm_90")) > 1000
    x = torch.ones(2048, dtype=dtype)
    compiled = module.triton_kernel.compile_for(x, torch.empty_like(x), 2048, BLOCK=1024, num_warps=4, target="sm_90")
    assert compiled.registers > 0


def test_it_is_an_operation_like_any_other() -> None:
    Path("mine.py").write_text(template.operation("mine"))
    op = targets.find_op("mine.py")
    x = torch.randn(100)
    torch.testing.assert_close(op(x), torch.nn.functional.softplus(x))
    torch.testing.assert_close(op(x, rung="k02"), torch.nn.functional.softplus(x))
    with pytest.raises(TypeError, match="mine: expected x of a floating-point dtype, got torch.int64"):
        op(torch.arange(3))
    assert [op.default(x.to(dtype)) for dtype in (torch.float16, torch.float64)] == ["k02_vectorised", None]
    torch.testing.assert_close(op(x.double()), torch.nn.functional.softplus(x.double()), rtol=1e-15, atol=0)
    with pytest.raises(ValueError, match="k03_triton takes torch.float32, .* not torch.float64"):
        op(x.double(), rung="k03")
    assert climb(op, device="cpu", rungs=["k03"], dtypes=[torch.float32], seeds=[0]).right


def test_its_gradient_is_right() -> None:
    Path("curve.py").write_text(template.operation("curve"))
    op = targets.find_op("curve.py")
    assert verify_gradient(op, device="cpu").right
    x = torch.linspace(-3, 3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(op, (x,))
    assert torch.autograd.gradgradcheck(op, (x,))
    y = x.detach().float().requires_grad_()
    op(y, rung="k01").sum().backward()
    torch.testing.assert_close(y.grad, torch.sigmoid(y.detach()))


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["softmax"], "the operation 'softmax' exists"),
        (["soft plus"], "'soft plus': expected a Python name"),
        (["lambda"], "'lambda': expected a Python name"),
        (["größe"], "'größe': expected a Python name of ASCII characters, such as softplus"),
        (["there"], "there.py exists"),
        (["other", "-o", "there.py"], "there.py exists"),
        (["other", "-o", "other.txt"], "expected a file name that ends in .py"),
        (["other", "-o", "there.py/other.py"], "cannot be written"),
    ],
)
def test_nothing_is_overwritten(arguments: list[str], words: str) -> None:
    Path("there.py").write_text("mine")
    result = command("new", *arguments)
    assert words in said(result)
    assert result.exception.exit_code == 2
    assert Path("there.py").read_text() == "mine"
    assert [path.name for path in Path.cwd().iterdir() if path.suffix == ".py"] == ["there.py"]


@pytest.mark.parametrize(
    "arguments, path",
    [
        (["gelu2"], "gelu2.py"),
        (["gelu2.py"], "gelu2.py"),
        (["ops/gelu2.py"], "ops/gelu2.py"),
        (["gelu2", "-o", "."], "gelu2.py"),
        (["gelu2", "-o", "new/folder/mine.py"], "new/folder/mine.py"),
    ],
)
def test_where_it_goes(arguments: list[str], path: str) -> None:
    assert command("new", *arguments).return_value == 0
    text = Path(path).read_text()
    assert 'schema="gelu2(Tensor x) -> Tensor"' in text
    assert "NAME" not in text


def test_names_and_files_are_found() -> None:
    Path("tiny.py").write_text(ONE)
    assert targets.find_op("softmax").name == "softmax"
    op = targets.find_op("tiny.py")
    assert (op.name, op.rungs[0].source) == ("tiny", Path("tiny.py").resolve())
    assert targets.find_op("tiny.py:tiny").name == "tiny"
    assert targets.find_rung(op, "rung").name == "rung"
    assert "tiny" in targets.known_ops()


def test_a_file_that_changed_is_loaded_anew() -> None:
    path = Path("tiny.py")
    path.write_text(ONE)
    first = targets.find_op("tiny.py")
    path.write_text(ONE.replace("rung", "better_rung"))
    second = targets.find_op("tiny.py")
    assert [rung.name for rung in first.rungs] == ["rung"]
    assert [rung.name for rung in second.rungs] == ["better_rung"]
    assert operation.get("tiny") is second
    path.write_text(ONE.replace("tiny(", "renamed("))
    assert targets.find_op("tiny.py").name == "renamed"
    with pytest.raises(LookupError):
        operation.get("tiny")


def test_a_file_may_hold_several_and_need_not_register_them() -> None:
    Path("two.py").write_text(
        TINY
        + "A = toys.op(replace(toys.AFFINE, schema='one(Tensor x) -> Tensor'), rung)\n"
        + "B = toys.op(replace(toys.AFFINE, schema='two(Tensor x) -> Tensor'), rung)\n"
    )
    assert [op.name for op in targets.find_ops("two.py")] == ["one", "two"]
    assert targets.find_op("two.py:two").name == "two"
    with pytest.raises(click.BadParameter, match=r"defines 2 operations: choose one of two\.py:one, two\.py:two"):
        targets.find_op("two.py")
    with pytest.raises(click.BadParameter, match=r"two\.py: no operation 'oen' in it; did you mean 'one'"):
        targets.find_op("two.py:oen")


def test_modules_beside_a_file_can_be_imported() -> None:
    Path("beside_tiny_helper.py").write_text("NAME = 'helped'\n")
    Path("tiny.py").write_text(
        ONE.replace("'tiny(Tensor x) -> Tensor'", "f'{beside_tiny_helper.NAME}(Tensor x) -> Tensor'").replace(
            TINY, f"import beside_tiny_helper\n{TINY}"
        )
    )
    assert targets.find_op("tiny.py").name == "helped"
    del sys.modules["beside_tiny_helper"]


def test_a_package_may_import_the_file_that_registers() -> None:
    folder = Path("op_package_of_test_new/tiny")
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("")
    (folder / "__init__.py").write_text("from op_package_of_test_new.tiny.op import OP\n")
    (folder / "names.py").write_text("NAME = 'tiny'\n")
    text = ONE.replace("'tiny(", "f'{NAME}(").replace("register(toys", "OP = register(toys")
    (folder / "op.py").write_text(f"from op_package_of_test_new.tiny.names import NAME\n{text}")
    for file in ("op.py", "__init__.py", "op.py"):
        assert targets.find_op(f"{folder}/{file}").name == "tiny"
    (folder / "names.py").write_text("NAME = 'renamed'\n")
    assert targets.find_op(f"{folder}/op.py").name == "renamed"
    with pytest.raises(click.BadParameter, match=r"is a folder: .* such as op_package_of_test_new/tiny/__init__\.py"):
        targets.find_op(str(folder))


def test_operations_of_two_packages_may_share_a_name() -> None:
    for package in ("mine", "theirs"):
        Path(f"{package}.py").write_text(ONE.replace("'tiny(", f"'{package}::softmax("))
        assert [op.name for op in targets.find_ops(f"{package}.py")] == [f"{package}::softmax"]
    assert targets.find_op("softmax").name == "softmax", "Warpwise's own"
    op, rung = targets.find_target("mine::softmax:rung")
    assert (op.name, rung) == ("mine::softmax", "rung")
    assert targets.find_target("mine.py:softmax:rung")[1] == "rung"
    assert command("climb", "mine.py", "--device", "cpu").return_value == 0
    result = command("climb", "mine::softmax", "--device", "cpu", "--no-store")
    assert "recorded on" not in said(result), "Warpwise's softmax was recorded, not this one"
    with Store.open() as store:
        assert {one.op for one in store.measurements()} == {"mine::softmax"}
    assert "mine::softmax" in said(command("history", "softmax"))
    for package in ("mine", "theirs"):
        Path(f"{package}.py").write_text(ONE.replace("'tiny(", f"'{package}::own("))
        targets.find_op(f"{package}.py")
    with pytest.raises(click.BadParameter, match="several operations 'own': expected mine::own or theirs::own"):
        targets.find_op("own")


@pytest.mark.parametrize("name", ["__init__.py", "op.py"])
def test_a_file_of_an_operation_that_is_registered_names_it(name: str) -> None:
    folder = Path(operation.__file__).parents[1] / "ops" / "softmax"
    assert [op.name for op in targets.find_ops(f"{folder}/{name}")] == ["softmax", "softmax_backward"]


@pytest.mark.parametrize(
    "text, words",
    [
        ("x = 1\nraise KeyError('lost')\n", r"bad\.py:2: KeyError: 'lost'"),
        ("x = 1\n\ndef f(:\n", r"bad\.py:3: SyntaxError"),
        ("import sys\nsys.exit(3)\n", r"bad\.py:2: SystemExit: 3"),
        ("import torch\ntorch.zeros(2) @ torch.zeros(3)\n", r"bad\.py:2: RuntimeError"),
        ("x = 1\n", r"bad\.py: no operation in it: expected register\(Op\("),
        (
            ONE.replace("tiny(", "softmax("),
            r"bad\.py:10: ValueError: .* 'warpwise::softmax' is registered already, by .*ops/softmax/spec\.py",
        ),
        (ONE + "raise ValueError\n", r"bad\.py:11: ValueError"),
    ],
)
def test_a_file_that_fails_says_where_and_leaves_nothing(text: str, words: str) -> None:
    Path("bad.py").write_text(text)
    before = set(registry._OPS)
    modules = set(sys.modules)
    for _ in range(2):
        with pytest.raises(click.BadParameter, match=words):
            targets.find_op("bad.py")
    assert set(registry._OPS) == before
    assert "no operation in it" in words or not [name for name in set(sys.modules) - modules if "bad" in name]


@pytest.mark.parametrize(
    "name, words",
    [
        ("softmxa", "no operation 'softmxa'; did you mean 'softmax'"),
        ("nowhere.py", "nowhere.py: no such file; `warpwise new nowhere` writes one"),
        (".py", "no such file"),
    ],
)
def test_unknown_names_say_what_is_near(name: str, words: str) -> None:
    result = command("climb", name)
    assert words in said(result)
    assert result.exception.exit_code == 2


def test_an_unknown_rung_says_what_is_near() -> None:
    result = command("climb", "softmax", "--rung", "k02_block_row")
    assert "softmax: no rung 'k02_block_row'; did you mean 'k02_block_per_row'" in said(result)


def test_a_package_that_cannot_be_imported_is_named_and_the_other_operations_stay(tmp_path, monkeypatch) -> None:
    """The entry point of one broken package does not stop the command."""
    info = tmp_path / "broken-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[warpwise.ops]\nbroken = broken.ops\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_FAILED", set())
    result = command("ops", "softmax")
    assert result.return_value == 0
    assert result.output.startswith(
        "note: broken.ops of the package broken failed, so its operations are missing: "
        "ModuleNotFoundError: No module named 'broken'\n"
    )
    assert "note" not in command("ops", "softmax").output
    monkeypatch.setattr(registry, "_FAILED", set())
    with pytest.warns(UserWarning, match="broken.ops of the package broken failed"):
        operation.load_entry_points()
