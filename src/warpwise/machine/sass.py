"""nvdisasm's text taken apart: functions, labels, instructions, operands and the scheduling bits."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field, replace

from warpwise.machine.elf import Image
from warpwise.machine.program import Control, Instruction, Operand, Program

INSTRUCTION_BYTES = 16
_SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+),")
_TARGET = re.compile(r"\s*\.(?:target\s+sm_|headerflags\s.*?\bEF_CUDA_SM)(\d+)(\d)")  # of toolkits 13 and 12
_LINE = re.compile(r'//## File "([^"]*)", line (\d+)')
_LABEL = re.compile(r"([.$\w]+):\s*$")
_ENTRY = re.compile(r'\s*\.other\s+([.$\w]+),\s*@"STO_CUDA_ENTRY')
_CODE = re.compile(r"\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;\s*(?:\(\*.*?\*\)\s*)?/\*\s*0x([0-9a-f]{16})\s*\*/")
_CODE_WITHOUT_SEMICOLON = re.compile(r"\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*/\*\s*0x([0-9a-f]{16})\s*\*/")
_ANNOTATION = re.compile(r"\s+[&?]\w+.*$")  # of scoreboards, which nvdisasm adds for sm_120
_SECOND_WORD = re.compile(r"\s*/\*\s*0x([0-9a-f]{16})\s*\*/\s*$")
_GUARD = re.compile(r"@(!?)(U?P)(\d|T)\s+")


@dataclass
class _Function:
    """A text section before its labels are known."""

    entry: bool = False
    lines: list[tuple[int, str, int, int, tuple[tuple[str, int], ...]]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


def parse(text: str, cubin: bytes, symbol: str) -> Program:
    """The program of the kernel ``symbol`` out of ``text``, what ``disassemble`` printed for ``cubin``."""
    layout = Image(cubin).layout(symbol)
    architecture, functions = _functions(text)
    if architecture < (7, 5):
        raise ValueError(f"machine: expected a cubin for sm_75 or later, got sm_{architecture[0]}{architecture[1]}")
    chosen = _with_callees(functions, symbol)
    labels: dict[str, int] = {}
    base = 0
    for name in chosen:
        function = functions[name]
        labels.update({label: base + address for label, address in function.labels.items()})
        labels[name] = base
        base += len(function.lines) * INSTRUCTION_BYTES
    instructions: list[Instruction] = []
    memory: dict[str, tuple[Operand, ...]] = {}
    for name in chosen:
        base = len(instructions) * INSTRUCTION_BYTES
        instructions += [_instruction(base, line, labels, memory) for line in functions[name].lines]
    reserved = 1024 if architecture >= (9, 0) else 0
    return Program(
        symbol=symbol,
        architecture=architecture,
        instructions=tuple(instructions),
        registers=layout.registers,
        static_shared=max(0, layout.shared - reserved),
        local_bytes=layout.local,
        parameter_base=layout.parameter_base,
        parameters=layout.parameters,
        banks=layout.banks,
        reserved_shared=reserved,
        device_image=layout.device_image,
        variables=layout.variables,
        externals=layout.externals,
        cooperative=_synchronises_grid(instructions, architecture),
        waits_for_blocks=any(
            each.opcode in ("ATOM", "ATOMG") or (each.opcode in ("LD", "LDG") and "STRONG" in each.modifiers)
            for each in instructions
        ),
    )


def _functions(text: str) -> tuple[tuple[int, int], dict[str, _Function]]:
    architecture = (0, 0)
    functions: dict[str, _Function] = {}
    function = _Function()
    where: list[tuple[str, int]] = []
    fresh = True  # whether the next source line begins a new place rather than the caller of the one before
    lines = iter(text.splitlines())
    for line in lines:
        code = _CODE.match(line) or _CODE_WITHOUT_SEMICOLON.match(line)
        if code:
            second = _SECOND_WORD.match(next(lines, ""))
            if second is None:
                raise ValueError(f"machine: expected the second half of an encoding after {line.strip()!r}")
            address, low, high = int(code[1], 16), int(code[3], 16), int(second[1], 16)
            if address != len(function.lines) * INSTRUCTION_BYTES:
                raise ValueError(f"machine: expected 16-byte instructions (sm_70 and later), got {line.strip()!r}")
            function.lines.append((address, _ANNOTATION.sub("", code[2]).rstrip(), low, high, tuple(where)))
            fresh = True
        elif "//## File" in line:
            if fresh:
                where, fresh = [], False
            found = _LINE.findall(line)
            where.append((found[0][0], int(found[0][1])))
        elif match := _LABEL.match(line):
            function.labels[match[1]] = len(function.lines) * INSTRUCTION_BYTES
        elif match := _SECTION.match(line):
            function = functions.setdefault(match[1], _Function())
            where = []
        elif match := _ENTRY.match(line):
            function.entry = True
        elif match := _TARGET.match(line):
            architecture = (int(match[1]), int(match[2]))
    return architecture, functions


def _with_callees(functions: dict[str, _Function], symbol: str) -> list[str]:
    """The kernel's section first, then those of functions that it refers to, directly or not."""
    homes = {label: name for name, function in functions.items() for label in (*function.labels, name)}
    chosen = [symbol]
    for name in chosen:  # grows while it is walked
        for _, code, *_ in functions[name].lines:
            for label in re.findall(r"`\(([^)]+)\)|@\(([^)]+)\)", code):
                home = homes.get(label[0] or label[1])
                if home is not None and home not in chosen:
                    chosen.append(home)
    return chosen


def _instruction(
    base: int,
    line: tuple[int, str, int, int, tuple[tuple[str, int], ...]],
    labels: dict[str, int],
    known: dict[str, tuple[Operand, ...]],
) -> Instruction:
    address, code, low, high, where = line
    guard = Operand("predicate", 7)
    text = code
    if match := _GUARD.match(code):
        kind = "predicate" if match[2] == "P" else "uniform_predicate"
        guard = Operand(kind, 7 if match[3] == "T" else int(match[3]), inverted=bool(match[1]))
        code = code[match.end() :]
    spelling, _, rest = code.partition(" ")
    opcode, *modifiers = spelling.split(".")
    rest = re.sub(r"\(\*.*?\*\)", "", rest).strip()
    operands = known.get(rest)
    if operands is None:
        operands = known[rest] = tuple(
            _operand(part, labels) for field_ in _split(rest) for part in _apart(field_.strip())
        )
    if "NAN" in rest or opcode[0] == "D":
        operands = _with_encoded(operands, rest, low)
    bits = high >> 41
    control = Control(bits & 15, not bits >> 4 & 1, bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 63)
    file, number = where[0] if where else ("", 0)
    return Instruction(
        base + address, file, number, guard, opcode, tuple(modifiers), operands, control, text, tuple(where[1:])
    )


def _with_encoded(operands: tuple[Operand, ...], text: str, low: int) -> tuple[Operand, ...]:
    """A floating-point immediate with the bits that are encoded: of a NaN all, of a double the upper word."""
    floats = [k for k, part in enumerate(_split(text)) if _FLOAT.match(part.strip())]
    if len(floats) != 1 or len(operands) != len(_split(text)):
        return operands
    return tuple(replace(each, value=low >> 32) if k == floats[0] else each for k, each in enumerate(operands))


def _split(text: str) -> list[str]:
    """At the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for place, character in enumerate(text):
        if character in "[({":
            depth += 1
        elif character in "])}":
            depth -= 1
        elif character == "," and not depth:
            parts.append(text[start:place])
            start = place + 1
    return [part for part in (*parts, text[start:]) if part.strip()]


def _apart(text: str) -> list[str]:
    """Operands without a comma between them: a register and the displacement or function that a jump adds."""
    return text.split() if re.match(r"U?R\w+(\.\w+)* +(`|-?0x)", text) else [text]


_REGISTER = re.compile(r"(UR|R)(\d+|Z)((?:\.\w+)*)$")
_PREDICATE = re.compile(r"(UP|P)(\d|T)((?:\.\w+)*)$")
_CONSTANT = re.compile(r"c\[(0x[0-9a-f]+)\]\s*\[([^\]]*)\]((?:\.\w+)*)$")
_MEMORY = re.compile(r"(?:g?desc\[[^\]]*\])?\[([^\]]*)\]((?:\.\w+)*)$")
_INTEGER = re.compile(r"-?0x[0-9a-f]+$")
_FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|INF|QNAN|SNAN|NAN)$")
_DESCRIPTOR = re.compile(r"gdesc\[UR(\d+)\]((?:\.\w+)*)$")
_BARRIER = re.compile(r"(SB|B)(\d+)$")
_SYMBOL = re.compile(r"`\(([^)]+)\)$")
_HALF_OF_SYMBOL = re.compile(r"32@(lo|hi)\(\(?([^()]+?)(?:\s*\+\s*(0x[0-9a-f]+))?\)?\)$")


def _operand(text: str, labels: dict[str, int]) -> Operand:
    if _INTEGER.match(text):
        return Operand("immediate", value=int(text, 16))
    if _FLOAT.match(text):
        return Operand("immediate", value=_float_bits(text))
    negated = absolute = inverted = False
    body = text
    while body and body[0] in "-~!|":
        negated |= body[0] == "-"
        inverted |= body[0] in "~!"
        absolute |= body[0] == "|"
        body = body[1:]
    body, bar, behind = body.partition("|")
    plain = _plain(body + (behind if bar else ""), labels)
    if not (negated or absolute or inverted):
        return plain
    return replace(plain, negated=negated, absolute=absolute, inverted=inverted)


def _plain(text: str, labels: dict[str, int]) -> Operand:
    if match := _REGISTER.match(text):
        wide, suffix = _suffix(match[3])
        if match[1] == "R":
            return Operand("register", 255 if match[2] == "Z" else int(match[2]), wide=wide, suffix=suffix)
        return Operand("uniform", 63 if match[2] == "Z" else int(match[2]), wide=wide, suffix=suffix)
    if match := _PREDICATE.match(text):
        kind = "predicate" if match[1] == "P" else "uniform_predicate"
        return Operand(kind, 7 if match[2] == "T" else int(match[2]), suffix=_suffix(match[3])[1])
    if match := _CONSTANT.match(text):
        return replace(_address("constant", match[2]), bank=int(match[1], 16), suffix=_suffix(match[3])[1])
    if match := _MEMORY.match(text):
        found = _address("memory", match[1])
        return replace(found, suffix=found.suffix or _suffix(match[2])[1])
    if match := _DESCRIPTOR.match(text):  # of matrices in shared memory, in two or four uniform registers
        return Operand("other", int(match[1]), name="gdesc", suffix=_suffix(match[2])[1])
    if match := _SYMBOL.match(text):
        if match[1] in labels:
            return Operand("label", value=labels[match[1]] // INSTRUCTION_BYTES, name=match[1])
        return Operand("other", name=text)
    if match := _HALF_OF_SYMBOL.match(text):
        if match[2] in labels:
            value = labels[match[2]] + int(match[3] or "0", 16)
            return Operand("immediate", value=value & 0xFFFFFFFF if match[1] == "lo" else value >> 32, name=match[2])
        return Operand("other", name=text)
    if match := _BARRIER.match(text):
        return Operand("barrier", int(match[2]), name=match[1])
    if text.startswith("SR"):
        return Operand("special", name=text)
    return Operand("other", name=text)


def _suffix(text: str) -> tuple[bool, str]:
    """Whether a register is the low one of a pair, and the other words after its dots."""
    words = [word for word in text.split(".") if word and word != "reuse"]
    return "64" in words, ".".join(word for word in words if word != "64")


def _address(kind: str, text: str) -> Operand:
    """What stands between brackets: registers and displacements added up."""
    base, uniform, wide, value, suffixes = 255, 63, False, 0, []
    for part in text.split("+"):
        part = part.strip()
        if match := _REGISTER.match(part):
            pair, suffix = _suffix(match[3])
            if match[1] == "R":
                base = 255 if match[2] == "Z" else int(match[2])
                wide = pair
            else:
                uniform = 63 if match[2] == "Z" else int(match[2])
            suffixes += [suffix] if suffix else []
        elif _INTEGER.match(part):
            value += int(part, 16)
        elif part:
            return Operand("other", name=text)
    return Operand(
        kind, base=base, uniform_base=uniform, base_wide=wide, value=value, suffix=".".join(suffixes)
    )  # fmt: skip


def _float_bits(text: str) -> int:
    sign = 0x80000000 if text.startswith("-") else 0
    special = {"INF": 0x7F800000, "QNAN": 0x7FC00000, "SNAN": 0x7F800001, "NAN": 0x7FFFFFFF}
    word = text.lstrip("+-")
    if word in special:
        return sign | special[word]
    try:
        return int(struct.unpack("<I", struct.pack("<f", float(text)))[0])
    except OverflowError:  # a double: see _with_encoded
        return sign | special["INF"]


# Where the driver leaves the grid barrier's address (%envreg1 and 2) in constant bank 0, by the parameters' place.
GRID_BARRIER = {0x160: (0x90, 0x8C), 0x210: (0x48, 0x44), 0x380: (0x258, 0x254)}


def _synchronises_grid(instructions: list[Instruction], architecture: tuple[int, int]) -> bool:
    places = GRID_BARRIER[0x160 if architecture < (9, 0) else 0x210 if architecture < (10, 0) else 0x380]
    read = {
        operand.value for each in instructions for operand in each.operands if operand.kind == "constant" and operand.bank == 0
    }  # fmt: skip
    return read.issuperset(places)
