# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The systemd unit that converges this node at each boot, from what was unpacked."""

from __future__ import annotations

from typing import Tuple

from ..core import boot_unit
from ..core.boot_unit import BEFORE_UNITS, MARKER, BootUnit
from ..core.frozen import frozen
from ..core.host import Host
from ..core.resource import NodeError, Outcome, converge
from .places import CURRENT

# The disks are there, and our own units have re-applied what was declared. No network: the bundle needs none. Network
# file systems of fstab are waited for, as variables may name files on them.
_AFTER = (
    *(
        "local-fs.target",
        "remote-fs.target",
        "systemd-udev-settle.service",
        "gpu-node-nvme_scratch.service",
        "gpu-node-gpu_settings.service",
    ),
    *("nvidia-persistenced.service", "nvidia-fabricmanager.service"),
    # Where there is one, it writes /etc/gpu_node/site.yml; the second is its name from 24.3 on.
    *("cloud-init.service", "cloud-init-network.service"),
)
# slurmd alone: where Slurm sees no slurmd, it sends no job. The kubelet has to run for the pods that mend a node.
GUARD = "slurmd.service.d/50-gpu_node_converge.conf"
_GUARD_TEXT = """{0}
# No jobs on a node that is not ready: 'systemctl status slurmd' has the reason. To do without, empty ExecStartPre= in
# a file that sorts after this one.
[Service]
ExecStartPre={1}/converge --admit
""".format(MARKER, CURRENT)
# The longest first run seen makes an array and its file system and starts eight slow GPUs: some minutes. After this
# time the boot goes on, the record says that the run was interrupted, and the node takes no job.
TIMEOUT_SECONDS = 1800


@frozen
class ConvergeUnit(BootUnit):
    """``variables``: the files that were given besides ``/etc/gpu_node/site.yml``, by absolute paths."""

    resource: str = "converge"
    description: str = "Make this GPU node ready for jobs"
    after: Tuple[str, ...] = _AFTER
    # None of them is started by it.
    before: Tuple[str, ...] = BEFORE_UNITS.default
    timeout_seconds: int = TIMEOUT_SECONDS
    variables: Tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for path in self.variables:
            if not path.startswith("/") or set(path) & set(" \t\n\"'\\%$;"):
                raise NodeError(
                    "variables file {0!r}".format(path),
                    "its name cannot stand in a unit file",
                    "give an absolute path without blanks and quotes",
                )

    @classmethod
    def installed_variables(cls, host: Host) -> Tuple[str, ...]:
        """Those of the unit that is installed here; a run by hand is to make the node what a boot makes it."""
        text = host.read(cls().path) or ""
        words = next((line.split() for line in text.split("\n") if line.startswith("ExecStart=")), [])
        return tuple(value for option, value in zip(words, words[1:]) if option == "--variables")

    @property
    def drop_ins(self) -> Tuple[Tuple[str, str], ...]:
        return ((GUARD, _GUARD_TEXT),)

    def text(self) -> str:
        words = ["{0}/converge".format(CURRENT), "--boot"]
        words += [word for path in self.variables for word in ("--variables", path)]
        lines = [
            "{0} Changes of yours go into {1}.d/*.conf.".format(MARKER, self.path),
            "[Unit]",
            "Description=" + self.description,
            "RequiresMountsFor=/opt/gpu_node /var/lib/gpu_node",
            "After=" + " ".join(self.after),
            "Before=" + " ".join(self.before),
            "",
            "[Service]",
            "Type=oneshot",
            "RemainAfterExit=yes",
            "SyslogIdentifier=gpu-node-converge",
            "ExecStart=" + " ".join(words),
            "# An array, its file system and slow GPUs take minutes. After this the boot goes on, with no job.",
            "TimeoutStartSec={0}".format(self.timeout_seconds),
            "# So that it can still write into its record why it ended.",
            "KillMode=mixed",
            "",
            "[Install]",
            "WantedBy=multi-user.target",
        ]
        return "\n".join(lines) + "\n"


def have(host: Host, unit: ConvergeUnit, wanted: bool = True) -> Outcome[boot_unit.Seen]:
    """Install the unit with its guard, or remove both.

    :raises NodeError: what is there is not ours, in one sentence.
    """
    return converge(
        lambda: boot_unit.look(host, unit),
        lambda seen: boot_unit.plan(seen, unit, wanted),
        lambda action: boot_unit.STEPS[type(action)](host, action, None),
    )
