# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The systemd unit that converges this node at each boot, and what slurmd asks before it starts."""

from __future__ import annotations

from ..core.host import Host
from ..core.managed_files import MARKER
from ..core.registry import AT_BOOT
from ..core.resource import Outcome
from ..core.run import converge
from ..core.systemd import boot_unit
from ..core.systemd.boot_unit import BEFORE_UNITS, BootUnit
from ..facts.nvml.binding import RUNTIME

# The disks are there, and our own units have re-applied what was declared. A converge needs no network; network file
# systems of fstab are waited for, as a declaration may name files on them.
_AFTER = (
    *(
        "local-fs.target",
        "remote-fs.target",
        "systemd-udev-settle.service",
        *("gpu-node-{0}.service".format(name) for name in AT_BOOT),
    ),
    *("nvidia-persistenced.service", "nvidia-fabricmanager.service"),
    # Where there is one, it writes the declaration; the second is its name from 24.3 on.
    *("cloud-init.service", "cloud-init-network.service"),
)
# slurmd alone: where Slurm sees no slurmd, it sends no job. The kubelet has to run for the pods that repair a node.
GUARD = "slurmd.service.d/50-gpu_node_converge.conf"
_GUARD_TEXT = """{0}
# No jobs on a node that is not ready: 'systemctl status slurmd' has the reason. To do without, empty ExecStartPre= in
# a file that sorts after this one.
[Service]
ExecStartPre={1} boot admit
""".format(MARKER, RUNTIME)
# The longest first run seen makes an array and its file system and starts eight slow GPUs: some minutes. After this
# time the boot goes on, the record says that the run was interrupted, and the node takes no job.
TIMEOUT_SECONDS = 1800


UNIT = BootUnit(
    "converge",
    "Make this GPU node ready for jobs",
    after=_AFTER,
    # None of them is started by it.
    before=BEFORE_UNITS.default,
    conditions=("RequiresMountsFor=/opt/gpu_node /var/lib/gpu_node",),
    service=(
        "Type=oneshot",
        "RemainAfterExit=yes",
        "SyslogIdentifier=gpu-node-converge",
        "ExecStart={0} converge --boot".format(RUNTIME),
        "# An array, its file system and slow GPUs take minutes. After this the boot goes on, with no job.",
        "TimeoutStartSec={0}".format(TIMEOUT_SECONDS),
        "# So that it can still write into its record why it ended.",
        "KillMode=mixed",
    ),
    drop_ins=((GUARD, _GUARD_TEXT),),
)


def have(host: Host, wanted: bool = True) -> Outcome[boot_unit.BootUnitState]:
    """Install the unit with its guard, or remove both.

    :raises NodeError: what is there is not ours, in one sentence.
    """
    return converge(
        lambda: boot_unit.look(host, UNIT),
        lambda seen: boot_unit.plan(seen, UNIT, wanted),
        lambda action: boot_unit.STEPS[type(action)](host, action, None),
    )
