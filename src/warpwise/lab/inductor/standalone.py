"""``standalone``: Inductor's Triton code as one file that runs by itself and compares its results with eager mode."""

from __future__ import annotations

import ast
import re
import runpy
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

import torch

from warpwise.lab.inductor.generate import Generated

RAW = "--raw saves Inductor's code unchanged"
REMEDY = "run the file on a GPU, or generate one for smaller tensors"
GRIDS = {"Grid1D": "x", "Grid2D": "xy", "Grid3D": "xyz"}
TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
DROPPED = re.compile(
    r"args\.clear\(|assert_size_stride\(|assert_alignment\(|torch\.cuda\.set_device\(|\w+ = get_raw_stream\(|del "
)
NODES = re.compile(r"Source Nodes: \[(.*?)\], Original ATen: \[(.*?)\]\n(?:#.*\n)*(\w+) = async_compile\.")
FILE = Template('''"""$heading
"""

$imports

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# (shape, strides, dtype) of each input. The kernels are valid for these only: the sizes are constants in them.
INPUTS = {
$inputs
}
TOLERANCE = $tolerance  # relative to eager mode, and to the largest element of each output


$kernels


def run($names):
    """Inductor's calls, in its order. Raises ``ValueError`` for a tensor that is not as in INPUTS."""
    for name, tensor in {$pairs}.items():
        found = (tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if found != INPUTS[name]:
            raise ValueError(f"{name}: expected shape, strides and dtype {INPUTS[name]}, got {found}")
$body


def eager($names):
    """The same in PyTorch's eager mode."""
$literals    return ($expression)


def inputs(seed=0):
    """Random tensors as in INPUTS."""
    torch.manual_seed(seed)
    made = {}
    for name, (shape, stride, dtype) in INPUTS.items():
        high = 2 if dtype == torch.bool else 100
        values = torch.randn(shape) if dtype.is_floating_point else torch.randint(0, high, shape)
        made[name] = torch.empty_strided(shape, stride, dtype=dtype, device=DEVICE).copy_(values)
    return made


def check(given):
    """Raise ``AssertionError`` if ``run`` and ``eager`` differ. Without a GPU the kernels are emulated and checked."""
    results, expected = run(**given), eager(**given)
    if isinstance(results, torch.Tensor):
        results, expected = [results], [expected]
    for got, want in zip(results, expected, strict=True):
        scale = float(want.double().abs().max()) if want.numel() else 0.0
        torch.testing.assert_close(got, want, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True)


def main():
    """Compare with eager mode and, on a GPU, time both."""
    given = inputs()
    try:
        check(given)
    except cuda.KernelTimeout as error:
        raise SystemExit(f"not checked: {error}\\n$remedy") from None
    print(f"correct: equal to eager mode on {DEVICE}")
    if DEVICE.type == "cuda":
        timings = lab.time({"eager": eager, "inductor": run}, *given.values())
        for timing in timings.values():
            print(timing)
        print(f"speedup over eager mode: {lab.ratio(timings['eager'], timings['inductor']).median:.2f}")


if __name__ == "__main__":
    main()
''')


class NotWritable(ValueError):
    """Inductor's code has a construct that ``standalone`` does not support; the message names it."""


@dataclass(frozen=True)
class Kernel:
    """A Triton kernel: its function without decorators, the text of its heuristic, its helpers and imports."""

    function: str
    heuristic: str
    parameters: tuple[str, ...]
    constants: tuple[str, ...]
    helpers: Mapping[str, str]
    imports: Mapping[str, str]


def standalone(made: Generated, heading: Sequence[str]) -> str:
    """The text of a Python file with ``run``, ``eager``, ``check`` and ``main``, whose docstring is ``heading``.

    Raises ``NotWritable`` if Inductor's code has a construct that is not supported.
    """
    tree = ast.parse(made.code)
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    if any(name.startswith("partition_") for name in functions):
        raise NotWritable(f"Inductor split its call for CUDA graphs; {RAW}")
    if "call" not in functions:
        raise NotWritable(f"Inductor's code has no function named call; {RAW}")
    definitions, kernels = _imports(tree), {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            definitions[node.targets[0].id] = ast.unparse(node)
            if ast.unparse(node.value).startswith("async_compile."):
                kernels[node.targets[0].id] = _kernel(node.targets[0].id, node.value)
    helpers: dict[str, str] = {}
    for name, kernel in kernels.items():
        for helper, text in kernel.helpers.items():
            if helpers.setdefault(helper, text) != text:
                raise NotWritable(f"{name}: two kernels call different functions named {helper}; {RAW}")
        definitions |= kernel.imports
    nodes = {name: f"# {of}: {aten}\n" if of else f"# {aten}\n" for of, aten, name in NODES.findall(made.code)}
    texts = [f"@triton.jit\n{text}" for text in helpers.values()]
    texts += [f"{nodes.get(name, '')}@wt.jit\n{kernel.function}" for name, kernel in kernels.items()]
    body = _body(functions["call"], kernels, made)
    return FILE.substitute(
        heading="\n".join(heading).replace("\\", "\\\\").replace('"""', "'''"),
        imports="\n".join(_needed("\n".join([*texts, body]), definitions, {*kernels, *helpers})),
        inputs="\n".join(f'    "{name}": {(tuple(x.shape), x.stride(), x.dtype)},' for name, x in made.inputs.items()),
        tolerance=max((TOLERANCES.get(part.dtype, 0.0) for part in made.outputs), default=0.0),
        kernels="\n\n\n".join(texts) or "# There is no Triton kernel: library calls compute all of it.",
        names=", ".join(made.inputs),
        pairs=", ".join(f'"{name}": {name}' for name in made.inputs),
        body=textwrap.indent(body, "    "),
        literals="".join(f"    {name} = {value!r}\n" for name, value in made.constants.items()),
        expression=made.expression.strip(),
        remedy=REMEDY,
    )


def _imports(tree: ast.Module) -> dict[str, str]:
    """The import statement of each name that a module imports."""
    return {
        (alias.asname or alias.name).partition(".")[0]: ast.unparse(
            ast.ImportFrom(node.module, [alias], 0) if isinstance(node, ast.ImportFrom) else ast.Import([alias])
        )
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }


def _needed(text: str, definitions: Mapping[str, str], kernels: set[str]) -> list[str]:
    """The definitions of the names that ``text`` reads, imports first."""
    names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
    read = {node.id for node in names if isinstance(node.ctx, ast.Load)} - kernels
    own = ("import torch", "from warpwise import cuda, lab", "from warpwise import triton as wt")
    found = {line for name, line in definitions.items() if name in read}.union(own)
    return sorted(found, key=lambda line: (not line.startswith(("import", "from")), "warpwise" in line, line))


def _kernel(name: str, call: ast.expr) -> Kernel:
    """Read ``async_compile.triton(name, source, ...)``."""
    values = call.args if isinstance(call, ast.Call) else []
    texts = [str(value.value) for value in values if isinstance(value, ast.Constant)]
    if not ast.unparse(call).startswith("async_compile.triton(") or len(texts) < 2:
        raise NotWritable(f"{name}: {ast.unparse(call).partition('(')[0]} does not create a Triton kernel; {RAW}")
    source = textwrap.dedent(texts[1])
    tree, lines = ast.parse(source), source.splitlines()
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    helpers = {own: "\n".join(lines[node.lineno - 1 : node.end_lineno]) for own, node in functions.items()}
    own = name if name in functions else list(functions)[-1]
    text, parameters = helpers.pop(own).replace(f"def {own}(", f"def {name}(", 1), functions[own].args.args
    constants = (arg.arg for arg in parameters if arg.annotation and "constexpr" in ast.unparse(arg.annotation))
    heuristic = " ".join(map(ast.unparse, functions[own].decorator_list))
    return Kernel(text, heuristic, tuple(arg.arg for arg in parameters), tuple(constants), helpers, _imports(tree))


def _body(call: ast.FunctionDef, kernels: Mapping[str, Kernel], made: Generated) -> str:
    """The statements of ``run``: those of Inductor's ``call``, without its checks, streams and release of memory."""
    lines, returned = [], False
    for node in [inner for outer in call.body for inner in (outer.body if isinstance(outer, ast.With) else [outer])]:
        text = ast.unparse(node)
        if isinstance(node, ast.Assign) and text.endswith("= args"):
            count = len(node.targets[0].elts) if isinstance(node.targets[0], (ast.Tuple, ast.List)) else 1
            if count != len(made.order):
                raise NotWritable(
                    f"Inductor's call takes {count} inputs for {len(made.order)} in the expression; {RAW}"
                )
            text = f"{text.removesuffix('args')}({', '.join(made.order)}{',' * (count == 1)})"
        elif isinstance(node, ast.Return) and node.value:
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            if len(values) != len(made.outputs):
                raise NotWritable(f"Inductor's call returns {len(values)} tensors for {len(made.outputs)}; {RAW}")
            text = "return " + ", ".join(ast.unparse(_Calls(kernels, made).visit(value)) for value in values)
            returned = True
        else:
            text = ast.unparse(_Calls(kernels, made).visit(node))
        if not DROPPED.match(text):
            lines.append(text)
    if not returned:
        raise NotWritable(f"Inductor's call returns nothing; {RAW}")
    return "\n".join(lines)


@dataclass
class _Calls(ast.NodeTransformer):
    """Rewrites the calls in a statement: Triton launches the kernels, torch allocates tensors and calls libraries."""

    kernels: Mapping[str, Kernel]
    made: Generated

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        function, args = ast.unparse(node.func), [ast.unparse(value) for value in node.args]
        text = ast.unparse(node)
        if function.endswith(".run"):
            text = self._launch(function.removesuffix(".run"), args)
        elif function.startswith("empty_strided_"):
            text = f"torch.empty_strided({args[0]}, {args[1]}, dtype={args[2]}, device=DEVICE)"
        elif function == "reinterpret_tensor":  # its offset is relative to the tensor's own
            offset = "" if args[3:] in ([], ["0"]) else f", {args[0]}.storage_offset() + {args[3]}"
            text = f"{args[0]}.as_strided({args[1]}, {args[2]}{offset})"
        elif function.startswith("extern_kernels."):  # cuBLAS behind torch.mm
            name = function.partition(".")[2]
            text = text.replace(function, f"torch.{name}" if hasattr(torch, name) else f"torch.ops.aten.{name}", 1)
        return ast.parse(text, mode="eval").body

    def _launch(self, name: str, args: Sequence[str]) -> str:
        """``kernel.run(a, b, 64, stream=s)`` as a launch with its grid and block sizes."""
        kernel = self.kernels.get(name)
        if kernel is None:
            raise NotWritable(f"{name} is launched, but the kernels are {', '.join(self.kernels) or 'none'}; {RAW}")
        grid = found[1] if (found := re.search(r"'grid_type': '(\w+)'", kernel.heuristic)) else "Grid1D"
        if grid not in GRIDS:
            raise NotWritable(f"{name}: the grid {grid} is not one of {', '.join(GRIDS)}; {RAW}")
        runtime = [parameter for parameter in kernel.parameters if parameter not in kernel.constants]
        if len(args) != len(runtime):
            raise NotWritable(f"{name}: {len(args)} arguments for the parameters {', '.join(runtime)}; {RAW}")
        sizes, config = dict(zip(runtime, args, strict=True)), self.made.configs.get(name)
        if config:
            options = {key: value for key, value in config.kwargs.items() if key in kernel.constants}
            options |= {"num_warps": config.num_warps, "num_stages": config.num_stages}
        else:  # one row a program for a reduction, up to 1024 elements otherwise
            most = 1 if "reduction(" in kernel.heuristic else 1024 if grid == "Grid1D" else 32
            options = {key: _block(name, key, sizes, most) for key in kernel.constants} | {"num_warps": 4}
        blocks = [(sizes[f"{axis}numel"], options.get(f"{axis.upper()}BLOCK", 1)) for axis in GRIDS[grid]]
        programs = ", ".join(size if block == 1 else f"triton.cdiv({size}, {block})" for size, block in blocks)
        return f"{name}[({programs},)]({', '.join([*args, *(f'{key}={value}' for key, value in options.items())])})"


def _block(name: str, constant: str, sizes: Mapping[str, str], most: int) -> int:
    """A power of two for a block size that was not tuned."""
    axis = constant.removesuffix("BLOCK").rstrip("_").lower()
    size = sizes.get(f"{axis}numel", sizes.get(f"{axis}_numel", ""))
    if not constant.endswith("BLOCK") or not size.isdigit():
        raise NotWritable(f"{name}: no rule for its parameter {constant}; {RAW}")
    return min(2048 if axis.startswith("r") else most, 1 << max(0, int(size) - 1).bit_length())


def checked(text: str) -> None:
    """Run the ``check`` of a file of this text on its own inputs.

    Raises ``AssertionError`` or ``KernelError`` if it fails, ``KernelTimeout`` if a launch takes more than 60 s.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "generated.py"
        path.write_text(text)
        names = runpy.run_path(str(path))
        names["check"](names["inputs"]())
