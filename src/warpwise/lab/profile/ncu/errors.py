"""Why there are no measured counters, with what to do about it."""

from __future__ import annotations

from warpwise.lab.errors import MeasurementError

PERMISSION = """\
ncu may not read the GPU's performance counters (ERR_NVGPUCTRPERM): the driver keeps them for administrators, because
counters let one user watch another's work. Any one of these lifts it:
  - run as root, or give the process the capability CAP_SYS_ADMIN (sudo -E warpwise ...)
  - on your own machine, for everybody: write
        options nvidia NVreg_RestrictProfilingToAdminUsers=0
    to /etc/modprobe.d/nvidia-profiling.conf, then reboot (on Debian and Ubuntu after `update-initramfs -u`)
  - in a container: start it with --cap-add=SYS_ADMIN; the host's setting holds inside of it as well
  - on a rented machine: only the provider can change the host's driver; some sell machines with counters open, and
    bare-metal ones are yours to set
Without counters, the same command without --ncu computes them from the machine code."""

NOT_FOUND = """\
ncu (NVIDIA Nsight Compute) is not here. It comes with the CUDA toolkit (`cuda-nsight-compute` in NVIDIA's package
repositories) and by itself from https://developer.nvidia.com/nsight-compute. Searched: $WARPWISE_NCU, $PATH,
$CUDA_HOME/bin, /usr/local/cuda/bin, /opt/nvidia/nsight-compute."""


class NcuError(MeasurementError):
    """ncu was run and gave no usable counters; the message holds what it said."""


class NcuNotFound(NcuError):
    """There is no ncu on this machine."""

    def __init__(self) -> None:
        super().__init__(NOT_FOUND)


class NcuPermission(NcuError):
    """The driver does not let this user read performance counters."""

    def __init__(self) -> None:
        super().__init__(PERMISSION)
