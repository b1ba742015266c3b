# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this collection has in Slurm's folders, what is found there, and the steps between."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...core.managed_files import MARKER, Files
from ...core.resource import Action
from ...gpus.mig.devices import InstanceFiles
from ...slurm.drain import RESUMED
from ...slurm.hooks_conf import Hooks
from ...slurm.layout import Machine, Slurm
from ...slurm.syntax import Text
from .trusted import Trust

# Written when slurmctld has taken "scontrol reconfigure"; its time is what counts, and it is gone after a boot.
TOLD = "/run/gpu_node/slurm_reconfigured"
COMMAND = "/usr/local/bin/gpunode"

# Exit status of the node command where no Python can run it (resources/node_runtime/launcher.py).
_NO_PYTHON = 127
# A drain for health, so that the gate resumes the node when it works again.
_REASON = "gpu_node: health: configure: gpunode: no Python 3.8 or newer was found; install one, then run site.yml"
_HOOK = """#!/bin/sh
{marker} Changes will be lost; put your own scripts into separate files.
PATH="${{PATH:+$PATH:}}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export PATH
umask 022
{before}[ -x {command} ] || exit 0
{command} hook {event}
status=$?
# No Python can run it, and Slurm drains the node. Give the reason, which would only be "{error}", but keep the reason
# of an administrator.
if [ "$status" -eq {no_python} ] && [ -n "${{SLURMD_NODENAME-}}" ]; then
    PATH=$PATH:/opt/slurm/bin
    case $(scontrol -o show node "$SLURMD_NODENAME") in
    *" Reason={resumed}"*) no_reason=yes ;;
    *" Reason="*) no_reason= ;;
    *) no_reason=yes ;;
    esac
    [ -z "$no_reason" ] || scontrol update "NodeName=$SLURMD_NODENAME" State=DRAIN "Reason={reason}"
fi
exit "$status"
"""
_ONCE = """\
# This hook lies here under two names, and whichever comes first does the work.
# Its other name came first. An old note is not of this start of the job.
case ${SLURM_JOB_ID:-x} in *[!0-9]*) note= ;; *) note=/run/gpu_node/jobs/$SLURM_JOB_ID.json ;; esac
[ -e "$note" ] && [ -n "$(find "$note" -mmin -10)" ] && exit 0
# A node whose command was removed still runs jobs.
"""


def _hook(event: str, error: str, before: str = "") -> str:
    values = dict(marker=MARKER, command=COMMAND, no_python=_NO_PYTHON, reason=_REASON, resumed=RESUMED)
    return _HOOK.format(event=event, error=error, before=before, **values)


PROLOG = _hook("prolog", "Prolog error", _ONCE)
EPILOG = _hook("epilog", "Epilog error")


@frozen
class SlurmGpu:
    """A GPU as gres.conf has it: N of /dev/nvidiaN, and hwloc's numbers of the cores of its NUMA node.

    ``instances`` are those of a GPU in MIG mode; None: it is whole.
    """

    minor: int
    cores: Tuple[int, ...]
    product: Optional[str]
    instances: Optional[Tuple[InstanceFiles, ...]] = None

    @property
    def mig(self) -> bool:
        return self.instances is not None

    @property
    def file(self) -> str:
        return "/dev/nvidia{0}".format(self.minor)


@frozen
class GresConf:
    """The gres.conf that slurmd reads; ``path`` None: no slurm.conf tells where. ``text`` None: it is not there.

    ``configless``: slurmctld hands it out, and what a node writes in its place is overwritten.
    """

    path: Optional[str] = None
    configless: bool = False
    text: Optional[Text] = None

    def reads(self, path: str) -> bool:
        """Whether slurmd comes to read a file at this path, if there is one."""
        if path == self.path:
            return not self.configless
        return self.text is not None and path in self.text.included + self.text.missing


@frozen
class Slurmd:
    """The slurmd of this node and its gres.conf. In seconds since 1970, ``started``: when it began to run (None: it
    does not run); ``told``: when we last had Slurm read its files again; ``changed``: when that file was written, or
    taken away.
    """

    started: Optional[float] = None
    told: float = 0.0
    changed: float = 0.0

    @property
    def stale(self) -> bool:
        """Whether nothing shows that it has read the file as it is. One that does not run reads it when it starts."""
        return self.started is not None and self.changed > max(self.started, self.told)


@frozen
class State:
    """``absent`` says why there is no Slurm. ``gpus`` None: they cannot be told now, for ``gpus_reason``.

    ``configured`` is what slurm.conf says, ``running`` what slurmctld has read of it; ``conf`` is the text of
    whichever of the two there is. ``job_folders`` is SCRATCH/jobs where that has yet to be made.
    ``constrains_devices``: a job can open the devices that it was given, and no others.
    """

    files: Files = Files()
    declared: Mapping[str, Any] = {}
    gpus: Optional[Tuple[SlurmGpu, ...]] = ()
    gpus_reason: Optional[str] = None
    numa_nodes: int = 1
    scontrol: Optional[str] = None
    slurm_conf: Optional[str] = None
    configured: Optional[Hooks] = None
    running: Optional[Hooks] = None
    absent: Optional[str] = None
    conf: Optional[Text] = None
    node_name: Optional[str] = None
    machine: Machine = Machine()
    slurm: Slurm = Slurm()
    job_folders: Optional[str] = None
    gres_conf: GresConf = GresConf()
    slurmd: Slurmd = Slurmd()
    constrains_devices: bool = True
    trust: Trust = Trust()


@frozen
class Reconfigure(Action):
    """Have Slurm read its files again. ``scontrol``: its path; ``files``: those that it has not read as they are."""

    scontrol: str
    files: Tuple[str, ...]

    def describe(self) -> str:
        return "have Slurm read {0} again (scontrol reconfigure)".format(" and ".join(self.files))
