"""Compilation of CUDA C++ to machine code by nvcc, for sources that NVRTC refuses. Needs no GPU and no driver."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from warpwise import native
from warpwise.cuda.gpu.compiled import Compiled, resources, synchronises_grid, waits_for_previous
from warpwise.cuda.gpu.flat_source import FlatSource
from warpwise.cuda.source import includes
from warpwise.cuda.source.device_code import implied_headers
from warpwise.cuda.source.kernels import address, selector
from warpwise.cuda.source.signature import demangle

ADVICE = "nvcc takes what NVRTC refuses, and is not installed: pip install nvidia-cuda-nvcc nvidia-nvvm"

# A reference from host code instantiates a template kernel. The symbols of these instances contain the mangled names of
# the kernel, of its type and of variables.
_TEMPLATES = """
template <class F> __global__ void ww_signature() {}
template <auto K> __global__ void ww_kernel() {}
template <auto* V> __global__ void ww_variable() {}
"""
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_OPTIONS = (
    "-cubin", "-lineinfo", "-std=c++17", "--expt-relaxed-constexpr", "--extended-lambda", "-Xptxas", "-v",
    "-diag-suppress=177,47,20012", "-allow-unsupported-compiler",
)  # fmt: skip
_HEAD = re.compile(
    r"\S.*?: (?:(?P<error>.*error\b)|warning|remark|note)|ptxas .*(?P<assembler>error|fatal)", re.IGNORECASE
)
_NOISE = re.compile(
    r"ptxas (?:info\b|\s|fatal\s*: Ptx assembly aborted)|\s*\^?$|\d+ errors? detected|Remark: |nvcc warning|"
    r"compilation terminated"
)
_SPELLED = re.compile(r"__attribute__\(\((global|device|host|shared|constant|managed)\)\)")
# Headers of host libraries include these, and are left out.
_IMPLICIT = "#include <float.h>\n#include <limits.h>\n#include <stdint.h>\n"
_ENTRY_FILE = "<warpwise entry>"
_FORMAT = 2  # of cached results


def find() -> Path | None:
    """nvcc of NVIDIA's wheel, of $CUDA_HOME, of $PATH or of /usr/local/cuda, or None."""
    return _find(os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "", os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=4)
def _find(home: str, path: str) -> Path | None:
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or ()) if root] if spec else []
    wheels = [root / part / "bin" / "nvcc" for root in roots for part in ("cu13", "cuda_nvcc")]
    named = shutil.which("nvcc", path=path)
    others = [Path(home) / "bin" / "nvcc"] if home else []
    others += [Path(named)] if named else []
    for file in (*wheels, *others, Path("/usr/local/cuda/bin/nvcc")):
        if file.is_file() and os.access(file, os.X_OK):
            return file
    return None


def identity() -> str:
    """The path, the version and the format of nvcc's results, "" if there is none: part of what is cached with them."""
    file = find()
    return f"{file} {_version(file)} {_FORMAT}" if file else ""


@functools.lru_cache(maxsize=4)
def _version(file: Path) -> str:
    printed = subprocess.run([str(file), "--version"], capture_output=True, text=True, check=False).stdout
    return printed.strip().rpartition("\n")[2]


def compile(source: FlatSource) -> Compiled:
    """Compile the kernel of ``source``. Raises ``CompileError`` with nvcc's message."""
    file = find()
    if file is None:
        raise FileNotFoundError(ADVICE)
    own = file.resolve().parents[1] / "include"
    folders = (own, own / "cccl", *includes.toolkit(), *native.header_folders(source.compiler))
    pruned = source.pruned(folders)
    with tempfile.TemporaryDirectory(prefix="warpwise-") as made:
        unit, cubin = Path(made) / "kernel.cu", Path(made) / "kernel.cubin"
        implied = "".join(f"#include <{name}>\n" for name in implied_headers(pruned, source.expression))
        unit.write_text(f"{_IMPLICIT}{implied}{pruned}\n{_instances(source)}")
        more = [f"-I{folder}" for folder in source.include]
        if not (own / "cuda_runtime.h").is_file():
            more += [f"-I{folder}" for folder in includes.toolkit()]
        host = [] if source.compiler[0].endswith("zig") else ["-ccbin", source.compiler[0]]
        command = [str(file), *_OPTIONS, f"-arch={source.arch}", *host, *more, "-o", str(cubin), str(unit)]
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "NVCC_APPEND_FLAGS": "", "NVCC_PREPEND_FLAGS": ""}
        result = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", check=False, env=environment
        )
        log = result.stdout + result.stderr
        if result.returncode:
            raise source.error(_errors(log.replace(str(unit), source.file), source), pruned)
        code = cubin.read_bytes()
    entries = _ENTRY.findall(log)
    function_type = demangle(_only(entries, "ww_signature"))
    symbol = _symbol(_only(entries, "ww_kernel"), function_type, entries)
    variables = [entry for entry in entries if "ww_variable" in entry]
    by_name = {_name(entry): _variable(entry, code) for entry in variables}
    return Compiled(
        source.given,
        source.arch,
        symbol,
        function_type,
        **resources(log, symbol),
        cooperative=synchronises_grid(code, symbol),
        programmatic=waits_for_previous(code, symbol),
        constants={name: by_name[name.removeprefix("::")] for name in source.constants},
        log="\n".join(line for line in log.splitlines() if "ww_" not in line).strip(),
        cubin=code,
        compiler="nvcc",
    )


def _errors(log: str, source: FlatSource) -> str:
    """The errors in ``log`` without warnings. Those about the kernel's name expression are given without our code."""
    kept, keep = [], True
    for line in log.splitlines():
        head = _HEAD.match(line)
        if head:
            keep = bool(head["error"] or head["assembler"])
        if not keep or _NOISE.match(line):
            continue
        if line.startswith(_ENTRY_FILE):
            keep = False
            if "ww_kernel" in line or '"auto"' in line:
                continue
            line = re.sub(rf"{_ENTRY_FILE}\(\d+\)", f"{source.file}: {source.given}", line)
        line = re.sub(r"^ptxas \S+\.ptx, line \d+; ", "ptxas ", line)
        kept.append(_SPELLED.sub(r"__\1__", line.rstrip()))
    return "\n".join(kept)


def _instances(source: FlatSource) -> str:
    kernel = address(selector(source.expression, source.text))
    uses = [f"ww_kernel<{kernel}>", f"ww_signature<decltype({kernel})>"]
    uses += [f"ww_variable<&{name}>" for name in source.constants]
    stores = " ".join(f"*addresses = &{name};" for name in source.constants)  # a variable that nothing uses is removed
    keep = f"__global__ void ww_keep(const volatile void** addresses) {{ {stores} }}"
    references = " ".join(f"(void)&{use};" for use in uses)
    return f'{_TEMPLATES}#line 1 "{_ENTRY_FILE}"\n{keep}\nvoid ww_instances() {{ {references} }}\n'


def _only(entries: list[str], part: str) -> str:
    return next(entry for entry in entries if re.match(rf"_Z\d+{part}I", entry))


def _symbol(instance: str, function_type: str, entries: Sequence[str]) -> str:
    """The symbol of the kernel that an instance names: `_Z9ww_kernelIXadL_Z3fooPKfS1_EEEvv` names _Z3fooPKfS0_.

    The C++ names are compared, because a mangled name inside another one has other numbers for the parts it repeats.
    The demangler omits the parameters of a function of a namespace inside another name: ``function_type`` has them.
    """
    own = [entry for entry in entries if not re.match(r"_Z\d+ww_", entry)]
    if len(own) == 1:
        return own[0]
    named = demangle(instance).removeprefix("void ww_kernel<&").removesuffix(">()")
    if named.startswith("(") and named.endswith(")"):
        named = named[1:-1]
    parameters = function_type.partition("(*)")[2].removesuffix(">()")
    c_name = _base(named).rpartition("::")[2]  # of extern "C"
    matches = [entry for entry in own if _plain(entry) in (named, named + parameters, c_name)]
    return (matches or [entry for entry in own if _base(_plain(entry)) == _base(named)])[0]


def _variable(instance: str, code: bytes) -> str:
    mangled = _argument(instance)
    return mangled if mangled.encode() + b"\0" in code else _base(_plain(mangled))


def _argument(instance: str) -> str:
    match = re.match(r"_Z\d+ww_variableIXadL(_Z.+)EEEvv$", instance)
    if match is None:
        raise ValueError(f"{instance!r} is not an instance of ww_variable")
    return match[1]


def _plain(symbol: str) -> str:
    """The C++ name of a symbol; the symbol itself if it is not mangled (extern "C")."""
    try:
        return demangle(symbol)
    except ValueError:
        return symbol


def _base(name: str) -> str:
    """The name of a function or a variable with its namespaces, without template arguments and parameters."""
    return re.split(r"[(<]", name.removeprefix("void ").replace("(anonymous namespace)::", ""))[0]


def _name(instance: str) -> str:
    return re.sub(r"(?:\(anonymous namespace\)|_(?:INTERNAL|GLOBAL__N_)_\w+?)::", "", demangle(_argument(instance)))
