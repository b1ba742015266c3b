# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The specs of the CycleCloud project. The variables of each are those of an inventory, and what CycleCloud changes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

import yaml

# By this first line /etc/gpu_node/site.yml is ours; deploy/cyclecloud/gpu_node.sh compares it.
MARKER = "# Written by cluster-init of the CycleCloud project gpu_node. Take this line out and the file is yours."


class ClusterInitError(Exception):
    """A failure told in one sentence."""


@dataclasses.dataclass(frozen=True)
class Spec:
    """``inventory``: where its variables come from. ``variables``: what CycleCloud makes different."""

    name: str
    inventory: Optional[str]
    variables: Tuple[Tuple[str, Any], ...] = ()


# CycleCloud 8.8 and newer make one file system of the local disks at /nvme, which is adopted. With the same mount point
# here, a boot that finds blank disks before CycleCloud does, and its line for /nvme in fstab, leaves them to it. Older
# ones make nothing there, and we do.
SCRATCH = (("nvme_scratch_mount_point", "/nvme"),)
# Compared with nothing, a node's verdict is "unknown", which is not ready unless it is said to be.
UNKNOWN_JOINS = ("gpu_node_health_fail_on", "fail")

SPECS = (
    Spec("ndv2", "azure_ndv2"),
    Spec("ndv4", "azure_ndv4", SCRATCH),
    Spec("ndv5", "azure_ndv5", SCRATCH),
    # Any other GPU node: what it is, is found out, and one of a size that no profile is for may join all the same. An
    # image for HPC has an /etc/nccl.conf of its own.
    Spec("execute", None, (("node_profile_name", "auto"), UNKNOWN_JOINS, ("nccl_replace_foreign", True)) + SCRATCH),
    # Submits jobs, runs none: the plugin for containers and the job scripts, and its disks are nobody's business.
    Spec(
        "scheduler",
        None,
        (
            ("node_profile_name", "unknown"),
            UNKNOWN_JOINS,
            ("gpu_node_comm", ["pyxis", "job_templates"]),
            ("nvme_scratch_models", ["none"]),
            ("nvme_scratch_manage_packages", False),
            ("nvme_scratch_boot_unit", False),
            ("gpu_settings_state", "default"),
        ),
    ),
)


def of_inventory(folder: Path) -> Dict[str, Any]:
    """The variables of the group gpu_nodes."""
    variables: Dict[str, Any] = {}
    files = sorted((folder / "group_vars" / "gpu_nodes").glob("*.yml"))
    if not files:
        raise ClusterInitError("{0}: it has no group_vars/gpu_nodes/*.yml to take variables from".format(folder))
    for file in files:
        try:
            found = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        except yaml.YAMLError as error:
            # A vaulted value, too: whoever may read the locker would have it, without the password it is of no use.
            raise ClusterInitError(
                "{0}: it is not plain YAML ({1}); keep what is secret in /etc/gpu_node/site.yml of the image".format(
                    file, " ".join(str(error).split())
                )
            ) from error
        if not isinstance(found, dict):
            raise ClusterInitError("{0}: it holds no variables; write it as NAME: VALUE".format(file))
        variables.update(found)
    return variables


def variables_of(spec: Spec, inventories: Path) -> Dict[str, Any]:
    variables = of_inventory(inventories / spec.inventory) if spec.inventory else {}
    variables.update(spec.variables)
    return variables


def site_file(spec: Spec, inventories: Path) -> str:
    """The text of the spec's /etc/gpu_node/site.yml."""
    text = yaml.safe_dump(variables_of(spec, inventories), sort_keys=False, default_flow_style=False, width=120)
    return "{0}\n---\n{1}".format(MARKER, text)
