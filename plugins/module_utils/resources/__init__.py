# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is managed on a node: one package a resource."""

from __future__ import annotations

from typing import Mapping, Tuple

#: In the order of a converge; each is a package of that name with a record ``RESOURCE``. With it, what it cannot do
#: without: where that failed it is not begun.
NEEDS: Mapping[str, Tuple[str, ...]] = {
    # Looked at before anything else, see node/converge.py: where it is not as required, nothing of the node is changed.
    "image": (),
    "node_profile": (),
    # First, so that an undo takes it away last: what hands a node back has to outlive what it takes away.
    "node_lease": (),
    "nvme_scratch": (),
    # Before gres.conf, which is of the GPUs as they are divided, and before the settings, which a GPU forgets with its
    # mode.
    "mig_layout": (),
    "slurm_hooks": (),
    # After the hooks: where they raise the clocks for jobs, the clocks are left low between jobs.
    "gpu_settings": (),
    "rdma": (),
    "hpcx": (),
    "nccl": (),
    "enroot": ("nvme_scratch",),
    "pyxis": ("enroot",),
    "job_templates": (),
    "python_env": (),
    "checkpoint": (),
    "beeond": ("nvme_scratch",),
    "gpu_metrics": (),
    "node_labels": (),
    "cleanup": (),
    "health_gate": (),
    # Last: what it drained a node for ends with a look at all that is above.
    "cloud_events": (),
}
#: Those that a unit of their own re-applies at each boot (``RESOURCE.at_boot``), in this order.
AT_BOOT = ("nvme_scratch", "mig_layout", "gpu_settings")
