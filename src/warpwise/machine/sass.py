"""Parse nvdisasm's output: functions, labels, instructions, operands and scheduling bits."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field, replace

from warpwise.machine.elf import Cubin
from warpwise.machine.program import Control, Instruction, Operand, Program
from warpwise.machine.spins import polls

INSTRUCTION_BYTES = 16
_SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+),")
_TARGET = re.compile(r"\s*\.(?:target\s+sm_|headerflags\s.*?\bEF_CUDA_SM)(\d+)(\d)")  # CUDA 13 and 12
_LINE = re.compile(r'//## File "([^"]*)", line (\d+)')
_LABEL = re.compile(r"([.$\w]+):\s*$")
_ENTRY = re.compile(r'\s*\.other\s+([.$\w]+),\s*@"STO_CUDA_ENTRY')
_CODE = re.compile(r"\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;\s*(?:\(\*.*?\*\)\s*)?/\*\s*0x([0-9a-f]{16})\s*\*/")
_CODE_WITHOUT_SEMICOLON = re.compile(r"\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*/\*\s*0x([0-9a-f]{16})\s*\*/")
_ANNOTATION = re.compile(r"\s+[&?]\w+.*$")  # scoreboard annotations, which nvdisasm prints for sm_120
_SECOND_WORD = re.compile(r"\s*/\*\s*0x([0-9a-f]{16})\s*\*/\s*$")
_GUARD = re.compile(r"@(!?)(U?P)(\d|T)\s+")


@dataclass
class _Function:
    """A text section before its labels are resolved."""

    entry: bool = False
    lines: list[tuple[int, str, int, int, tuple[tuple[str, int], ...]]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


def parse(text: str, cubin: bytes, symbol: str) -> Program:
    """Return the program of the kernel ``symbol``; ``text`` is the output of ``disassemble(cubin)``."""
    layout = Cubin(cubin).kernel_info(symbol)
    architecture, functions = _parse_functions(text)
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
        instructions += [_parse_instruction(base, line, labels, memory) for line in functions[name].lines]
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
        cluster=layout.cluster,
        cooperative=_synchronises_grid(instructions, architecture),
        waits_for_blocks=any(map(polls, instructions)),
    )


def _parse_functions(text: str) -> tuple[tuple[int, int], dict[str, _Function]]:
    architecture = (0, 0)
    functions: dict[str, _Function] = {}
    function = _Function()
    location: list[tuple[str, int]] = []
    new_location = True  # False: the next source line is the call site of the previous one (inlining)
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
            function.lines.append((address, _ANNOTATION.sub("", code[2]).rstrip(), low, high, tuple(location)))
            new_location = True
        elif "//## File" in line:
            if new_location:
                location, new_location = [], False
            found = _LINE.findall(line)
            location.append((found[0][0], int(found[0][1])))
        elif match := _LABEL.match(line):
            function.labels[match[1]] = len(function.lines) * INSTRUCTION_BYTES
        elif match := _SECTION.match(line):
            function = functions.setdefault(match[1], _Function())
            location = []
        elif match := _ENTRY.match(line):
            function.entry = True
        elif match := _TARGET.match(line):
            architecture = (int(match[1]), int(match[2]))
    return architecture, functions


def _with_callees(functions: dict[str, _Function], symbol: str) -> list[str]:
    """Return the kernel's section, then those of the functions that it references, transitively."""
    homes = {label: name for name, function in functions.items() for label in (*function.labels, name)}
    chosen = [symbol]
    for name in chosen:  # the list grows during the loop
        for _, code, *_ in functions[name].lines:
            for label in re.findall(r"`\(([^)]+)\)|@\(([^)]+)\)", code):
                home = homes.get(label[0] or label[1])
                if home is not None and home not in chosen:
                    chosen.append(home)
    return chosen


def _parse_instruction(
    base: int,
    line: tuple[int, str, int, int, tuple[tuple[str, int], ...]],
    labels: dict[str, int],
    known: dict[str, tuple[Operand, ...]],
) -> Instruction:
    address, code, low, high, location = line
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
            _parse_operand(part, labels)
            for field_ in _split_operands(rest)
            for part in _split_unseparated(field_.strip())
        )
    if "NAN" in rest or opcode[0] == "D":
        operands = _with_encoded_float(operands, rest, low)
    bits = high >> 41
    control = Control(bits & 15, not bits >> 4 & 1, bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 63)
    file, number = location[0] if location else ("", 0)
    return Instruction(
        base + address, file, number, guard, opcode, tuple(modifiers), operands, control, text, tuple(location[1:])
    )


def _with_encoded_float(operands: tuple[Operand, ...], text: str, low: int) -> tuple[Operand, ...]:
    """Replace a floating-point immediate's value by its encoding: NaN payloads, and the upper word of doubles."""
    floats = [k for k, part in enumerate(_split_operands(text)) if _FLOAT.match(part.strip())]
    if len(floats) != 1 or len(operands) != len(_split_operands(text)):
        return operands
    return tuple(replace(each, value=low >> 32) if k == floats[0] else each for k, each in enumerate(operands))


def _split_operands(text: str) -> list[str]:
    """Split at the commas outside brackets."""
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


def _split_unseparated(text: str) -> list[str]:
    """Split operands that have no comma between them: the register and displacement or function of a jump."""
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


def _parse_operand(text: str, labels: dict[str, int]) -> Operand:
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
    plain = _parse_unsigned_operand(body + (behind if bar else ""), labels)
    if not (negated or absolute or inverted):
        return plain
    return replace(plain, negated=negated, absolute=absolute, inverted=inverted)


def _parse_unsigned_operand(text: str, labels: dict[str, int]) -> Operand:
    if match := _REGISTER.match(text):
        wide, suffix = _parse_suffix(match[3])
        if match[1] == "R":
            return Operand("register", 255 if match[2] == "Z" else int(match[2]), wide=wide, suffix=suffix)
        return Operand("uniform", 63 if match[2] == "Z" else int(match[2]), wide=wide, suffix=suffix)
    if match := _PREDICATE.match(text):
        kind = "predicate" if match[1] == "P" else "uniform_predicate"
        return Operand(kind, 7 if match[2] == "T" else int(match[2]), suffix=_parse_suffix(match[3])[1])
    if match := _CONSTANT.match(text):
        return replace(_parse_address("constant", match[2]), bank=int(match[1], 16), suffix=_parse_suffix(match[3])[1])
    if match := _MEMORY.match(text):
        found = _parse_address("memory", match[1])
        return replace(found, suffix=found.suffix or _parse_suffix(match[2])[1])
    if match := _DESCRIPTOR.match(text):  # wgmma matrix descriptors, in two or four uniform registers
        return Operand("other", int(match[1]), name="gdesc", suffix=_parse_suffix(match[2])[1])
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


def _parse_suffix(text: str) -> tuple[bool, str]:
    """Return whether the suffixes include .64 (a register pair), and the remaining suffixes."""
    words = [word for word in text.split(".") if word and word != "reuse"]
    return "64" in words, ".".join(word for word in words if word != "64")


def _parse_address(kind: str, text: str) -> Operand:
    """Parse the text between brackets: registers and displacements, separated by +."""
    base, uniform, wide, value, suffixes = 255, 63, False, 0, []
    for part in text.split("+"):
        part = part.strip()
        if match := _REGISTER.match(part):
            pair, suffix = _parse_suffix(match[3])
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
    return Operand(kind, base=base, uniform_base=uniform, base_wide=wide, value=value, suffix=".".join(suffixes))


def _float_bits(text: str) -> int:
    sign = 0x80000000 if text.startswith("-") else 0
    special = {"INF": 0x7F800000, "QNAN": 0x7FC00000, "SNAN": 0x7F800001, "NAN": 0x7FFFFFFF}
    word = text.lstrip("+-")
    if word in special:
        return sign | special[word]
    try:
        return int(struct.unpack("<I", struct.pack("<f", float(text)))[0])
    except OverflowError:  # a double, see _with_encoded_float
        return sign | special["INF"]


# Offsets in constant bank 0 of the grid barrier's address (%envreg1 and %envreg2), by the offset of the parameters.
GRID_BARRIER = {0x160: (0x90, 0x8C), 0x210: (0x48, 0x44), 0x380: (0x258, 0x254)}


def _synchronises_grid(instructions: list[Instruction], architecture: tuple[int, int]) -> bool:
    offsets = GRID_BARRIER[0x160 if architecture < (9, 0) else 0x210 if architecture < (10, 0) else 0x380]
    read = {
        operand.value
        for each in instructions
        for operand in each.operands
        if operand.kind == "constant" and operand.bank == 0
    }
    return read.issuperset(offsets)
