"""``GpuKernel``: a kernel loaded on one GPU and launched on torch's current stream."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from warpwise.cuda.errors import LaunchError
from warpwise.cuda.gpu import driver, nvrtc
from warpwise.cuda.gpu.prepared import Parameters, PreparedLaunch, available, launch
from warpwise.cuda.launch import limits
from warpwise.cuda.launch.arguments import Binder
from warpwise.cuda.launch.constants import wrong_size
from warpwise.cuda.source.signature import parse
from warpwise.device import profile_of

if TYPE_CHECKING:
    from warpwise.cuda.launch.kernel import Kernel
    from warpwise.cuda.launch.launcher import Launcher

# CUresult codes (cuda.h) of a failure in an earlier kernel, which the driver returns from the next call.
_EARLIER = {
    700: "a kernel accessed an address outside its memory",
    702: "a kernel ran longer than the display's time limit",
    710: "an assert in a kernel failed",
    714: "a kernel failed with a hardware stack error",
    715: "a kernel ran an illegal instruction (__trap() is one)",
    716: "a kernel made a misaligned access",
    717: "a kernel accessed an address in the wrong memory space",
    718: "a kernel jumped to an illegal address",
    719: "a kernel failed",
}
_COOPERATIVE_TOO_LARGE = 720


class GpuKernel:
    """One kernel on one device. The driver copies the parameters at the call, so that all launches share one block."""

    def __init__(self, kernel: Kernel, index: int) -> None:
        self.kernel, self.index = kernel, index
        self.driver = driver.driver()
        self.profile = profile_of(index)
        self._lock = threading.Lock()
        self._stream, self._current_device = driver.current_stream_function(), driver.current_device_function()
        self._launchable: set[Any] = set()
        self._shared_allowed = 0
        self._constants_version = -1
        self._synchronous = os.environ.get("WARPWISE_SYNC") == "1"  # read once: a lookup takes as long as packing
        self._device = self._done(self.driver.cuDeviceGet(index), "loading")
        torch.cuda.init()
        self._load(())

    def _load(self, constants: tuple[str, ...]) -> None:
        """Compile the cubin or take it from the cache, and load it into the device's primary context, which torch uses
        too.
        """
        cu, name = self.driver, self.kernel.expression
        self.compiled = nvrtc.compile(self.kernel.module, name, self.profile.name, constants)
        with torch.cuda.device(self.index):
            driver.make_context_current(self.index)
            self.library = self._done(cu.cuLibraryLoadData(self.compiled.cubin, [], [], 0, [], [], 0), "loading")
            handle = self._done(cu.cuLibraryGetKernel(self.library, self.compiled.symbol.encode()), "loading")
            self._handle = handle
            # Load now, so that the first launch can be captured into a CUDA graph.
            self._function = self._done(cu.cuKernelGetFunction(handle), "loading")
        attribute = cu.CUfunction_attribute
        self.max_threads = self._attribute(attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
        self.static_shared = self._attribute(attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
        self._shared_allowed = self.profile.shared_per_block
        if self.profile.compute_capability >= (9, 0):
            larger = attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED  # 16 blocks on Hopper
            self._done(cu.cuKernelSetAttribute(larger, 1, handle, self._device), "loading")
        count = len(parse(self.compiled.function_type))
        layout = [self._done(cu.cuKernelGetParamInfo(handle, i), "loading", pair=True) for i in range(count)]
        offsets, sizes = [offset for offset, _ in layout], [size for _, size in layout]
        self.binder = Binder.of(name, self.compiled.function_type, sizes, self.kernel.declaration)
        self.parameters = Parameters([slot.code for slot in self.binder.slots], offsets, sizes)

    def _attribute(self, which: Any) -> int:
        return int(self._done(self.driver.cuKernelGetAttribute(which, self._handle, self._device), "loading"))

    def launch(self, launcher: Launcher, args: Sequence[Any]) -> None:
        """Check, pack and launch on torch's current stream. Raises ``ArgumentError`` and ``LaunchError``."""
        values = self.binder.gpu(args)
        constants = self.kernel.module.constants
        if (
            constants.version != self._constants_version
            and not constants.values.keys() <= self.compiled.constants.keys()
        ):
            with self._lock:  # the cubin does not have their symbols yet: compile again
                self._load(tuple(sorted(constants.values)))
                self._launchable.clear()
        shape = launcher.grid, launcher.block, launcher.shared_bytes
        if shape not in self._launchable:
            self._check(launcher)
            self._launchable.add(shape)
        self.launch_values(launcher, values)

    def launch_values(self, launcher: Launcher, values: Sequence[Any]) -> None:
        """Launch with values that the binder returned. The launcher must have been checked by an earlier ``launch``."""
        if self._current_device() != self.index:
            with torch.cuda.device(self.index):
                self._launch(launcher, values)
        else:
            self._launch(launcher, values)

    def prepare(self, launcher: Launcher, values: Sequence[Any]) -> PreparedLaunch | None:
        """The launch with its grid and ``values`` fixed, except those that are None; None if it cannot be prepared.

        The launcher must have been checked by an earlier ``launch``. The caller passes a CUresult that is not 0 to
        ``failed``.
        """
        if self._synchronous or not available():
            return None
        shape = (*launcher.grid, *launcher.block, launcher.shared_bytes)
        return PreparedLaunch(self.parameters, int(self._function), shape, self.compiled.attribute, values)

    def failed(self, code: int, launcher: Launcher, repeat: Callable[[], int]) -> None:
        """Raise ``LaunchError`` for a CUresult, except that of a thread without a context, where ``repeat`` works."""
        if code == driver.INVALID_CONTEXT:
            driver.make_context_current(self.index)
            code = repeat()
        if code:
            raise self._error(code, "launching", launcher)

    def _check(self, launcher: Launcher) -> None:
        name, profile = self.kernel.expression, self.profile
        bounds = self.kernel.declaration.launch_bounds if self.kernel.declaration else None
        limits.check_launch(name, launcher.grid, launcher.block, profile, bounds, self.max_threads)
        limits.check_shared(name, self.static_shared, launcher.shared_bytes, profile)
        if launcher.shared_bytes > self._shared_allowed - self.static_shared:
            which = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._done(
                self.driver.cuKernelSetAttribute(which, launcher.shared_bytes, self._handle, self._device), "preparing"
            )
            self._shared_allowed = self.static_shared + launcher.shared_bytes

    def _launch(self, launcher: Launcher, values: Sequence[Any]) -> None:
        stream = self._stream(self.index)
        constants = self.kernel.module.constants
        with self._lock:
            if constants.version != self._constants_version:
                self._copy_constants(stream)
            self.parameters.fill(values)
            result = self._call(launcher, stream)
            if result == driver.INVALID_CONTEXT:  # the first use of the device in this thread
                driver.make_context_current(self.index)
                result = self._call(launcher, stream)
        if result:
            raise self._error(result, "launching", launcher)
        if self._synchronous and not torch.cuda.is_current_stream_capturing():
            result = int(self.driver.cuStreamSynchronize(stream)[0])
            if result:
                raise self._error(result, "running", launcher)

    def _call(self, launcher: Launcher, stream: int) -> int:
        shape = (*launcher.grid, *launcher.block, launcher.shared_bytes)
        attribute = self.compiled.attribute
        if attribute and available():
            return launch(int(self._function), shape, attribute, stream, self.parameters)
        launched = (self._function, *shape, stream, self.parameters.address)
        if self.compiled.cooperative:
            return int(self.driver.cuLaunchCooperativeKernel(*launched)[0])
        return int(self.driver.cuLaunchKernel(*launched, 0)[0])

    def _copy_constants(self, stream: int) -> None:
        """Copy the module's constants to the device, in stream order."""
        constants, cu = self.kernel.module.constants, self.driver
        for name, data in constants.values.items():
            symbol = self.compiled.constants[name]
            address, size = self._done(cu.cuLibraryGetGlobal(self.library, symbol.encode()), "setting", pair=True)
            if len(data) != size:
                raise wrong_size(self.kernel.module.file, name, len(data), size)
            self._done(cu.cuMemcpyHtoDAsync(address, data, size, stream), "setting")
        self._constants_version = constants.version

    def _done(self, result: tuple[Any, ...], doing: str, pair: bool = False) -> Any:
        """The values of a driver call's result. Raises ``LaunchError`` if its error code is not 0."""
        if int(result[0]):
            raise self._error(int(result[0]), doing)
        return result[1:] if pair else result[1] if len(result) > 1 else None

    def _error(self, code: int, doing: str, launcher: Launcher | None = None) -> LaunchError:
        cu, name = self.driver, self.kernel.expression
        what = cu.cuGetErrorName(cu.CUresult(code))[1].decode()
        why = cu.cuGetErrorString(cu.CUresult(code))[1].decode()
        message = f"{name}: {doing} it failed with {what} ({why})"
        if launcher is not None:
            message += f", grid {launcher.grid}, block {launcher.block}"
            message += f", {launcher.shared_bytes:,} bytes of dynamic shared memory"
        if code in _EARLIER and doing != "running":
            message += f"\n  {_EARLIER[code]}: an earlier launch, since kernels run asynchronously. "
            message += "WARPWISE_SYNC=1 raises at the call"
        elif code in _EARLIER:
            message += f"\n  {_EARLIER[code]}"
        if code in _EARLIER:
            message += "; kernel[...].check(...) finds the line. This process can use the GPU no more"
        if code == _COOPERATIVE_TOO_LARGE:
            message += "\n  it synchronises its grid, so all blocks must fit on the device at once: launch fewer"
        return LaunchError(message)
