# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of a node of any scheduler. Each module has beside it the name, and what becomes of a busy node."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ...core.options import described, of, option, options, state


@options
class Asked:
    """As :func:`asked` hands it to ``Desired`` of each scheduler."""

    drained: bool = state(
        "V(drained) takes it out of service. V(in_service) takes our drain or cordon back, and no other.",
        ("drained", "in_service"),
    )
    reason: str = option(
        "being converged",
        [
            "Why it is out of service, for C(sinfo -R) or the annotation. A drain of ours for another reason gets this "
            "one.",
            "One that begins with C(failed: ) is of no O(run).",
        ],
    )
    wait_seconds: float = option(
        0, "How long jobs, or pods with GPUs, may take to end by themselves. No new ones come meanwhile."
    )
    others: bool = option(
        False,
        [
            "Nodes that somebody else took out of service may be worked on too. They stay so, with that reason.",
            "In Slurm one that is down and not drained may not, since it returns by itself. In Kubernetes one whose "
            "kubelet does not report may.",
        ],
    )
    run: str = option(
        "",
        [
            "Who works on the node, as 8 hexadecimal digits, which the reason has then. A node of another run is "
            "RV(outcome=left).",
            "With it, a node that is given up and stays out of service gets a reason without a run, so any run takes "
            "it.",
        ],
    )
    take_over: bool = option(False, "Take a node of another O(run) too. For one that was cut off.")
    level: str = option(
        "passive",
        "How the node is verified after the work. A node whose reason is that it C(failed) with V(active) is taken "
        "with V(active) only.",
        choices=("passive", "active"),
    )
    owes: str = option(
        "",
        [
            "With O(state=in_service), what the node has to prove yet - the result C(owes) of "
            "M(trainyard.gpu_node.health_check). Where it is not empty, the node stays out of service.",
            "In Slurm it becomes the reason, so that the health gate has it proved and resumes the node. In Kubernetes "
            "a later run takes it.",
        ],
    )


def asked(given: Mapping[str, Any]) -> Dict[str, Any]:
    """Of all that a module was given, the fields that ``Desired`` of each scheduler has.

    :raises NodeError: one of them cannot be.
    """
    known = described(Asked)
    found = of(Asked, {name: given[name] for name in known})
    fields = {one.field: getattr(found, one.field) for one in known.values()}
    return dict(fields, active=fields.pop("level") == "active")
