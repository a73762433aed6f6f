"""Errors of ncu, with remedies."""

from __future__ import annotations

from warpwise.lab.errors import MeasurementError

PERMISSION = """\
ncu has no permission to read the GPU's performance counters (ERR_NVGPUCTRPERM): the driver restricts them to
administrators, because counters can leak other users' work. Any one of these allows it:
  - run as root, or give the process the capability CAP_SYS_ADMIN (sudo -E warpwise ...)
  - on your own machine, for everybody: write
        options nvidia NVreg_RestrictProfilingToAdminUsers=0
    to /etc/modprobe.d/nvidia-profiling.conf, then reboot (on Debian and Ubuntu after `update-initramfs -u`)
  - in a container: start it with --cap-add=SYS_ADMIN; the host's setting applies inside of it as well
  - on a rented machine: only the provider can change the host's driver; some offer machines with access to counters,
    and on a bare-metal machine you can change the setting yourself
Without counters, the same command without --ncu computes them from the machine code."""

NOT_FOUND = """\
ncu (NVIDIA Nsight Compute) was not found. It comes with the CUDA toolkit (`cuda-nsight-compute` in NVIDIA's package
repositories) and by itself from https://developer.nvidia.com/nsight-compute. Searched: $WARPWISE_NCU, $PATH,
$CUDA_HOME/bin, /usr/local/cuda/bin, /opt/nvidia/nsight-compute."""


class NcuError(MeasurementError):
    """ncu gave no usable counters; the message holds its output."""


class NcuNotFound(NcuError):
    """There is no ncu on this machine."""

    def __init__(self) -> None:
        super().__init__(NOT_FOUND)


class NcuPermission(NcuError):
    """The driver does not permit this user to read performance counters."""

    def __init__(self) -> None:
        super().__init__(PERMISSION)
