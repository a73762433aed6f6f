"""A cubin's ELF sections: constant banks, variables, parameter layout, and the sizes of shared and local memory."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

_HEADER = struct.Struct("<40xQ10xHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION, _RELOCATION_IN_PLACE = struct.Struct("<QQq"), struct.Struct("<QQ")
_ATTRIBUTE = struct.Struct("<BBH")
_NOBITS, _RELA, _REL, _SYMTAB = 8, 4, 9, 2
_HAS_PAYLOAD = 4
_PARAM_CBANK, _FRAME_SIZE, _MIN_STACK_SIZE, _KPARAM_INFO, _REGCOUNT = 0x0A, 0x11, 0x12, 0x17, 0x2F
_CTA_PER_CLUSTER = 0x3D
_R_64, _R_32 = 2, 1

VARIABLES_BASE = 0x7E40_0000_0000
"""Address of the ``__device__`` variables in a run; arguments are placed above, see ``memory.FIRST_ADDRESS``."""
_ALIGNMENT = 512
EXTERNALS_BASE = 0xF000_0000
"""Address of driver functions (vprintf, __assertfail, malloc), 16 bytes apart, past the end of any program."""


@dataclass(frozen=True)
class Variable:
    """A ``__constant__`` variable (``bank`` 3) or a ``__device__`` variable (``bank`` -1); offset and size in bytes."""

    bank: int
    offset: int
    nbytes: int


@dataclass(frozen=True)
class KernelInfo:
    """A kernel's resources, parameters, constant banks and variables; sizes in bytes."""

    registers: int
    shared: int  # static, including the reserved first KiB (sm_90 and later)
    local: int
    parameter_base: int
    parameters: tuple[tuple[int, int], ...]
    banks: dict[int, bytes]
    device_image: bytes  # initial contents of the __device__ variables, at VARIABLES_BASE
    variables: dict[str, Variable] = field(default_factory=dict)
    externals: tuple[str, ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)  # blocks per cluster, of __cluster_dims__


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    info: int
    data: bytes
    nbytes: int


@dataclass(frozen=True)
class _Symbol:
    name: str
    section: int
    value: int
    nbytes: int


class Cubin:
    """A parsed cubin. Raises ``ValueError`` if it is not a 64-bit ELF file."""

    def __init__(self, cubin: bytes) -> None:
        if cubin[:5] != b"\x7fELF\x02":
            raise ValueError("machine: expected a cubin (a 64-bit ELF file)")
        table, entry, count, names = _HEADER.unpack_from(cubin)
        raw = [_SECTION.unpack_from(cubin, table + number * entry) for number in range(count)]
        strings = cubin[raw[names][4] : raw[names][4] + raw[names][5]]
        self.sections = [
            _Section(
                _string(strings, row[0]),
                row[1],
                row[7],
                b"" if row[1] == _NOBITS else cubin[row[4] : row[4] + row[5]],
                row[5],
            )
            for row in raw
        ]
        self.symbols: list[_Symbol] = []
        for row, section in zip(raw, self.sections, strict=True):
            if section.kind == _SYMTAB:
                linked = self.sections[row[6]].data
                for name, _, _, where, value, nbytes in _SYMBOL.iter_unpack(section.data):
                    self.symbols.append(_Symbol(_string(linked, name), where, value, nbytes))

        self.externals = tuple(dict.fromkeys(each.name for each in self.symbols if each.name and not each.section))

    def section(self, name: str) -> _Section | None:
        return next((section for section in self.sections if section.name == name), None)

    def kernel_info(self, symbol: str) -> KernelInfo:
        """Return the ``KernelInfo`` of ``symbol``; raise ``KeyError`` with the available kernels if there is none."""
        if self.section(f".text.{symbol}") is None:
            names = [section.name[6:] for section in self.sections if section.name.startswith(".text.")]
            raise KeyError(f"machine: no kernel {symbol!r} in the cubin; kernels: {', '.join(names) or 'none'}")
        addresses, image = self._variables()
        banks = {}
        for number in (1, 2, 3, 4, 5):
            for name in (f".nv.constant{number}.{symbol}", f".nv.constant{number}"):
                found = self.section(name)
                if found is not None:
                    banks[number] = self._relocated(found, addresses)
                    break
        shared = self.section(f".nv.shared.{symbol}")
        base, parameters = self._parameters(symbol)
        return KernelInfo(
            registers=self._kernel_attribute(_REGCOUNT, symbol),
            shared=shared.nbytes if shared else 0,
            local=max(self._kernel_attribute(_MIN_STACK_SIZE, symbol), self._kernel_attribute(_FRAME_SIZE, symbol)),
            parameter_base=base,
            parameters=parameters,
            banks=banks,
            device_image=image,
            variables=self._named_variables(addresses),
            externals=self.externals,
            cluster=self._cluster(symbol),
        )

    def _variables(self) -> tuple[dict[int, int], bytes]:
        """Return the address of each section of ``__device__`` variables, by section number, and their contents."""
        addresses: dict[int, int] = {}
        chosen = [n for n, section in enumerate(self.sections) if section.name in (".nv.global.init", ".nv.global")]
        size = 0
        for number in chosen:
            addresses[number] = VARIABLES_BASE + size
            size += -(-self.sections[number].nbytes // _ALIGNMENT) * _ALIGNMENT
        image = bytearray(size)
        for number in chosen:
            data = self._relocated(self.sections[number], addresses)
            start = addresses[number] - VARIABLES_BASE
            image[start : start + len(data)] = data
        return addresses, bytes(image)

    def _relocated(self, section: _Section, addresses: dict[int, int]) -> bytes:
        data = bytearray(section.data)
        number = next(n for n, each in enumerate(self.sections) if each is section)
        for relocations in self.sections:
            if relocations.info != number:
                continue
            if relocations.kind == _RELA:
                wanted = list(_RELOCATION.iter_unpack(relocations.data))
            elif relocations.kind == _REL:  # the addend is stored at the relocated location
                wanted = [
                    (
                        offset,
                        info,
                        int.from_bytes(data[offset : offset + (8 if info & 0xFFFFFFFF == _R_64 else 4)], "little"),
                    )
                    for offset, info in _RELOCATION_IN_PLACE.iter_unpack(relocations.data)
                ]
            else:
                continue
            for offset, info, addend in wanted:
                symbol = self.symbols[info >> 32]
                value = self._address(symbol, addresses) + addend
                if info & 0xFFFFFFFF == _R_32:
                    struct.pack_into("<I", data, offset, value & 0xFFFFFFFF)
                elif info & 0xFFFFFFFF == _R_64:
                    struct.pack_into("<Q", data, offset, value)
        return bytes(data)

    def _address(self, symbol: _Symbol, addresses: dict[int, int]) -> int:
        if symbol.name and not symbol.section:
            return EXTERNALS_BASE + 16 * self.externals.index(symbol.name)
        return addresses.get(symbol.section, 0) + symbol.value

    def _named_variables(self, addresses: dict[int, int]) -> dict[str, Variable]:
        found = {}
        for symbol in self.symbols:
            if not symbol.nbytes or not symbol.name or symbol.section >= len(self.sections):
                continue
            if self.sections[symbol.section].name == ".nv.constant3":
                found[symbol.name] = Variable(3, symbol.value, symbol.nbytes)
            elif symbol.section in addresses:
                offset = addresses[symbol.section] - VARIABLES_BASE + symbol.value
                found[symbol.name] = Variable(-1, offset, symbol.nbytes)
        return found

    def _kernel_attribute(self, attribute: int, symbol: str) -> int:
        """Return a kernel's attribute from .nv.info, or 0."""
        info = self.section(".nv.info")
        for code, payload in _attributes(info.data if info else b""):
            if code == attribute:
                number, value = struct.unpack_from("<II", payload)
                if self.symbols[number].name == symbol:
                    return int(value)
        return 0

    def _cluster(self, symbol: str) -> tuple[int, int, int]:
        info = self.section(f".nv.info.{symbol}")
        for code, payload in _attributes(info.data if info else b""):
            if code == _CTA_PER_CLUSTER:
                x, y, z = struct.unpack_from("<3I", payload)
                return max(1, x), max(1, y), max(1, z)
        return 1, 1, 1

    def _parameters(self, symbol: str) -> tuple[int, tuple[tuple[int, int], ...]]:
        base, places = 0, {}
        info = self.section(f".nv.info.{symbol}")
        for code, payload in _attributes(info.data if info else b""):
            if code == _PARAM_CBANK:
                base = struct.unpack_from("<4xH", payload)[0]
            elif code == _KPARAM_INFO:
                ordinal, offset, packed = struct.unpack_from("<4xHHI", payload)
                places[ordinal] = (offset, packed >> 18)
        return base, tuple(places[ordinal] for ordinal in sorted(places))


def _attributes(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at + _ATTRIBUTE.size <= len(data):
        kind, code, length = _ATTRIBUTE.unpack_from(data, at)
        at += _ATTRIBUTE.size
        if kind == _HAS_PAYLOAD:
            found.append((code, data[at : at + length]))
            at += length
    return found


def _string(strings: bytes, start: int) -> str:
    return strings[start : strings.index(b"\0", start)].decode()
