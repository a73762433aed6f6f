"""Replays in C++ on the CPU: a function of ctypes stands for ``cuLaunchKernelEx`` and notes the parameters."""

from __future__ import annotations

import ctypes
import gc
import struct
import weakref
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad

from warpwise import fastcall
from warpwise.cuda.gpu import recording
from warpwise.cuda.gpu.recording import Empty
from warpwise.cuda.gpu.steps import NativeFunction, NativeKernel
from warpwise.cuda.launch import intercept

STREAM, OFFSETS = 0x5000, [0, 8, 16, 128]
CPU = -1


class Config(ctypes.Structure):
    _fields_ = (
        *((f"{what}_{axis}", ctypes.c_uint) for what in ("grid", "block") for axis in "xyz"),
        ("shared_bytes", ctypes.c_uint), ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )  # fmt: skip


class Driver:
    """Notes each launch: function, grid, block, shared memory, stream, and the parameters by ``OFFSETS``."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []
        self.attributes: list[list[int]] = []
        self.code = 0

        @ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(Config), ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
        )
        def launch(config, function, table, extra):
            made = config.contents
            shape = tuple(getattr(made, name) for name, _ in Config._fields_[:7])
            pointer, number, small, tensor_map = (table[at] for at in range(4))
            words = 18 * made.attribute_count  # of 4 bytes: id, padding, and 16 of the value
            self.attributes.append(list((ctypes.c_int * words).from_address(made.attributes)) if words else [])
            self.launches.append((
                function, shape, made.stream, ctypes.c_uint64.from_address(pointer).value,
                ctypes.c_double.from_address(number).value, ctypes.c_int32.from_address(small).value,
                ctypes.string_at(tensor_map, 128),
            ))  # fmt: skip
            return self.code

        self.function = launch


@pytest.fixture
def driver() -> Any:
    library, made = recording.native_library(), Driver()
    address = ctypes.cast(made.function, ctypes.c_void_p).value
    library.configure(address, lambda index: STREAM, lambda: CPU, intercept.INTERCEPTORS, vars(forward_ad))
    yield made
    library.configure(0, lambda index: STREAM, lambda: CPU, intercept.INTERCEPTORS, vars(forward_ad))


class MapsByAddress(dict):
    def __missing__(self, address: int) -> bytes:
        self[address] = struct.pack("=Q120x", address)
        return self[address]


def kernel(constants: dict[str, Any] | None = None, maps: Any = None, attribute: int = 0) -> NativeKernel:
    """Parameters: the output's address, a varying double, an int, and a tensor map of the input's address + 4."""
    memory = struct.pack("=Qdi108x128x", 0, 0.0, 7)
    maps, constants = MapsByAddress() if maps is None else maps, {} if constants is None else constants
    return NativeKernel(
        0xF00, (4, 5, 6, 128, 2, 1, 512), attribute, memory, OFFSETS,
        [(0, 0, 0)], [(128, 1, 4, maps)], [(8, 0, float, "d")], constants,
    )  # fmt: skip


def replay(steps: Any, launch: Any, like: Any = None, rooms: Any = (), copied: bool = False) -> Any:
    """Of arguments (tensor, scalar); with ``copied`` the launches read a contiguous copy of the tensor."""
    outputs = [Empty(torch.empty(3, 4))] if like is None else like
    filled = [at for at, output in enumerate(outputs) if output is not None]
    return fastcall.library().Replay(CPU, steps, outputs, filled, rooms, [(0, copied)], [1], launch)


def refused(*args: Any) -> Any:
    raise AssertionError("launched without the recording")


def test_parameters_of_a_launch(driver):
    maps = MapsByAddress()
    given = replay([kernel(maps=maps)], refused)
    for value, x in ((1.5, torch.ones(5)), (-2.0, torch.ones(6)[1:])):
        made = given(x, value)
        assert made.shape == (3, 4)
        assert made.stride() == (4, 1)
        function, shape, stream, pointer, number, small, tensor_map = driver.launches.pop()
        assert (function, shape, stream) == (0xF00, (4, 5, 6, 128, 2, 1, 512), STREAM)
        assert (pointer, number, small) == (made.data_ptr(), value, 7)
        assert struct.unpack("=Q120x", tensor_map) == (x.data_ptr() + 4,)
    assert len(maps) == 2


def test_launch_attributes(driver):
    replay([kernel(), kernel(attribute=2), kernel(attribute=6)], refused)(torch.ones(5), 0.0)
    assert driver.attributes == [[], [2, 0, 1, *[0] * 15], [6, 0, 1, *[0] * 15]]


def test_tensor_maps_are_kept_for_a_while(driver):
    maps = MapsByAddress()
    given, x = replay([kernel(maps=maps)], refused), torch.ones(2000)
    for _ in range(2):
        for start in range(1000):
            given(x[start:], 0.0)
    assert len(maps) == 1000
    assert len(driver.launches) == 2000


def test_a_launch_by_a_function(driver):
    seen: list[Any] = []
    step = NativeFunction(
        lambda stream, values: seen.append((stream, values)), [None, 3, None], [(0, 0, 8)], [(2, 0, int)]
    )
    x = torch.ones(5)
    for number in (4, 5):
        made = replay([step], refused)(x, number)
        assert seen.pop() == (STREAM, [made.data_ptr() + 8, 3, number])

    def wrong(stream: int, values: list[Any]) -> None:
        raise ZeroDivisionError("in the launch")

    with pytest.raises(ZeroDivisionError, match="in the launch"):
        replay([step._replace(function=wrong)], refused)(x, 1)


def test_several_outputs_and_memory_of_the_launch(driver):
    rooms = [Empty(torch.empty(9)), lambda: torch.zeros(5)]
    step = kernel()._replace(pointers=[(0, 3, 0)])
    given = replay([step, step], refused, [Empty(torch.empty(2)), None, Empty(torch.empty(1, 3).half())], rooms)
    first, second, third = given(torch.ones(5), 0.0)
    assert (first.shape, second, third.shape, third.dtype) == ((2,), None, (1, 3), torch.half)
    assert len(driver.launches) == 2
    assert replay([step], refused, [])(torch.ones(5), 0.0) is None


def test_a_contiguous_copy(driver):
    """A launch reads the elements of a strided tensor, in order, in memory that lives until it has been made."""
    seen: list[list[float]] = []

    def note(stream: int, values: list[Any]) -> None:
        seen.append(list((ctypes.c_float * 6).from_address(values[0])))

    step = NativeFunction(note, [None], [(0, 1, 0)], [])
    given = replay([step], refused, copied=True)
    for x in (torch.arange(6.0).view(2, 3).t(), torch.arange(12.0)[::2], torch.ones(6, requires_grad=True)):
        with torch.no_grad():
            given(x, 1.0)
        assert seen.pop() == x.flatten().tolist()


def test_what_a_recording_does_not_serve(driver):
    launched: list[Any] = []
    constants: dict[str, Any] = {}
    given, x = replay([kernel(constants)], lambda *args: launched.append(args)), torch.ones(5)
    assert given(x, 1.0) is not None
    with intercept.intercepting(lambda *args: None):
        assert given(x, 1.0) is None
    with torch.autograd.forward_ad.dual_level():
        assert given(x, 1.0) is None
    with torch.profiler.profile():
        assert given(x, 1.0) is None
    assert given(x._neg_view(), 1.0) is None
    constants["offset"] = b"abcd"
    assert given(x, 1.0) is None
    constants.clear()
    driver.code = 700
    assert given(x, 1.0) is None, "the launch without the recording raises the error"
    driver.code = 0
    assert given(x, 1.0) is not None
    assert len(launched) == 6
    with pytest.raises(ValueError, match="could not convert"):
        given(x, "text")


def test_nothing_is_kept_alive(driver):
    class Launch:
        def __call__(self, *args: Any) -> None:
            self.replay(*args)

    launch = Launch()
    launch.replay = replay([kernel()], launch)
    launch.replay(torch.ones(5), 0.0)
    gone = weakref.ref(launch)
    del launch
    gc.collect()
    assert gone() is None


class Counts(ctypes.Structure):
    _fields_ = (("count", ctypes.c_int), ("ends", ctypes.c_int * 5))


class Place(ctypes.Structure):
    _fields_ = (("count", ctypes.c_int), ("address", ctypes.c_void_p))


def test_structures_without_addresses_are_constants():
    tensor = torch.ones(4)
    recorder = recording._Recorder([tensor])
    assert recorder._constant(Counts(3, (0, 2, 5, 7, -1)))
    assert recorder._constant(Place(1, 64))
    assert not recorder._constant(Place(1, tensor.data_ptr() + 8))
