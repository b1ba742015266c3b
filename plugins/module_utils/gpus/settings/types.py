# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of the GPUs, what is remembered of them, the decision about one GPU, and the steps that change them."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...core.resource import Action, Refusal

RECORD_PATH = "/var/lib/gpu_node/gpu_settings.json"

# How a clock is held. NVML cannot read locked clocks back, application clocks it can.
LOCKED = "locked"
APPLICATION = "application"
FIXED = "fixed"  # the GPU has this one memory clock and no other
UNSUPPORTED = "unsupported"  # the driver knows no way on this GPU
UNTOUCHED = "untouched"  # nobody asked
DEFAULT = "default"  # locks were lifted
_APPLICATION = ("application_graphics_mhz", "application_memory_mhz")


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

    @property
    def loose(self) -> bool:
        """Whether the driver forgets its settings when its last user leaves."""
        return self.persistence is False


@frozen
class FailedGpu:
    """A GPU that does not answer, as far as it is known."""

    index: Optional[int]
    uuid: Optional[str]
    pci_address: Optional[str]
    message: str

    @property
    def nameless(self) -> bool:
        return self.index is None and self.uuid is None and self.pci_address is None


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

    def known(self, gpu: Gpu) -> Known:
        entry = self.entry(gpu.uuid)
        current = entry if entry is not None and entry.driver_load == self.driver_load else None
        held = current is not None and current.persistence
        claim = None if current is None or (held and gpu.loose) else current.clocks
        label = gpu.label
        return Known(gpu, label, (label, gpu.uuid, gpu.index), entry, current, held, claim, self.persistenced)


@frozen
class Known:
    """One GPU and what is remembered of it. ``names``: those in each :class:`GpuAction`. ``entry``: what is remembered
    under whatever load of the driver; ``current``: under this one.

    ``held``: persistence mode held the driver then. ``claim``: its clocks, as far as they still count as set: nothing
    released the driver since.
    """

    gpu: Gpu
    label: str
    names: Tuple[str, str, int]
    entry: Optional[Entry]
    current: Optional[Entry]
    held: bool
    claim: Optional[ClockClaim]
    persistenced: bool


class Decision:
    """What is to be done to one GPU. Each setting adds to it (:mod:`.settings`)."""

    # What the record says while the steps run, and afterwards.
    early: Entry
    late: Entry

    def __init__(self, known: Known) -> None:
        self.known = known
        self.actions: List[GpuAction] = []
        self.refusals: List[Refusal] = []
        self.notes: List[str] = []
        self.unsupported: List[Dict[str, Any]] = []
        self.pending: List[Dict[str, Any]] = []
        # Of the record afterwards: names of settings, the clocks, whether persistence mode holds the driver.
        self.changed: List[str] = []
        self.claim = known.claim
        self.held = known.gpu.persistence is True
        self.ecc_before = None if known.entry is None else known.entry.ecc_before
        # Whether the record may state the clocks while the steps run.
        self.keeps_claim = True

    def cannot(self, known: Known, setting: str, reason: str, explicit: bool = False) -> None:
        """A GPU without this ability: a refusal where a value was asked for as such, else a reported fact."""
        if explicit:
            self.refusals.append(Refusal(known.label, reason, "leave {0} out for this GPU".format(setting)))
            return
        self.unsupported.append({"gpu": known.label, "uuid": known.gpu.uuid, "setting": setting, "reason": reason})
        self.notes.append("{0}: {1} is left alone, since {2}".format(known.label, setting, reason))


# Actions ----------------------------------------------------------------------------------------------


@frozen
class GpuAction(Action):
    """A setter call on one GPU. ``gpu`` is its name for people, ``uuid`` the one that the call uses."""

    gpu: str
    uuid: str
    index: int

    def after(self, gpu: Gpu) -> Dict[str, Any]:
        """The fields of the GPU that this step changes, for the diff of check mode. That a driver refuses a lock is not
        foreseen."""
        return {}


@frozen
class SetPersistence(GpuAction):
    enabled: bool

    def after(self, gpu: Gpu) -> Dict[str, Any]:
        return {"persistence": self.enabled}

    def describe(self) -> str:
        return "{0}: switch persistence mode {1}".format(self.gpu, "on" if self.enabled else "off")


@frozen
class SetEcc(GpuAction):
    enabled: bool

    def after(self, gpu: Gpu) -> Dict[str, Any]:
        return {"ecc_pending": self.enabled}

    def describe(self) -> str:
        return "{0}: switch ECC {1} from the next reset or reboot on".format(self.gpu, "on" if self.enabled else "off")


@frozen
class SetPowerLimit(GpuAction):
    limit_mw: int

    def after(self, gpu: Gpu) -> Dict[str, Any]:
        return {"power_limit_mw": self.limit_mw}

    def describe(self) -> str:
        return "{0}: set the power limit to {1:g} W".format(self.gpu, self.limit_mw / 1000.0)


@frozen
class SetComputeMode(GpuAction):
    mode: str

    def after(self, gpu: Gpu) -> Dict[str, Any]:
        return {"compute_mode": self.mode}

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

    def after(self, gpu: Gpu) -> Dict[str, Any]:
        by_application = APPLICATION in (self.graphics_way, self.memory_way)
        return {name: getattr(self, name) for name in _APPLICATION} if by_application else {}

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

    def after(self, gpu: Gpu) -> Dict[str, Any]:
        return {name: getattr(gpu, "default_" + name) for name in _APPLICATION} if self.application else {}

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
