# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of a boot unit, what is found, and the steps between."""

from __future__ import annotations

import dataclasses
import re
from typing import Dict, Optional, Tuple

from ...core import unit_name
from ...core.resource import Action, NodeError

FOLDER = "/etc/systemd/system"
WANTS = FOLDER + "/multi-user.target.wants"
MARKER = "# Managed by trainyard.gpu_node."
# As systemd.unit(5) has it; what goes into a unit file is never more than a word.
_UNIT_NAME = re.compile(r"[A-Za-z0-9:_.\\@-]+\.(service|socket|target|mount|path|slice|timer)")


@dataclasses.dataclass(frozen=True)
class Unit:
    """What a resource's unit always says. ``after``: what must have had its turn."""

    description: str
    after: Tuple[str, ...]


UNITS: Dict[str, Unit] = {
    "settings": Unit(
        "Declared GPU settings of this node", ("nvidia-persistenced.service", "nvidia-fabricmanager.service")
    ),
}


@dataclasses.dataclass(frozen=True)
class Desired:
    """``before``: units that wait for this one. ``timeout_seconds``: the boot goes on without it after this time.

    ``after_mounts``: places where fstab may mount something; this unit waits for that to have ended, well or not.
    """

    resource: str
    present: bool = True
    before: Tuple[str, ...] = ()
    timeout_seconds: int = 300
    after_mounts: Tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.resource not in UNITS:
            raise NodeError(
                "resource '{0}'".format(self.resource),
                "no boot unit is known for it",
                "use one of {0}".format(", ".join(sorted(UNITS))),
            )
        for name in self.before:
            if not _UNIT_NAME.fullmatch(name):
                raise NodeError("before '{0}'".format(name), "this is no unit name", "write it as in slurmd.service")
        for path in self.after_mounts:
            if not path.startswith("/") or ".." in path.split("/"):
                raise NodeError(
                    "after_mounts {0!r}".format(path), "this is no absolute path", "write it as in /mnt/resource_nvme"
                )
        if self.timeout_seconds < 1:
            raise NodeError(
                "timeout_seconds {0}".format(self.timeout_seconds),
                "a boot must not wait for ever, nor not at all",
                "give at least 1",
            )

    @property
    def name(self) -> str:
        return "gpu-node-{0}.service".format(self.resource)

    @property
    def drop_ins(self) -> Tuple[Tuple[str, str], ...]:
        """What other units are told, by the path under :data:`FOLDER`: its text."""
        return ()

    def text(self) -> str:
        unit = UNITS[self.resource]
        before = ["Before=" + " ".join(self.before)] if self.before else []
        # local-fs.target does not wait for mounts with nofail. After alone: they are neither started nor needed by us.
        mounts = [unit_name.of_path(path, kind) for path in self.after_mounts for kind in ("mount", "automount")]
        lines = [
            "{0} Changes of yours go into {1}/{2}.d/*.conf.".format(MARKER, FOLDER, self.name),
            "[Unit]",
            "Description=" + unit.description,
            "# Nothing was declared, or the node command is gone: no failed unit.",
            "ConditionPathExists=/etc/gpu_node/node.json",
            "ConditionPathExists=/usr/local/bin/gpunode",
            "After=" + " ".join(dict.fromkeys((*unit.after, *mounts))),
            *before,
            "",
            "[Service]",
            "Type=oneshot",
            "RemainAfterExit=yes",
            "ExecStart=/usr/local/bin/gpunode apply " + self.resource,
            "TimeoutStartSec={0}".format(self.timeout_seconds),
            "",
            "[Install]",
            "WantedBy=multi-user.target",
        ]
        return "\n".join(lines) + "\n"


@dataclasses.dataclass(frozen=True)
class State:
    """``link`` is what the unit file points to when it is a symbolic link (``/dev/null`` when it is masked).

    ``stale``: systemd runs and has read another text than the one that lies there.
    """

    text: Optional[str]
    link: Optional[str]
    enabled: bool
    stale: bool
    drop_ins: Tuple[Tuple[str, Optional[str]], ...] = ()


@dataclasses.dataclass(frozen=True)
class WriteUnit(Action):
    name: str
    text: str

    def describe(self) -> str:
        return "write the boot unit {0}".format(self.name)


@dataclasses.dataclass(frozen=True)
class EnableUnit(Action):
    name: str

    def describe(self) -> str:
        return "enable {0}".format(self.name)


@dataclasses.dataclass(frozen=True)
class RemoveUnit(Action):
    name: str

    def describe(self) -> str:
        return "remove the boot unit {0}".format(self.name)


@dataclasses.dataclass(frozen=True)
class ReloadSystemd(Action):
    def describe(self) -> str:
        return "have systemd read its units again"
