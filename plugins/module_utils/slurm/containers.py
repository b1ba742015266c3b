# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The jobs and containers on this node that use enroot, or may use it in the next step of a job.

enroot and pyxis read their configuration each time: for a step, for ``enroot list`` in the epilog of pyxis, and for a
container that a later step reuses. If a path changes while a job runs, the job loses its containers, and the epilog
fails because the prolog did not create the user's directories there. So the configuration does not change while a job
runs.
"""

from __future__ import annotations

from typing import Dict, Hashable, Iterator, Sequence, Set, Tuple

from ..core import mounts, processes, shares
from ..core.host import Host
from ..core.resource import Refusal, sentence
from . import on_node

# enroot mounts this file of each container (runtime.sh). The kernel reports mounts; a name or a variable is a claim.
_LOCK = "/.lock"
# Mount namespaces of one owner, and bytes of each: a user can create many.
_NAMESPACES, _BYTES = 256, 65536
_UNTOLD = "a job of Slurm, which does not answer,"
_REMEDY = "run it again after they have ended, or run playbooks/rolling.yml, which drains the node first"


def users(host: Host) -> Tuple[str, ...]:
    """The jobs on this node; if there are none, the containers. A job may start a container at any time.

    slurmctld is asked, so call this only if something is to be changed.
    """
    found = on_node.asked(host)
    named = tuple("job {0}".format(one) for one in sorted(found.names)) or tuple(_containers(host))
    return named or (() if found.told else (_UNTOLD,))


def held(thing: str, steps: Sequence[str], found: Sequence[str]) -> Refusal:
    """Why these steps wait."""
    reason = "{0} would read the change ({1})".format(_first(found), "; ".join(steps))
    return Refusal(thing, reason, _REMEDY)


def note(one: Refusal) -> str:
    """The same for a plan that leaves everything as it is and does not fail."""
    return sentence(one.thing, "not changed yet: " + one.reason, one.remedy)


def _first(found: Sequence[str]) -> str:
    return found[0] + (" and {0} more".format(len(found) - 1) if len(found) > 1 else "")


def _containers(host: Host) -> Iterator[str]:
    """Each user has a budget of namespaces, so that those of one user do not hide the containers of another. Root has
    none: each pod is a namespace of root."""
    seen: Dict[Hashable, Set[str]] = {}
    of = shares.owner(host)
    host_namespace = processes.namespace(host, 1, "mnt")
    for pid in processes.pids(host) if host_namespace else ():
        namespace = processes.namespace(host, pid, "mnt")
        if namespace in ("", host_namespace):
            continue
        uid = processes.real_uid(host, pid)
        owner = of(uid or 0)
        known = seen.setdefault(owner, set())
        if namespace in known or (uid and len(known) > _NAMESPACES):
            continue
        known.add(namespace)
        if _is_container(host, pid):
            yield "process {0} of user {1}, which runs in a container,".format(pid, uid)
        elif uid and len(known) > _NAMESPACES:
            yield "user {0}, who has more than {1} mount namespaces,".format(uid, _NAMESPACES)


def _is_container(host: Host, pid: int) -> bool:
    return mounts.at(mounts.read(host, pid, _BYTES), _LOCK) is not None
