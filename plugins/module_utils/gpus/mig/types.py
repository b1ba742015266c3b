# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of the GPUs, what is wanted of each, what is remembered, and the steps that change them."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...core.resource import Action
from .instances import Instance
from .place import Part

RECORD_PATH = "/var/lib/gpu_node/mig_layout.json"
# The GPUs of which ``Gpu.reset_told`` holds.
RESETS_PATH = "/run/gpu_node/mig_layout_resets.json"


@frozen
class Client:
    """A process that has the GPU, as NVML tells it: in which instance (None: the whole GPU), and who that is.

    ``unit``: the service of the system that it is, and of no user. ``owner``: the job, the pod or the container that it
    belongs to, else its unit. ``pid`` 0: the job itself, by what Slurm gave to it; ``sure`` False: it may have it.
    """

    pid: int
    gi: Optional[int] = None
    ci: Optional[int] = None
    command: str = ""
    unit: str = ""
    owner: str = ""
    sure: bool = True

    def told(self) -> str:
        if not self.pid:
            return self.owner
        where = " of {0}".format(self.owner) if self.owner else ""
        return "process {0} ({1}{2})".format(self.pid, self.command or "gone", where)


@frozen
class Memory:
    """That of a GPU instance, which its compute instances share."""

    gi: int
    total_bytes: int
    used_bytes: int


@frozen
class Gpu:
    """One GPU that answers. ``mode`` None: it cannot be divided. ``minor``: N of /dev/nvidiaN. ``files_missing``: the
    device files of its instances that are not there. ``memory``: of the instances that tell it; one without a compute
    instance does not. ``clients_untold``: why the driver does not tell all who use it. ``reset_told``: since the boot
    the driver has said that another mode comes with a reset."""

    index: int
    uuid: str
    pci_address: str
    name: Optional[str] = None
    minor: Optional[int] = None
    pci_id: Optional[int] = None
    subsystem_id: Optional[int] = None
    mode: Optional[bool] = None
    pending: Optional[bool] = None
    resetless: Optional[bool] = None
    part: Part = Part(())
    instances: Tuple[Instance, ...] = ()
    clients: Tuple[Client, ...] = ()
    clients_untold: Optional[str] = None
    reset_told: bool = False
    files_missing: Tuple[str, ...] = ()
    memory: Tuple[Memory, ...] = ()

    @property
    def label(self) -> str:
        return "GPU {0} ({1})".format(self.index, self.pci_address)


@frozen
class FailedGpu:
    """A GPU that does not answer, as far as it is known. ``lost``: as a whole; otherwise it answers, and only how it
    is divided is not told."""

    index: Optional[int]
    uuid: Optional[str]
    pci_address: Optional[str]
    message: str
    lost: bool = True


@frozen
class Piece:
    """A GPU instance as it is remembered, so that it can be made again."""

    profile: int
    start: int
    compute: Tuple[int, ...]


@frozen
class Standing:
    """The mode and the instances of a GPU at some time."""

    mode: bool
    pieces: Tuple[Piece, ...] = ()


@frozen
class Entry:
    """What is remembered of one GPU: how it was before us, and, while a change runs, how it was before that.

    ``made``: the instances as they were made, so that after a boot they are made at the same places: their device
    files have their numbers from these.
    """

    before: Standing
    journal: Optional[Standing] = None
    made: Optional[Standing] = None


# The PCI address of a GPU, and the id of an instance on it; None: all of the GPU.
Place = Tuple[str, Optional[int]]


@frozen
class Job:
    """A job of Slurm that runs on this node. ``places`` None: it may have any GPU."""

    name: str
    places: Optional[Tuple[Place, ...]] = None


@frozen
class State:
    """All of it. ``absent`` says why there is no GPU; ``declared`` is our section of the declaration.

    ``holding``: those of the units that may be stopped that run now, with what systemd stops along with them
    (``along``); ``stopped``: those that a run has stopped and not started again, as it was killed. ``manager``:
    nvidia-mig-parted's service gives the GPUs its layout, too. ``moved``: the record is of another machine.
    """

    gpus: Tuple[Gpu, ...] = ()
    failed: Tuple[FailedGpu, ...] = ()
    entries: Tuple[Tuple[str, Entry], ...] = ()
    declared: Optional[Mapping[str, Any]] = None
    absent: Optional[str] = None
    holding: Tuple[str, ...] = ()
    stopped: Tuple[str, ...] = ()
    manager: bool = False
    along: Tuple[str, ...] = ()
    jobs: Tuple[Job, ...] = ()
    moved: bool = False

    def entry(self, uuid: str) -> Optional[Entry]:
        return dict(self.entries).get(uuid)


def standing(gpu: Gpu) -> Standing:
    """How a GPU is now."""
    pieces = (Piece(i.placed.profile.id, i.placed.start, i.slices) for i in gpu.instances)
    return Standing(bool(gpu.mode), tuple(sorted(pieces, key=lambda piece: (piece.start, piece.profile))))


# Actions ----------------------------------------------------------------------------------------------


@frozen
class GpuAction(Action):
    """A step on one GPU. ``gpu`` is its name for people, ``uuid`` the one that the calls use."""

    gpu: str
    uuid: str


@frozen
class SetMode(GpuAction):
    """Switch MIG on or off. What the GPU can be divided into may only be known when it is on.

    ``resetless``: this GPU needs no reset for it, so that one which waits is held by something.
    """

    on: bool
    resetless: bool = False

    def then_look(self) -> bool:
        return True

    def describe(self) -> str:
        return "{0}: switch MIG {1}".format(self.gpu, "on" if self.on else "off")


@frozen
class EndCompute(GpuAction):
    """Take compute instances out of a GPU instance."""

    gi: int
    profile: str
    compute: Tuple[int, ...]

    def describe(self) -> str:
        return "{0}: end compute instance(s) {1} of {2}".format(
            self.gpu, ", ".join(str(number) for number in self.compute), self.profile
        )


@frozen
class EndInstance(GpuAction):
    """End a GPU instance with its compute instances."""

    gi: int
    profile: str
    start: int
    compute: Tuple[int, ...]

    def describe(self) -> str:
        return "{0}: end {1} at {2}".format(self.gpu, self.profile, self.start)


@frozen
class MakeInstance(GpuAction):
    """Make a GPU instance at its place, with its compute instances."""

    profile: str
    profile_id: int
    start: int
    size: int
    compute: Tuple[int, ...]

    def describe(self) -> str:
        parts = ", divided into " + (" + ".join("{0}c".format(slices) for slices in self.compute) or "nothing")
        if len(self.compute) == 1:
            parts = ""
        return "{0}: make {1} at {2}{3}".format(self.gpu, self.profile, self.start, parts)


@frozen
class MakeCompute(GpuAction):
    """Make compute instances in a GPU instance that stays."""

    gi: int
    profile: str
    compute: Tuple[int, ...]

    def describe(self) -> str:
        return "{0}: make {1} in {2}".format(
            self.gpu, " + ".join("{0}c".format(slices) for slices in self.compute), self.profile
        )


@frozen
class MakeFiles(GpuAction):
    """Make the device files of a GPU's instances. ``minor``: N of its own /dev/nvidiaN."""

    minor: int

    def describe(self) -> str:
        return "{0}: make the device files of its instances".format(self.gpu)


@frozen
class HoldUnits(Action):
    """Stop units while GPUs are divided anew, and start them again, also when that fails."""

    units: Tuple[str, ...]

    def describe(self) -> str:
        return "stop {0} meanwhile".format(" and ".join(self.units))


@frozen
class StartUnits(Action):
    """Start units that an earlier run has stopped."""

    units: Tuple[str, ...]

    def describe(self) -> str:
        return "start {0} again, which a run that was killed has stopped".format(" and ".join(self.units))


@frozen
class Remember(Action):
    """Write entries into the record; None takes a GPU out of it.

    ``stage``: before the changes the record says how to go back, after them that nothing runs any more and what was
    made; "gone" are GPUs of another machine.
    """

    stage: str
    entries: Tuple[Tuple[str, Optional[Entry]], ...]

    def describe(self) -> str:
        if self.stage == "gone":
            return "forget {0} GPU(s) of another machine in {1}".format(len(self.entries), RECORD_PATH)
        what = "how it was" if self.stage == "before" else "that it is done"
        return "note {0} on {1} GPU(s) in {2}".format(what, len(self.entries), RECORD_PATH)

    def to_dict(self) -> Dict[str, Any]:
        return {"action": "remember", "stage": self.stage, "description": self.describe()}
