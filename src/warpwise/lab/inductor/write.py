"""``standalone``: the kernels of one Inductor output as a file that runs by itself, is read from top to bottom, and checks itself."""

from __future__ import annotations

import ast
import importlib.util
import re
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from warpwise.lab.inductor.generate import Blocks, Generated
from warpwise.lab.inductor.parse import RAW, Kernel, NotWritable, Program

WARPS = 4
GRIDS = {"Grid1D": "x", "Grid2D": "xy", "Grid3D": "xyz"}
ALLOCATES = re.compile(r"empty_strided_\w+\((\([^()]*\)), (\([^()]*\)), (torch\.\w+)\)")
RUNS = re.compile(r"^(\w+)\.run\((.*)\)$")
KEPT_NAMES = re.compile(r"^(buf\d+|arg\d+_\d+|output|outputs|torch|tl|wt|triton)$")
DTYPES = {
    torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2,
}  # fmt: skip


def standalone(made: Generated, heading: Sequence[str]) -> str:
    """The text of a Python file: why it exists, the kernels, ``launch(output, *args)``, ``main``; ``heading`` says where it comes from.

    Raises ``NotWritable`` if a kernel's launch or a call is of a kind that this does not know.
    """
    program = made.program
    if any(kernel.language != "triton" for kernel in program.kernels):
        raise NotWritable(
            "these are C++ kernels, which torch compiles; a file of Triton kernels needs the backend triton"
        )
    named = _renaming(program, made.order)
    outputs = tuple((tuple(part.shape), part.stride(), part.dtype) for part in made.outputs)
    body = _Launch(program, made.blocks, named, len(outputs)).lines()
    text = "\n".join(line.partition("#")[0] for line in body)
    kernels = [_kernel_text(kernel) for kernel in program.kernels]
    sections = [
        '"""' + _escaped("\n".join(heading)) + '\n"""\n\n' + _imports(program, text),
        *_constants(made, outputs),
        *_helpers(program),
        *kernels,
        _launch_text(made, outputs, body),
        _eager_text(made),
        MAIN,
    ]
    source = "\n\n\n".join(part for part in sections if part) + "\n"
    ast.parse(source)
    return source


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''")


def _renaming(program: Program, order: Sequence[str]) -> dict[str, str]:
    """The names that the inputs were given in the expression, where Inductor's own names leave them free."""
    if len(order) != len(program.arguments):
        raise NotWritable(
            f"Inductor's call takes {len(program.arguments)} inputs for {len(order)} of the expression; {RAW}"
        )
    taken = {kernel.name for kernel in program.kernels}
    return {
        own: name
        for own, name in zip(program.arguments, order, strict=True)
        if not KEPT_NAMES.match(name) and name not in taken
    }


@dataclass
class _Launch:
    """The statements of ``launch``, made from those of Inductor's ``call``."""

    program: Program
    blocks: Blocks
    named: Mapping[str, str]
    outputs: int

    def lines(self) -> list[str]:
        body, returned = list(self.program.body), [self._renamed(value) for value in self.program.returned]
        if len(returned) != self.outputs:
            raise NotWritable(f"Inductor's call returns {len(returned)} tensors for {self.outputs}; {RAW}")
        places = self._allocations(body)
        used: dict[str, str] = {}
        copies = []
        for position, value in enumerate(self.program.returned):
            target = "output" if self.outputs == 1 else f"output[{position}]"
            root = self._root(body, value)
            if root in places and root not in used:
                used[root] = target
            else:
                copies.append(f"{target}.copy_({returned[position]})")
        kernels = {kernel.name: kernel for kernel in self.program.kernels}
        made = []
        for line in body:
            name = line.partition(" = ")[0]
            if name in used and ALLOCATES.search(line):
                made.append(f"{name} = {used[name]}")
            else:
                made.append(self._line(line, kernels))
        return [*made, *copies]

    def _line(self, line: str, kernels: Mapping[str, Kernel]) -> str:
        if line.startswith("#"):
            found = re.search(r"Source Nodes: \[(.*?)\], Original ATen: \[(.*?)\]", line)
            return f"# {found[1]}: {found[2]}" if found and found[1] else line
        if run := RUNS.match(line):
            if run[1] not in kernels:
                raise NotWritable(
                    f"{run[1]} is run, and is none of {', '.join(kernels) or 'the kernels: there are none'}; {RAW}"
                )
            return self._renamed(self._run(kernels[run[1]], run[2]))
        line = ALLOCATES.sub(r"torch.empty_strided(\1, \2, dtype=\3, device=DEVICE)", line)
        line = re.sub(r"\breinterpret_tensor\(", "_view(", line)
        line = re.sub(r"\bextern_kernels\.(\w+)\(", lambda found: f"{_extern(found[1])}(", line)
        return self._renamed(line)

    def _renamed(self, text: str) -> str:
        text = re.sub(r"\breinterpret_tensor\(", "_view(", text)
        return re.sub(r"\barg\d+_\d+\b", lambda found: self.named.get(found[0], found[0]), text)

    def _run(self, kernel: Kernel, text: str) -> str:
        """``kernel.run(a, b, 64, stream=s)`` as a launch with its grid and block sizes."""
        call = ast.parse(f"f({text})", mode="eval").body
        given = [ast.unparse(value) for value in call.args]  # type: ignore[attr-defined]
        plain = [name for name in kernel.parameters if name not in kernel.constants]
        if len(given) != len(plain):
            raise NotWritable(f"{kernel.name}: {len(given)} arguments for the parameters {', '.join(plain)}; {RAW}")
        sizes = dict(zip(plain, given, strict=True))
        meta = dict(self.blocks.get(kernel.name) or _chosen(kernel, sizes))
        grid = ", ".join(_blocks(kernel, sizes, meta, axis) for axis in GRIDS[_grid(kernel)])
        options = "".join(f", {name}={value}" for name, value in meta.items())
        return f"{kernel.name}[({grid},)]({', '.join(given)}{options})"

    def _allocations(self, body: Sequence[str]) -> set[str]:
        """Buffers that are allocated once and bound to nothing else."""
        bound = [line.partition(" = ")[0] for line in body if re.match(r"^\w+ = ", line)]
        return {
            line.partition(" = ")[0]
            for line in body
            if ALLOCATES.search(line) and bound.count(line.partition(" = ")[0]) == 1
        }

    def _root(self, body: Sequence[str], name: str) -> str:
        """The buffer that ``name`` is another name for."""
        for line in reversed(body):
            if found := re.match(rf"^{re.escape(name)} = (\w+)\b(?!\()(?:  #.*)?$", line):
                name = found[1]
        return name


def _grid(kernel: Kernel) -> str:
    if kernel.grid_type not in GRIDS:
        raise NotWritable(f"{kernel.name}: its grid is a {kernel.grid_type}, and this knows {', '.join(GRIDS)}; {RAW}")
    return kernel.grid_type


def _blocks(kernel: Kernel, sizes: Mapping[str, str], meta: Mapping[str, int], axis: str) -> str:
    """How many programs there are along ``axis``; a kernel without a block there has one program an element."""
    size, block = sizes[f"{axis}numel"], meta.get(f"{axis.upper()}BLOCK", 1)
    return size if block == 1 else f"triton.cdiv({size}, {block})"


def _chosen(kernel: Kernel, sizes: Mapping[str, str]) -> dict[str, int]:
    """Block sizes where none were measured: one row a program for a reduction, 1024 elements for what is none."""
    axes = len(GRIDS[_grid(kernel)])
    reduces = "reduction" in kernel.kind
    found = {}
    for name in kernel.constants:
        axis = name.removesuffix("BLOCK").rstrip("_").lower()
        size = sizes.get(f"{axis}numel", sizes.get(f"{axis}_numel", ""))
        if not name.endswith("BLOCK") or not size.isdigit():
            raise NotWritable(f"{kernel.name}: no rule for its parameter {name}; {RAW}")
        most = 2048 if axis.startswith("r") else 1 if reduces else 1024 if axes == 1 else 32
        found[name] = min(most, 1 << max(0, int(size) - 1).bit_length())
    return {**found, "num_warps": WARPS}


def _extern(name: str) -> str:
    """A call of a library as torch offers it: cuBLAS behind ``torch.mm``."""
    return f"torch.{name}" if hasattr(torch, name) else f"torch.ops.aten.{name}"


def _kernel_text(kernel: Kernel) -> str:
    said = f"# {kernel.nodes}\n" if kernel.nodes else ""
    return f"{said}@wt.jit\n{kernel.function}"


def _helpers(program: Program) -> list[str]:
    """Functions that kernels call, each once. Raises ``NotWritable`` if two kernels have different ones of one name."""
    seen: dict[str, str] = {}
    for kernel in program.kernels:
        for helper in kernel.helpers:
            name = helper.partition("def ")[2].partition("(")[0]
            if seen.setdefault(name, helper) != helper:
                raise NotWritable(f"{kernel.name}: two kernels call different functions named {name}; {RAW}")
    return [f"@triton.jit\n{helper}" for helper in seen.values()]


def _imports(program: Program, body: str) -> str:
    """torch, Triton, Inductor's helpers as far as a kernel calls them, and what ``launch`` uses of the file's head."""
    kernels = "\n".join(
        (
            *(kernel.function for kernel in program.kernels),
            *(text for kernel in program.kernels for text in kernel.helpers),
        )
    )
    lines = ["import torch"]
    if program.kernels:
        lines += ["import triton", "import triton.language as tl"]
    for name, origin in (
        ("triton_helpers", "from torch._inductor.runtime import triton_helpers"),
        ("libdevice", "from torch._inductor.runtime.triton_helpers import libdevice"),
        ("tl_math", "from torch._inductor.runtime.triton_helpers import math as tl_math"),
    ):
        if re.search(rf"\b{name}\.", kernels):
            lines.append(origin)
    head = ["", "from warpwise import lab"] + (["from warpwise import triton as wt"] if program.kernels else [])
    known = {"torch", "triton", "tl", "output", *(name for name, _ in program.globals if name == "async_compile")}
    extra = [
        text for name, text in dict(program.globals).items()
        if name not in known and re.search(rf"(?<![\w.]){name}\b", body) and not re.match(r"(empty_strided|reinterpret)", name)
    ]  # fmt: skip
    definitions = [text for text in extra if not text.startswith(("import", "from"))]
    lines += [text for text in extra if text.startswith(("import", "from")) and text not in lines]
    return "\n".join([*lines, *head, *(["", *definitions] if definitions else [])])


def _constants(made: Generated, outputs: Sequence[tuple[Any, ...]]) -> list[str]:
    """Sizes, strides and dtypes that the kernels were written for, by name."""
    rows = [
        f'    "{name}": ({tuple(value.shape)}, {value.stride()}, {value.dtype}),' for name, value in made.inputs.items()
    ]
    results = [f"    ({shape}, {stride}, {dtype})," for shape, stride, dtype in outputs]
    return [
        'DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
        "# (shape, strides, dtype): the kernels hold for these alone, their sizes are written into them.\n"
        "INPUTS = {\n" + "\n".join(rows) + "\n}\nOUTPUTS = [\n" + "\n".join(results) + "\n]"
    ]


def _launch_text(made: Generated, outputs: Sequence[tuple[Any, ...]], body: Sequence[str]) -> str:
    names = ", ".join(made.inputs)
    kind = "the output" if len(outputs) == 1 else f"the {len(outputs)} outputs"
    lines = [
        f"def launch(output, {names}):",
        f'    """Fill {kind} (see OUTPUTS) from tensors as INPUTS has them: Inductor\'s calls, in its order."""',
        f"    require({{{', '.join(f'{name!r}: {name}' for name in made.inputs)}}})".replace("'", '"'),
        *(f"    {line}" for line in body),
    ]
    view = (
        '\n\n\ndef _view(tensor, size, stride, offset=0):\n    """The memory of ``tensor`` with other sizes and strides."""\n'
        "    return tensor.as_strided(size, stride, tensor.storage_offset() + offset)"
        if any("_view(" in line for line in body)
        else ""
    )
    return REQUIRE + view + "\n\n\n" + "\n".join(lines)


def _eager_text(made: Generated) -> str:
    fixed = "".join(f"    {name} = {value!r}\n" for name, value in made.constants.items())
    body = textwrap.dedent(made.expression.strip())
    loosest = max((DTYPES.get(part.dtype, 0.0) for part in made.outputs), default=0.0)
    return (
        f'def eager({", ".join(made.inputs)}):\n    """What was asked for, by PyTorch."""\n{fixed}    return {body}\n\n\n'
        f"TOLERANCE = {loosest!r}  # against eager, which rounds as well: relative, and of the largest element"
    )


REQUIRE = '''def require(given):
    """Raise ``ValueError`` for a tensor that the kernels were not written for."""
    for name, tensor in given.items():
        found = (tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if found != INPUTS[name]:
            raise ValueError(f"{name}: expected shape, strides and dtype {INPUTS[name]}, got {found}")'''

MAIN = '''def inputs(seed=0):
    """Random tensors as INPUTS has them."""
    torch.manual_seed(seed)
    made = {}
    for name, (shape, stride, dtype) in INPUTS.items():
        values = torch.randn(shape) if dtype.is_floating_point else torch.randint(0, 2 if dtype == torch.bool else 100, shape)
        made[name] = torch.empty_strided(shape, stride, dtype=dtype, device=DEVICE).copy_(values)
    return made


def check(given):
    """Raise ``AssertionError`` unless ``launch`` gives what eager does; without a GPU it runs emulated, every access checked."""
    made = [torch.empty_strided(shape, stride, dtype=dtype, device=DEVICE) for shape, stride, dtype in OUTPUTS]
    launch(made[0] if len(made) == 1 else made, **given)
    wanted = eager(**given)
    for got, expected in zip(made, [wanted] if len(made) == 1 else wanted):
        scale = float(expected.double().abs().max()) if expected.numel() else 0.0
        torch.testing.assert_close(got, expected, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True)
    return made[0] if len(made) == 1 else made


def main():
    """Check against eager and, on a GPU, time beside it."""
    given = inputs()
    output = check(given)
    print(f"right: equal to eager on {DEVICE}")
    if DEVICE.type == "cuda":
        timings = lab.time({"eager": eager, "inductor": lambda *args: launch(output, *args)}, *given.values())
        for timing in timings.values():
            print(timing)
        print(f"eager takes {lab.ratio(timings['eager'], timings['inductor']).median:.2f} times as long")


if __name__ == "__main__":
    main()'''


def checked(text: str) -> None:
    """Run the ``check`` of a file of this text on inputs of its own. Raises ``AssertionError`` or ``KernelError`` if it is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "generated.py"
        path.write_text(text)
        found = importlib.util.spec_from_file_location("warpwise_generated", path)
        if found is None or found.loader is None:
            raise ImportError(f"{path}: Python does not import it")
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        module.check(module.inputs())
