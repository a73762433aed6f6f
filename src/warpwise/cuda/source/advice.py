"""What to add to a compiler's message: headers that were left out, features that CUDA has removed."""

from __future__ import annotations

import re

from warpwise.cuda.source.device_code import INCLUDE
from warpwise.cuda.source.lexer import Lines, lex


def left_out(text: str, pruned: str, file: str) -> list[str]:
    """The headers that ``text`` includes and ``pruned`` does not, each as `name (file:line)`."""

    def included(content: str) -> dict[str, int]:
        tokens = (token for token in lex(content) if token.kind == "directive")
        return {match[1]: token.start for token in tokens if (match := INCLUDE.match(token.text))}

    lines, kept = Lines(text, file), included(pruned)
    found = []
    for name, start in included(text).items():
        if name not in kept:
            where, line = lines.at(start)
            found.append(f"{name} ({where}:{line})")
    return found


_UNDEFINED = re.compile(r"is undefined|was not declared|has not been declared|does not name a type|not a member")


def left_out_advice(message: str, text: str, pruned: str, file: str) -> str:
    """A line that names the headers without which the kernel was compiled, if its ``message`` may be due to them."""
    absent = left_out(text, pruned, file) if _UNDEFINED.search(message) else []
    return f"compiled without the headers of host libraries: {', '.join(absent[:6])}" if absent else ""


_NO_TYPE = r".{0,3} (?:is not a template|does not name a type)"
_NO_NAME = r".{0,3} (?:is undefined|was not declared)"
_REMOVED = {
    rf"\btexture\b{_NO_TYPE}": "texture references were removed in CUDA 12: pass a cudaTextureObject_t",
    rf"\bsurface\b{_NO_TYPE}": "surface references were removed in CUDA 12: pass a cudaSurfaceObject_t",
    rf"__(?:shfl(?:_up|_down|_xor)?|any|all|ballot)\b{_NO_NAME}": (
        "warp functions without a mask were removed: use those that end in _sync, with the mask 0xffffffff"
    ),
}


def removed_advice(message: str) -> str:
    """Advice about the replacement if ``message`` is about a feature that CUDA has removed, else ""."""
    return next((advice for pattern, advice in _REMOVED.items() if re.search(pattern, message)), "")


def assembler_line(message: str, text: str, file: str) -> str:
    """The source line of the instruction that an error message of ptxas quotes, else ""."""
    for quoted in re.findall(r"ptxas .*(?:error|fatal).*?'([^']+)'", message):
        for match in re.finditer(re.escape(quoted), text):
            where, line = Lines(text, file).at(match.start())
            return f"{where}:{line}: {text[text.rfind(chr(10), 0, match.start()) + 1 :].split(chr(10))[0].strip()}"
    return ""
