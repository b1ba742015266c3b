# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of the GPUs, what is remembered of them, and the steps that change them."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...core.resource import Action

RECORD_PATH = "/var/lib/gpu_node/gpu_settings.json"

# How a clock is held. NVML cannot read locked clocks back, application clocks it can.
LOCKED = "locked"
APPLICATION = "application"
FIXED = "fixed"  # the GPU has this one memory clock and no other
UNSUPPORTED = "unsupported"  # the driver knows no way on this GPU
UNTOUCHED = "untouched"  # nobody asked
DEFAULT = "default"  # locks were lifted


@frozen
class Gpu:
    """One GPU that answers. None: the driver or the GPU does not have it."""

    index: int
    uuid: str
    pci_address: str
    name: Optional[str] = None
    persistence: Optional[bool] = None
    ecc: Optional[bool] = None
    ecc_pending: Optional[bool] = None
    compute_mode: Optional[str] = None
    mig: Optional[bool] = None
    power_limit_mw: Optional[int] = None
    power_default_mw: Optional[int] = None
    power_min_mw: Optional[int] = None
    power_max_mw: Optional[int] = None
    graphics_clock_mhz: Optional[int] = None
    memory_clock_mhz: Optional[int] = None
    max_graphics_clock_mhz: Optional[int] = None
    max_memory_clock_mhz: Optional[int] = None
    application_graphics_mhz: Optional[int] = None
    application_memory_mhz: Optional[int] = None
    default_application_graphics_mhz: Optional[int] = None
    default_application_memory_mhz: Optional[int] = None
    event_reasons: Optional[int] = None
    # Whether the calls exist in this driver's library and for this GPU's generation. Only trying tells the rest.
    can_lock_graphics: bool = False
    can_lock_memory: bool = False
    can_set_application: bool = False
    # Each memory clock with its graphics clocks, both descending.
    supported_clocks: Tuple[Tuple[int, Tuple[int, ...]], ...] = ()

    @property
    def label(self) -> str:
        return "GPU {0} ({1})".format(self.index, self.pci_address)


@frozen
class FailedGpu:
    """A GPU that does not answer, as far as it is known."""

    index: Optional[int]
    uuid: Optional[str]
    pci_address: Optional[str]
    message: str


@frozen
class ClockClaim:
    """Which clocks were set, and how. ``…_seen``: the clock showed in the readings right after it was set."""

    graphics_way: str
    memory_way: str
    graphics_mhz: Optional[int] = None
    memory_mhz: Optional[int] = None
    graphics_seen: bool = False
    memory_seen: bool = False


@frozen
class Entry:
    """What is remembered of one GPU.

    ``driver_load`` names the boot and the load of the driver that this was true under; ``persistence`` says
    whether persistence mode held the driver then. ``changed`` are the settings that we changed under this
    load. ``ecc_before`` outlives reboots, as the ECC mode does: what it was before we changed it.
    """

    driver_load: str
    persistence: bool = False
    changed: Tuple[str, ...] = ()
    clocks: Optional[ClockClaim] = None
    ecc_before: Optional[bool] = None


@frozen
class State:
    """All of it. ``absent`` says why there is no GPU to set; ``declared`` is our section of the declaration."""

    gpus: Tuple[Gpu, ...] = ()
    failed: Tuple[FailedGpu, ...] = ()
    entries: Tuple[Tuple[str, Entry], ...] = ()
    driver_load: str = ""
    persistenced: bool = False
    declared: Optional[Mapping[str, Any]] = None
    absent: Optional[str] = None

    def entry(self, uuid: str) -> Optional[Entry]:
        return dict(self.entries).get(uuid)


# Actions ----------------------------------------------------------------------------------------------


@frozen
class GpuAction(Action):
    """A setter call on one GPU. ``gpu`` is its name for people, ``uuid`` the one that the call uses."""

    gpu: str
    uuid: str
    index: int


@frozen
class SetPersistence(GpuAction):
    enabled: bool

    def describe(self) -> str:
        return "{0}: switch persistence mode {1}".format(self.gpu, "on" if self.enabled else "off")


@frozen
class SetEcc(GpuAction):
    enabled: bool

    def describe(self) -> str:
        return "{0}: switch ECC {1} from the next reset or reboot on".format(self.gpu, "on" if self.enabled else "off")


@frozen
class SetPowerLimit(GpuAction):
    limit_mw: int

    def describe(self) -> str:
        return "{0}: set the power limit to {1:g} W".format(self.gpu, self.limit_mw / 1000.0)


@frozen
class SetComputeMode(GpuAction):
    mode: str

    def describe(self) -> str:
        return "{0}: set the compute mode to {1}".format(self.gpu, self.mode)


@frozen
class SetClocks(GpuAction):
    """Hold the clocks. When the driver refuses a lock, the application pair (if any) is tried.

    ``required``: the values were asked for as such, so a GPU without a way is a failure.
    """

    graphics_mhz: Optional[int]
    memory_mhz: Optional[int]
    graphics_way: str
    memory_way: str
    application_graphics_mhz: Optional[int]
    application_memory_mhz: Optional[int]
    required: bool

    def describe(self) -> str:
        parts = []
        for name, mhz, way in (
            ("graphics", self.graphics_mhz, self.graphics_way),
            ("memory", self.memory_mhz, self.memory_way),
        ):
            if way in (LOCKED, APPLICATION):
                verb = "lock the {0} clock at {1} MHz" if way == LOCKED else "set the {0} application clock to {1} MHz"
                parts.append(verb.format(name, mhz))
        return "{0}: {1}".format(self.gpu, " and ".join(parts))


@frozen
class ResetClocks(GpuAction):
    """Lift what can be lifted; a call that the driver lacks had nothing to lift."""

    graphics_lock: bool
    memory_lock: bool
    application: bool

    def describe(self) -> str:
        return "{0}: return the clocks to the driver's default".format(self.gpu)


@frozen
class Remember(Action):
    """Write entries into the record; None takes a GPU out of it.

    Before the setters it withdraws what is about to change; after them it states what was set. A crash in
    between therefore leaves a GPU unstated, never stated wrongly.
    """

    stage: str
    entries: Tuple[Tuple[str, Optional[Entry]], ...]

    def describe(self) -> str:
        what = "what is about to change" if self.stage == "before" else "what is set"
        return "note {0} on {1} GPU(s) in {2}".format(what, len(self.entries), RECORD_PATH)

    def to_dict(self) -> Dict[str, Any]:
        return {"action": "remember", "stage": self.stage, "description": self.describe()}


@frozen
class Forget(Action):
    """Take the whole record away."""

    def describe(self) -> str:
        return "remove {0}".format(RECORD_PATH)
