# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A boot unit as it is wanted and as it is found, and the steps between."""

from __future__ import annotations

from typing import Optional, Tuple

from .. import unit_name
from ..frozen import frozen
from ..resource import Action

FOLDER = "/etc/systemd/system"
WANTS = FOLDER + "/multi-user.target.wants"
MARKER = "# Managed by trainyard.gpu_node."


@frozen
class BootUnit:
    """The unit that a resource wants. All texts are checked where options are made.

    ``after``: units that this one waits for. ``before``: units that wait for this one. ``timeout_seconds``: the boot
    goes on without it after this time. ``after_mounts``: places where fstab may mount something; this unit waits for
    that to have ended, successfully or not.
    """

    resource: str
    description: str
    after: Tuple[str, ...] = ()
    before: Tuple[str, ...] = ()
    timeout_seconds: int = 300
    after_mounts: Tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "gpu-node-{0}.service".format(self.resource)

    @property
    def path(self) -> str:
        return "{0}/{1}".format(FOLDER, self.name)

    @property
    def drop_ins(self) -> Tuple[Tuple[str, str], ...]:
        """What other units are told, by the path under :data:`FOLDER`: its text."""
        return ()

    def text(self) -> str:
        before = ["Before=" + " ".join(self.before)] if self.before else []
        # local-fs.target does not wait for mounts with nofail. After alone: they are neither started nor needed by us.
        mounts = [unit_name.of_path(path, kind) for path in self.after_mounts for kind in ("mount", "automount")]
        lines = [
            "{0} Changes of yours go into {1}.d/*.conf.".format(MARKER, self.path),
            "[Unit]",
            "Description=" + self.description,
            "# Nothing was declared, or the node command is gone: no failed unit.",
            "ConditionPathExists=/etc/gpu_node/node.json",
            "ConditionPathExists=/usr/local/bin/gpunode",
            "After=" + " ".join(dict.fromkeys((*self.after, *mounts))),
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


@frozen
class Seen:
    """``link`` is what the unit file points to when it is a symbolic link (``/dev/null`` when it is masked).

    ``stale``: systemd runs and has read another text than the one that lies there.
    """

    text: Optional[str] = None
    link: Optional[str] = None
    enabled: bool = False
    stale: bool = False
    drop_ins: Tuple[Tuple[str, Optional[str]], ...] = ()


@frozen
class WriteUnit(Action):
    """``name`` is a path under :data:`FOLDER`, as in the other steps."""

    name: str
    text: str

    def describe(self) -> str:
        return "write the boot unit {0}".format(self.name)


@frozen
class EnableUnit(Action):
    name: str

    def describe(self) -> str:
        return "enable {0}".format(self.name)


@frozen
class RemoveUnit(Action):
    name: str

    def describe(self) -> str:
        return "remove the boot unit {0}".format(self.name)


@frozen
class ReloadSystemd(Action):
    def describe(self) -> str:
        return "have systemd read its units again"
