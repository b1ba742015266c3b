# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions of an image by component, and what is required of them. Pure."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...core.nearest import nearest
from ...core.resource import NodeError
from . import version
from .problem import FAIL, WARN, Problem
from .types import Image

#: What may be required, and what each is.
COMPONENTS: Mapping[str, str] = {
    "driver": "NVIDIA's driver",
    "cuda": "the CUDA toolkit of /usr/local/cuda, otherwise the newest",
    "nccl": "the libnccl that ld.so gives",
    "cudnn": "cuDNN",
    "fabric_manager": "NVIDIA's Fabric Manager",
    "dcgm": "DCGM",
    "dcgm_exporter": "dcgm-exporter",
    "ofed": "MLNX_OFED or DOCA-OFED",
    "rdma_core": "rdma-core",
    "hpcx": "HPC-X",
    "openmpi": "Open MPI",
    "mvapich": "MVAPICH",
    "mpich": "MPICH",
    "intel_mpi": "Intel MPI",
    "ucx": "UCX",
    "pmix": "PMIx",
    "slurm": "Slurm",
    "gdrcopy": "GDRCopy",
    "container_toolkit": "NVIDIA's container toolkit",
    "enroot": "enroot",
    "docker": "Docker",
    "kernel": "the running kernel",
}


def versions(image: Image) -> Dict[str, str]:
    """By component; what is not there, or does not tell its version, is left out. Several are joined by commas."""
    driver, nccl, slurm = image.driver, image.libnccl, image.slurm
    found: Dict[str, Optional[str]] = {
        "distribution": image.distribution,
        "kernel": image.kernel,
        "driver": driver.version,
        "driver_kind": driver.kind,
        "fabric_manager": driver.fabric_manager,
        "dkms": ", ".join("{0} {1}".format(one.module, one.version) for one in image.dkms),
        "cuda": image.toolkit.version if image.toolkit is not None else None,
        "cuda_toolkits": ", ".join(one.version for one in image.toolkits if one.version),
        "nccl": nccl.version if nccl is not None else None,
        "nccl_cuda": nccl.cuda if nccl is not None else None,
        "slurm": slurm.version if slurm is not None else None,
        "mpi_commands": ", ".join("{0} {1}".format(one.name, one.target) for one in image.mpi_commands),
    }
    for one in image.mpis:
        before = found.get(one.kind)
        known = one.version or "?"
        found[one.kind] = known if not before else before if known in before.split(", ") else before + ", " + known
    found.update(image.others)
    return {name: text for name, text in found.items() if text}


@frozen
class Requirement:
    """``outcome``: how bad it is where the image does not meet it."""

    component: str
    constraint: version.Constraint
    outcome: str = FAIL


def of_mapping(given: Any, thing: str) -> Tuple[Requirement, ...]:
    """Requirements as people write them: a component and a constraint, or a constraint with its outcome.

    :raises NodeError: something of it cannot be.
    """
    if not isinstance(given, Mapping):
        raise NodeError(thing, "{0!r} is no mapping".format(given), "write it as {'driver': '>=535,<600'}")
    return tuple(_requirement(str(name), value, "{0}.{1}".format(thing, name)) for name, value in given.items())


def _requirement(name: str, value: Any, thing: str) -> Requirement:
    if name not in COMPONENTS:
        remedy = "{0}use some of {1}".format(nearest(name, list(COMPONENTS)), ", ".join(COMPONENTS))
        raise NodeError(thing, "there is no such component", remedy)
    outcome = FAIL
    if isinstance(value, Mapping):
        if set(value) - {"version", "outcome"} or value.get("outcome", FAIL) not in (FAIL, WARN):
            remedy = "write it as {'version': '>=2.20', 'outcome': 'warn'}"
            raise NodeError(thing, "{0!r} is no requirement".format(dict(value)), remedy)
        outcome, value = value.get("outcome", FAIL), value.get("version")
    return Requirement(name, version.required(thing, value), outcome)


def unmet(found: Mapping[str, str], wanted: Tuple[Requirement, ...], by: str) -> Iterator[Problem]:
    """``by``: who requires it. Of several versions of a component, one that fits is enough."""
    for one in wanted:
        told = COMPONENTS[one.component]
        have = [_plain(part) for part in found.get(one.component, "").split(", ") if part]
        if any(one.constraint.allows(part) for part in have if part):
            continue
        reason = "{0} requires {1}".format(by, one.constraint)
        reason += ", and this is {0}".format(found[one.component]) if have else ", and none is found"
        yield Problem(
            "software",
            one.outcome,
            told,
            reason,
            "install a version that fits, or correct the requirement",
            one.component,
        )


def _plain(text: str) -> str:
    """From the first number on: ``MLNX_OFED_LINUX-5.8-1.1.2.1`` is 5.8-1.1.2.1."""
    at = next((place for place, letter in enumerate(text) if letter.isdigit()), len(text))
    return text[at:]


@frozen
class Change:
    """A component whose version is another one than in a baseline; None: it is not there."""

    component: str
    before: Optional[str]
    now: Optional[str]

    def __str__(self) -> str:
        return "{0}: {1} in the baseline, {2} here".format(self.component, self.before or "none", self.now or "none")


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> Tuple[Change, ...]:
    names: List[str] = [*before, *(name for name in now if name not in before)]
    return tuple(Change(one, before.get(one), now.get(one)) for one in names if before.get(one) != now.get(one))
