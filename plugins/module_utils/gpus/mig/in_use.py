# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses a GPU, for the decision: without the units that give way, and with what Slurm has given to jobs. Pure."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from ...core.frozen import replaced
from ...core.resource import Action, Refusal
from .instances import Instance
from .options import RUN_JOBS
from .types import Client, Gpu, HoldUnits, Job, State

# How many clients a sentence names.
_NAMED = 4


def for_change(gpu: Gpu, state: State) -> Gpu:
    """The GPU as a change finds it."""
    return with_jobs(without(gpu, state.holding), state.jobs)


def without(gpu: Gpu, units: Sequence[str]) -> Gpu:
    """The GPU as it is when these units are stopped."""
    clients = tuple(client for client in gpu.clients if client.unit not in units)
    if clients == gpu.clients:
        return gpu

    def freed(instance: Instance) -> Instance:
        own = [client for client in clients if client.gi == instance.id]
        compute = tuple(replaced(one, used=any(client.ci == one.id for client in own)) for one in instance.compute)
        return replaced(instance, used=bool(own), compute=compute)

    return replaced(gpu, clients=clients, instances=tuple(freed(instance) for instance in gpu.instances))


def with_jobs(gpu: Gpu, jobs: Sequence[Job]) -> Gpu:
    """What a job has is in use, whether it has begun to compute or not."""
    clients: List[Client] = []
    for job in jobs:
        if job.places is None:
            clients.append(Client(0, owner=job.name, sure=False))
        else:
            clients += [Client(0, gi, owner=job.name) for address, gi in job.places if address == gpu.pci_address]
    if not clients:
        return gpu
    held = {client.gi for client in clients}

    def taken(instance: Instance) -> Instance:
        if None not in held and instance.id not in held:
            return instance
        return replaced(instance, used=True, compute=tuple(replaced(one, used=True) for one in instance.compute))

    instances = tuple(taken(instance) for instance in gpu.instances)
    return replaced(gpu, clients=(*gpu.clients, *clients), instances=instances)


def named(clients: Sequence[Client]) -> str:
    """Those clients, for people; a job of which processes are named is not named beside them."""
    owners = {client.owner for client in clients if client.pid}
    told = list(dict.fromkeys(one.told() for one in clients if one.pid or one.owner not in owners))
    more = ["{0} more".format(len(told) - _NAMED)] if len(told) > _NAMED else []
    return " and ".join(told[:_NAMED] + more)


def refusal(gpu: Gpu, what: str) -> Refusal:
    """Why it is not to be done to a GPU that has clients."""
    told = named(gpu.clients)
    one = " and " not in told
    verb = ("uses" if one else "use") if any(client.sure for client in gpu.clients) else "may use"
    return Refusal(gpu.label, "{0} {1} it".format(told, verb), "end {0} to {1}".format("it" if one else "them", what))


def job_runners(state: State, actions: Sequence[Action]) -> Tuple[Refusal, ...]:
    """Units that run jobs and would be stopped with those that may be."""
    held = [unit for action in actions if isinstance(action, HoldUnits) for unit in action.units]
    return tuple(
        Refusal(
            "option stop_units",
            "with {0} systemd stops {1}, which runs jobs or containers of users".format(
                " and ".join(one for one in held if one not in state.along) or "these units", unit
            ),
            "take that dependency out of the units, or drain the node and stop them by hand",
        )
        for unit in held
        if unit in RUN_JOBS
    )
