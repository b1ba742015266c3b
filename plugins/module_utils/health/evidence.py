# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the looks of checks share: the machine, and readings that several of them need, made once in a lane."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Mapping, Optional, Tuple

from ..core.host import Host
from . import kernel_log

if TYPE_CHECKING:
    from ..facts.gpu_info.types import GpuInformation
    from ..facts.image.types import Image
    from ..facts.sysfs import InfinibandDevice
    from ..facts.topology.types import Topology
    from ..gpus.mig.types import State as MigState

CALL_SECONDS = 4.0


class Evidence:
    """Handed to ``Check.look``. ``declared`` is the declaration of the node, ``settings`` its section ``health``.

    A look reads and changes nothing. Commands go through ``host.run``, with a time limit below that of the check.
    """

    def __init__(self, host: Host, declared: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any]) -> None:
        self.host = host
        self.declared = declared
        self.settings = settings
        #: What the checks of the lane ``gpu`` have seen (facts.gpu_info.Information); None: they were not made before.
        self.gpus: Any = None
        #: The share of the budget that an active check has, in seconds of wall-clock time, its setup included. It is
        #: never below ``least`` of its span. None: there is no budget.
        self.seconds: Optional[float] = None

    def bounded(self, wanted: float, setup: float) -> float:
        """``wanted`` seconds of load, or the rest of the share after ``setup`` seconds if that is less."""
        return wanted if self.seconds is None else max(0.0, min(wanted, self.seconds - setup))

    @functools.cached_property
    def topology(self) -> Topology:
        """NUMA nodes, GPUs on the bus, RDMA ports and NVMe disks, from sysfs alone."""
        from ..facts import topology  # not wanted before a job

        return topology.look(self.host, ask_nvml=False)

    @functools.cached_property
    def infiniband(self) -> Tuple[InfinibandDevice, ...]:
        """The RDMA devices of sysfs, with the state of their ports. Kept within one lane."""
        from ..facts import sysfs  # not wanted before a job

        return sysfs.infiniband_devices(self.host)

    @property
    def none_in_mig_mode(self) -> bool:
        """Whether each GPU has answered by now that it is not in MIG mode; then nothing has to ask NVML again."""
        gpus = () if self.gpus is None else self.gpus.gpus
        return bool(gpus) and all(_not_in_mig_mode(gpu) for gpu in gpus)

    @functools.cached_property
    def mig(self) -> MigState:
        """How the GPUs are divided. Kept within one lane: give checks that read it the lane ``settings``.

        :raises NodeError: NVML cannot be opened, see gpu_driver.
        """
        from ..gpus.mig.observe import observe  # not wanted before a job

        return observe(self.host, CALL_SECONDS, with_declaration=False)

    @functools.cached_property
    def image(self) -> Image:
        """The software that is installed. Kept within one lane: give checks that read it the lane ``image``."""
        from ..facts.image.look import look  # not wanted before a job

        return look(self.host)

    @functools.cached_property
    def kernel_log(self) -> kernel_log.KernelLog:
        """What the kernel said since the boot. Kept within one lane: give checks that read it the lane ``log``.

        :raises NodeError: when it cannot be read.
        """
        return kernel_log.read(self.host)


def _not_in_mig_mode(gpu: GpuInformation) -> bool:
    """A GPU without the feature has no value, and no failure either."""
    settings = gpu.groups.get("settings")
    if gpu.fault is not None or settings is None or "settings.mig_current" in gpu.failed:
        return False
    return not settings.mig_current
