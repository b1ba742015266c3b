# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The specs of the CycleCloud project: the declaration of each is of an inventory, and what CycleCloud changes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

import yaml
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ..bundle.declared import BundleError, NodeError, checked, declarations, wish

# By this comment /etc/gpu_node/declaration.json is ours; deploy/cyclecloud/gpu_node.sh looks for its beginning.
MARKER = "Written by cluster-init of the CycleCloud project gpu_node. Take this line out and the file is yours."


class ClusterInitError(BundleError):
    """A failure told in one sentence, without its full stop."""


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
    """The variables of the group gpu_nodes, with their templates."""
    variables: Dict[str, Any] = {}
    files = sorted((folder / "group_vars" / "gpu_nodes").glob("*.yml"))
    if not files:
        raise ClusterInitError("{0}: it has no group_vars/gpu_nodes/*.yml to take variables from".format(folder))
    for file in files:
        try:
            found = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        except yaml.YAMLError as error:
            # A vaulted value, too: whoever may read the locker would have it.
            raise ClusterInitError(
                "{0}: it is not plain YAML ({1}); keep what is secret in {2} of the image".format(
                    file, " ".join(str(error).split()), wish.PATH
                )
            ) from error
        if not isinstance(found, dict):
            raise ClusterInitError("{0}: it holds no variables; write it as NAME: VALUE".format(file))
        variables.update(DataLoader().load_from_file(str(file), trusted_as_template=True) or {})
    return variables


def variables_of(spec: Spec, inventories: Path) -> Dict[str, Any]:
    variables = of_inventory(inventories / spec.inventory) if spec.inventory else {}
    variables.update(spec.variables)
    return variables


def declaration(spec: Spec, inventories: Path) -> str:
    """The text of the spec's /etc/gpu_node/declaration.json, made of its variables as the module node does it."""
    variables, where = variables_of(spec, inventories), "the variables of spec {0}".format(spec.name)
    templar = Templar(loader=DataLoader(), variables=variables)

    def value(name: str) -> Any:
        try:
            return templar.template({name: variables[name]}).get(name)
        except AnsibleError as error:
            raise ClusterInitError(
                "{0}: {1} takes something that is known on a node alone ({2}); give it a value".format(
                    where, name, " ".join(str(error).split()).rstrip(".")
                )
            ) from error

    try:
        sections = declarations.of_playbooks(variables, value, False)
    except NodeError as error:
        raise ClusterInitError("{0}: {1}".format(where, error).rstrip(".")) from error
    return checked(json.dumps({wish.COMMENT: MARKER, **sections}), where)
