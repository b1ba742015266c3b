# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources: one registration each, in the order of a converge.

A new resource is an entry here and a package of the same name in ``resources/``. It is disabled until a site enables
it.
"""

from __future__ import annotations

import importlib
from typing import Mapping, Tuple

from .frozen import frozen
from .resource import Resource


@frozen
class Registration:
    """How a resource takes part in a converge.

    ``requires``: it is not begun where one of these failed.
    ``enabled``: the playbooks manage it although no variable asks for it. Otherwise the variable ``gpu_node_NAME``
    enables it, or any of ``enabled_by`` that is set.
    ``group``: the variable ``gpu_node_GROUP`` lists which of the group are managed, and the tag GROUP means all of it.
    ``any_machine``: also on a machine that has nothing to manage (no GPU, no profile, no scratch disk).
    ``at_boot``: a systemd unit of its own applies it at each boot; ``then``: after that, these are converged too.
    ``cluster``: it is managed at the API of a cluster, once for all nodes, so no node declares or converges it.
    ``settings``: the module with the class ``Settings`` that reads its section on the node, where a program below
    ``resources/`` does so.
    """

    name: str
    requires: Tuple[str, ...] = ()
    enabled: bool = False
    enabled_by: Tuple[str, ...] = ()
    group: str = ""
    any_machine: bool = False
    at_boot: bool = False
    then: Tuple[str, ...] = ()
    cluster: bool = False
    settings: str = ""


_REGISTRATIONS = (
    # Checked before anything else, see node/converge.py: where the image is not as required, nothing is changed.
    Registration("image", enabled=True, any_machine=True),
    Registration("node_profile", enabled=True, any_machine=True),
    # First, so that an undo removes it last: what hands a node back must outlive what it removes.
    Registration("node_lease", enabled_by=("node_lease_until", "node_lease_state"), settings="core.lease"),
    Registration("nvme_scratch", enabled=True, at_boot=True),
    # Before gres.conf, which lists the GPUs as they are divided, and before the settings, which a GPU loses when its
    # MIG mode changes. Instances may have other device files after a boot, and slurmd ends at one that is missing.
    Registration("mig_layout", enabled=True, at_boot=True, then=("slurm_hooks",)),
    Registration("slurm_hooks", enabled=True, settings="slurm.types"),
    # After the hooks: where they raise the clocks for jobs, the clocks stay low between jobs.
    Registration("gpu_settings", enabled=True, at_boot=True, settings="gpus.settings.options"),
    Registration("rdma", enabled=True, group="comm"),
    Registration("hpcx", enabled=True, group="comm"),
    Registration("nccl", enabled=True, group="comm"),
    Registration("enroot", ("nvme_scratch",), enabled=True, group="comm"),
    Registration("pyxis", ("enroot",), enabled=True, group="comm"),
    Registration("job_templates", enabled=True, group="comm"),
    Registration("python_env", enabled=True),
    Registration("checkpoint", settings="checkpoints.settings"),
    Registration("beeond", ("nvme_scratch",), settings="slurm.beeond.rules"),
    Registration("gpu_metrics", settings="metrics.settings"),
    Registration("node_labels"),
    Registration("cleanup", settings="jobs.leftovers.types"),
    Registration("health_gate", settings="health.gate.settings"),
    # Last: a drain for an event ends with a check of everything above.
    Registration("cloud_events", settings="health.events.settings"),
    Registration("gpu_sharing", cluster=True),
    Registration("kubernetes_gpu", cluster=True),
)
#: The resources of a node by name, in the order of a converge.
RESOURCES: Mapping[str, Registration] = {one.name: one for one in _REGISTRATIONS if not one.cluster}
NAMES = tuple(RESOURCES)
#: The resources that are managed at the API of a cluster.
OF_CLUSTER = tuple(one.name for one in _REGISTRATIONS if one.cluster)
AT_BOOT = tuple(one.name for one in RESOURCES.values() if one.at_boot)


#: The names of the groups.
GROUPS = tuple(dict.fromkeys(one.group for one in RESOURCES.values() if one.group))


def switch(one: Registration) -> str:
    """The variable that enables it, "" where it is not enabled by a switch of its own."""
    return "" if one.enabled or one.enabled_by or one.cluster else "gpu_node_" + one.name


def group(name: str) -> Tuple[str, ...]:
    """The resources of the group ``name``, in the order of a converge."""
    return tuple(one.name for one in RESOURCES.values() if one.group == name)


def resource(name: str) -> Resource:
    """The resource of this name; its code is imported here and not before."""
    root = __name__.rpartition(".core.")[0]
    found: Resource = importlib.import_module("{0}.resources.{1}".format(root, name)).RESOURCE
    return found
