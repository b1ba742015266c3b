# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the layouts of a node's GPUs."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping, Optional, Tuple

from ...core.options import REQUIRED, option, options, state
from ...core.resource import NodeError, together
from ...core.systemd import UNIT
from ...core.systemd.boot_unit import BEFORE_UNITS, at_boot, boot_timeout
from ...facts.nvml.selectors import ALL, INDEX, parse
from .names import NAME
from .parted import NotParted, entries

SECTION = "mig_layout"
CALL_TIMEOUT_SECONDS = 10.0
RUN_JOBS = tuple(
    name + ".service" for name in ("slurmd", "docker", "containerd", "crio", "podman", "kubelet", "k3s", "rke2-agent")
)
_PROFILE = (
    r"\s*(?:(?i:{0})|[0-9]{{1,9}})\s*".format(NAME.pattern),
    "name of a profile",
    "write it as 3g, 3g.20gb or 1c.3g.20gb, or give its id",
)
_COMPUTE = (r"[1-9][0-9]?c(?:\..+)?", "compute instance", "write it as 1c or 2c")
# Ids of profiles go up to some 70. No name of one is a number to YAML.
_ID = (0, 99)


@options
class Asked:
    """GPU instances of one kind."""

    profile: str = option(
        REQUIRED,
        [
            "The profile as the GPU names it (V(3g.20gb), V(1g.10gb+me)), its id, or without the memory (V(3g)), so "
            "that one line serves GPUs of 40, 80 and 141 GB.",
            "V(1c.3g.20gb) is a compute instance, as nvidia-mig-parted has it; those of one profile share as few GPU "
            "instances as they fit in.",
        ],
        form=_PROFILE,
        whole=_ID,
    )
    count: int = option(1, "So many of them.", bounds=(1, 14))
    start: Optional[int] = option(
        None,
        "The memory slice at which it starts. By default the place is chosen so that most of what stands stays, and "
        "then so that most can be made beside it.",
        bounds=(0, 15),
        example=4,
    )
    compute: Tuple[str, ...] = option(
        (),
        "Its compute instances, as V(1c) and V(2c). By default there is one, as large as it is.",
        form=_COMPUTE,
        whole=_ID,
        example=["1c", "2c"],
    )

    def __post_init__(self) -> None:
        if self.start is not None and self.count != 1:
            raise NodeError(
                "option start", "{0} instances cannot start at one place".format(self.count), "give count 1"
            )


@options
class Layout:
    """What is wanted of some GPUs."""

    gpus: Tuple[str, ...] = option(
        (ALL,),
        [
            "The GPUs: V(all) that can be divided, or a list of indexes, UUIDs and PCI addresses.",
            "An index may mean another GPU after a reboot; UUIDs and PCI addresses do not.",
        ],
        whole=INDEX,
    )
    mig: bool = option(True, "Whether MIG is on. V(false) gives the GPU back as a whole.")
    instances: Tuple[Asked, ...] = option((), "The GPU instances. None: MIG is on, and the GPU is empty.", inner=Asked)

    def __post_init__(self) -> None:
        parse(self.gpus, "option gpus")
        if self.instances and not self.mig:
            raise NodeError("option instances", "a GPU that is whole has none", "leave it out, or set mig to true")


@options
class Desired:
    """The layouts of all GPUs, and the boot unit."""

    _for_absent = ("call_timeout_seconds",)

    present: bool = state(
        [
            "V(present) makes the layouts.",
            "V(default) returns each GPU that was changed here to the mode and the instances that it had before, and "
            "removes the boot unit, the declaration and the record. The options that hold layouts do not matter then.",
        ],
        choices=("present", "default"),
    )
    layouts: Tuple[Layout, ...] = option(
        (),
        "What is wanted of which GPUs. A GPU that none of them names is left alone; one that two name is refused.",
        inner=Layout,
        example=[{"gpus": ["all"], "instances": [{"profile": "3g", "count": 2}]}],
    )
    parted_config: Mapping[str, Any] = option(
        {},
        [
            "A configuration of nvidia-mig-parted as it is, in place of O(layouts).",
            "Its indices count the GPUs by PCI address, as that program does.",
        ],
        kind="dict",
        example={
            "version": "v1",
            "mig-configs": {"two": [{"devices": "all", "mig-enabled": True, "mig-devices": {"3g.20gb": 2}}]},
        },
    )
    parted_label: Optional[str] = option(
        None,
        "The configuration of O(parted_config) that is wanted; needed where it has several.",
        needs=("parted_config",),
        example="all-balanced",
    )
    stop_units: Tuple[str, ...] = option(
        (),
        [
            "Units that hold the GPUs open and work for nobody, as C(nvidia-dcgm.service). They are stopped while a "
            "mode changes or instances end, and started again after it, also when it fails.",
            "Not one that runs jobs or containers. Without it, what holds a GPU is named, and nothing is stopped.",
        ],
        form=UNIT,
        example=["nvidia-dcgm.service", "dcgm-exporter.service", "nvidia-persistenced.service"],
    )
    exact: bool = option(
        True,
        "Whether instances that nobody asked for go. V(false) keeps them, and the others are placed around them. What "
        "is in use never goes.",
    )
    require_gpus: bool = option(False, "Fail, instead of skip, on a machine without GPUs.")
    call_timeout_seconds: float = option(
        CALL_TIMEOUT_SECONDS,
        "A single call of the driver may take so long. A call that takes longer fails the GPU that it was made for.",
        bounds=(0.1, 600),
        unit="seconds",
    )
    boot_unit: bool = at_boot(SECTION, "makes the layouts again, as no GPU keeps its instances over a reboot")
    before_units: Tuple[str, ...] = BEFORE_UNITS
    boot_timeout_seconds: int = boot_timeout(480)

    def __post_init__(self) -> None:
        jobs = [unit for unit in self.stop_units if unit in RUN_JOBS]
        if jobs:
            reason = "{0} runs jobs or containers of users".format(" and ".join(jobs))
            raise NodeError("option stop_units", reason, "drain the node, and leave it out")
        if not self.present:
            return
        twice = list(self._twice())
        if twice:
            raise together(twice)
        if self.parted_config and self.layouts:
            raise NodeError("option parted_config", "layouts are given, too", "give one of the two")
        if self.parted_config:
            try:
                entries(self.parted_config, self.parted_label)
            except NotParted as error:
                reason, _semicolon, remedy = str(error).partition("; ")
                raise NodeError("option parted_config", reason, remedy or "correct it") from error

    def _twice(self) -> Iterator[NodeError]:
        first: Dict[str, int] = {}
        for number, layout in enumerate(self.layouts):
            for gpu in layout.gpus:
                if first.setdefault(gpu.lower(), number) != number:
                    reason = "{0!r} is in layouts[{1}], too".format(gpu, first[gpu.lower()])
                    thing = "option layouts[{0}].gpus".format(number)
                    yield NodeError(thing, reason, "name each GPU in one layout")
