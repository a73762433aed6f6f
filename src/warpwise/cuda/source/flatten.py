"""Preprocess a source into one text with the user's headers inserted, so that host code in them can be removed too."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from warpwise import native
from warpwise.cuda.errors import CompileError
from warpwise.cuda.source import includes
from warpwise.cuda.source.device_code import INCLUDE as INCLUDE_LINE

_INCLUDE = re.compile(r'^([ \t]*)#([ \t]*)include[ \t]*(<[^>\n]+>|"[^"\n]+")', re.MULTILINE)
_MARK = re.compile(r'^#pragma ww_include (<[^>\n]+>|"[^"\n]+")', re.MULTILINE)
_UNROLL = re.compile(
    r"^[ \t]*#[ \t]*pragma[ \t]+unroll\b((?:(?!//|/\*)[^\n\\])*[A-Za-z_](?:(?!//|/\*)[^\n\\])*)"
    r'|\b_Pragma[ \t]*\([ \t]*"unroll\b([^"\n]*[A-Za-z_][^"\n]*)"[ \t]*\)',
    re.MULTILINE,
)
_UNROLLED = re.compile(r"\bww_unroll\b(.*?)\bww_unroll_end\b")
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define\b(?:\\\r?\n|[^\n])*", re.MULTILINE)
_REWRITTEN = re.compile(r"\b(?:__shared__|__asm__|asm|__global__|__constant__|__cluster_dims__)\b")


def search_path(file: str, include: Sequence[Path]) -> list[Path]:
    """Return the folders searched for `#include "x.cuh"`: that of the file, then ``include``."""
    beside = Path(file).parent
    return [*([beside] if beside.is_dir() and Path(file).exists() else []), *map(Path, include)]


def wants(text: str) -> bool:
    """Return True if a macro expands to something that the emulator rewrites, or is defined before an `#include`."""
    last = max((match.start() for match in _INCLUDE.finditer(text)), default=0)
    return any(
        define.start() < last or _REWRITTEN.search(define[0].split("define", 1)[1]) for define in _DEFINE.finditer(text)
    )


def user_headers(text: str, folders: Sequence[Path]) -> list[str]:
    """Return the contents of every header that ``text`` includes from ``folders``, directly or indirectly."""
    return [content for _, content in _walk(text, folders)]


def _walk(text: str, folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    seen: set[Path] = set()
    pending: list[tuple[str, Path | None]] = [(text, None)]
    while pending:
        content, beside = pending.pop()
        for match in INCLUDE_LINE.finditer(content):
            path = _inserted(match[1], beside, folders)
            if path is not None and path not in seen:
                seen.add(path)
                inner = path.read_text("utf-8-sig", "replace")
                yield path, inner
                pending.append((inner, path.parent))


def _inserted(name: str, beside: Path | None, folders: Sequence[Path]) -> Path | None:
    """The user's header `<name>` or `"name"`; None for one of the CUDA toolkit, of which a back end has its own."""
    path = includes.locate(name, beside, folders)
    return None if path is None or includes.of_toolkit(path, name.strip('<>"')) else path


def expand(
    text: str, file: str, folders: Sequence[Path], definitions: str, compiler: Sequence[str], expression: str = ""
) -> tuple[str, str]:
    """Return ``text`` preprocessed, with the user's headers inserted and every other `#include` unchanged.

    `#line 3 "file.cu"` directives give the lines of the source. ``expression`` is returned with its macros expanded.
    The headers that remain do not see the user's macros, except those in ``_PASSED_ON``. Raises ``CompileError`` if the
    preprocessor fails.
    """
    with tempfile.TemporaryDirectory(prefix="warpwise-") as made:
        copies: dict[Path, Path] = {}
        names: dict[str, str] = {}

        def marked(content: str, beside: Path | None) -> str:
            def line(match: re.Match[str]) -> str:
                path = _inserted(match[3], beside, folders)
                if path is None:
                    return f"{match[1]}#pragma ww_include {match[3]}"
                same = path.resolve()
                if same not in copies:
                    copies[same] = Path(made) / f"{len(copies)}_{path.name}"
                    names[str(copies[same])] = str(path)
                    inner = marked(path.read_text("utf-8-sig", "replace"), path.parent)
                    copies[same].write_text(f'#line 1 "{path}"\n{inner}')
                return f'{match[1]}#include "{copies[same]}"'

            return _UNROLL.sub(_visible, _INCLUDE.sub(line, content))

        body = marked(text, None)
        sources = [text, *(content for _, content in _walk(text, folders))]
        types = [macro for header, macro in _TYPES.items() if any(header in source for source in sources)]
        known = "\n".join([_KNOWN, *(f"#define {macro} 1" for macro in types)])
        unit = f'{known}\n{definitions}\n#line 1 "{file}"\n{body}'
        unit += f'\n#line 1 "{_EXPRESSION}"\n{expression}\n'
        command = [*compiler, "-std=c++17", "-E", "-dD", "-w", "-x", "c++", "-"]  # -dD: the output has active #defines
        result = native.run(command, input=unit)
        if result.returncode:
            raise CompileError(f"{file} cannot be preprocessed:\n{result.stderr}")
    output, _, expanded = result.stdout.rpartition(f'# 1 "{_EXPRESSION}"\n')
    output = re.sub(r'"([^"\n]+)"', lambda match: f'"{names.get(match[1], match[1])}"', output)
    passed_on = [match[0].strip() for match in _PASSED_ON.finditer(output)]
    output = _UNROLLED.sub(lambda match: f'_Pragma("unroll {match[1].strip()}")', _MACRO.sub("", output))
    head = "".join(f"{define}\n" for define in dict.fromkeys(passed_on))
    return head + _MARK.sub(lambda match: f"#include {match[1]}", _own_lines(output, file)), expanded.strip()


def _visible(match: re.Match[str]) -> str:
    """`#pragma unroll N` as code: a preprocessor replaces no macros in pragmas, whose definitions are then removed."""
    count = match[1] or match[2]
    return f"ww_unroll {count.strip()} ww_unroll_end{' ' if match[1] else ''}"


_EXPRESSION = "<warpwise expression>"
_MACRO = re.compile(r"^#[ ]?(?:define|undef) [^\n]*$", re.MULTILINE)

# Macros that the headers of CUDA and of the C library read.
_PASSED_ON = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?:NDEBUG|__CUDA_NO_\w+|_CG_\w+|(?:CUB|THRUST|CCCL)_\w+)\b[^\n(]*$",
    re.MULTILINE,
)

# The macros of nvcc, for #if in a source. The qualifiers expand to themselves: a header that supports other compilers
# defines them empty if they are not macros.
_QUALIFIERS = (
    *("__host__", "__device__", "__global__", "__shared__", "__constant__", "__managed__", "__grid_constant__"),
    *("__forceinline__", "__noinline__", "__align__", "__launch_bounds__", "__cluster_dims__", "__maxnreg__"),
)
_KNOWN = "\n".join([
    "#define __CUDACC__ 1",
    "#define __NVCC__ 1",
    "#define __CUDACC_VER_MAJOR__ 13",
    "#define __CUDACC_VER_MINOR__ 0",
    "#define CUDART_VERSION 13000",
    "#define CUDA_VERSION 13000",
    *(f"#define {name} {name}" for name in _QUALIFIERS),
])  # fmt: skip

# The macros that CUDA's headers of small floating-point types define: those headers are not inserted.
_TYPES = {
    "cuda_fp16.h": "__CUDA_FP16_TYPES_EXIST__",
    "cuda_bf16.h": "__CUDA_BF16_TYPES_EXIST__",
    "cuda_fp8.h": "__CUDA_FP8_TYPES_EXIST__",
    "cuda_fp6.h": "__CUDA_FP6_TYPES_EXIST__",
    "cuda_fp4.h": "__CUDA_FP4_TYPES_EXIST__",
}


def _own_lines(output: str, file: str) -> str:
    """Drop the output before the first line of ``file``, and the flags of the line directives."""
    start = output.find(f'# 1 "{file}"')
    body = output[start:] if start >= 0 else output
    return re.sub(r'^# (\d+) ("[^"\n]*")[^\n]*', r"#line \1 \2", body, flags=re.MULTILINE)
