# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the software of the image fits together, and is what the profile requires. One look for all of these."""

from __future__ import annotations

from typing import Callable, Dict, List, Mapping, Optional, Tuple

from ...core.frozen import replaced
from ...core.resource import NodeError
from ...facts.image import answer as image
from ...facts.image import software
from ...facts.image.problem import Problem
from ...facts.image.types import Image
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

LANE = "image"
#: The versions that a check tells as what it has seen: nodes of a fleet are compared by these texts.
_SEEN: Mapping[str, Tuple[str, ...]] = {
    "driver": ("driver", "driver_kind", "fabric_manager", "dkms"),
    "cuda": ("cuda_toolkits", "nccl", "nccl_cuda", "cudnn"),
    "communication": ("ofed", "rdma_core", "hpcx", "openmpi", "mvapich", "mpich", "intel_mpi", "ucx", "pmix", "slurm"),
    "containers": ("container_toolkit", "enroot", "docker"),
}
_NOTHING = {
    "driver": "there is neither a driver of NVIDIA",
    "cuda": "there is neither CUDA nor NCCL",
    "communication": "there is neither an MPI nor Slurm",
    "containers": "there are no containers for GPUs",
}


def look(evidence: Evidence) -> Image:
    return evidence.image


def _judge(about: str) -> Callable[[Image, Expected], Judgement]:
    def judge(seen: Image, dummy: Expected) -> Judgement:
        told = [
            _warning(problem)
            for rule in image.RULES
            if rule.about == about and not _told_by_another(rule.told_by, seen)
            for problem in rule.judge(seen)
        ]
        versions = image.versions(seen)
        parts = ["{0} {1}".format(name, versions[name]) for name in _SEEN.get(about, ()) if name in versions]
        if not parts and not told and about in _NOTHING:
            return Judgement(not_applicable="{0} on this image".format(_NOTHING[about]))
        return Judgement(", ".join(parts) or "no link leads nowhere", tuple(map(_finding, told)))

    return judge


def _warning(problem: Problem) -> Problem:
    """An image is that of all nodes of a kind, and most of its faults concern some jobs alone: a rule that failed
    would drain a cluster at once that has worked for years. What a site requires, its profile says."""
    return replaced(problem, outcome=Outcome.WARN.value)


def _told_by_another(check: str, seen: Image) -> bool:
    """The same fault is told once: by the check that asks the part itself, where that has something to ask."""
    return {
        "gpu_driver": bool(seen.gpu_ids),
        "fabric_manager_version": bool(seen.nvswitches),
        # Whether jobs need it, the declaration says: without one a node that lacks it is well.
        "ib_gpu_direct": True,
    }.get(check, False)


def _finding(problem: Problem) -> Finding:
    return Finding(
        Outcome(problem.outcome),
        problem.thing,
        problem.reason,
        problem.remedy,
        Remedy.CONFIGURE,
        key=problem.key,
        code=problem.rule,
    )


def _software(seen: Image, expected: Expected) -> Judgement:
    wanted = expected.profile.get("software")
    if not wanted:
        return Judgement(not_applicable="the profile requires no versions")
    try:
        required = software.of_mapping(wanted, "software")
    except NodeError as error:
        return Judgement(findings=(_unreadable(error),))
    versions: Dict[str, str] = image.versions(seen)
    told: List[Finding] = [
        _finding(one) for one in software.unmet(versions, required, "profile " + expected.profile_name)
    ]
    return Judgement("as required: " + ", ".join(one.component for one in required), tuple(told))


def _unreadable(error: NodeError) -> Finding:
    remedy = "correct it in the profile ({0}), then converge the node".format(error.remedy)
    thing = "{0} of the profile".format(error.thing)
    return Finding(Outcome.UNKNOWN, thing, error.reason, remedy, Remedy.CONFIGURE, code="profile")


def _check(about: str, title: str, judge: Optional[Callable[[Image, Expected], Judgement]] = None) -> Check:
    return Check("image_" + about, title, Cost.PASSIVE, judge or _judge(about), look, LANE)


CHECKS = (
    _check("driver", "The parts of the driver fit each other, the kernel and the GPUs"),
    _check("cuda", "CUDA and NCCL fit the driver"),
    _check("communication", "MPI, UCX, PMIx and NCCL's plugins find each other"),
    _check("containers", "Users can start containers with GPUs"),
    _check("links", "No link of the installed software leads nowhere"),
    _check("software", "Versions are as the profile requires", _software),
)
