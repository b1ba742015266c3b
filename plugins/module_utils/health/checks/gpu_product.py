# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the GPUs are the right ones, and all alike."""

from __future__ import annotations

import collections
from typing import Any, Callable, List, Optional, Tuple

from ...core import units
from ...facts.gpu_info import GpuInformation, Information
from ...facts.profile.choose import product_fits
from ..types import GPU_LANE, PRODUCT, Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy
from .gpu_common import answering, finding, nothing, unnamed, unread, untold

Value = Callable[[GpuInformation], Optional[Any]]
_ONE_VERSION = "see whether one was replaced or missed an update; bring all GPUs of a node to one version"
_WORDS = {"vbios": "VBIOS", "memory": "bytes of memory"}


def _product(gpu: GpuInformation) -> Optional[str]:
    return gpu.identity.name


def _memory(gpu: GpuInformation) -> Optional[int]:
    memory = gpu.groups.get("memory")
    return None if memory is None else memory.total_bytes


def _vbios(gpu: GpuInformation) -> Optional[str]:
    board = gpu.groups.get("board")
    return None if board is None else board.vbios_version


def products(information: Information, expected: Expected) -> Judgement:
    none = nothing(information)
    if none is not None:
        return Judgement(not_applicable=none)
    gpus = answering(information)
    findings: List[Finding] = []
    wanted = expected.profile.get("gpus", {})
    findings += untold(gpus, "memory.total_bytes")
    for gpu in gpus:
        findings += unnamed(gpu) + unread(gpu, "memory.total_bytes")
        name, size = _product(gpu), _memory(gpu)
        if (
            name is not None
            and wanted.get("products")
            and not any(product_fits(name, one) for one in wanted["products"])
        ):
            reason = "it is a {0}, and the profile {1} says {2}".format(
                name, expected.profile_name, " or ".join(wanted["products"])
            )
            remedy = "choose the right profile, or redeploy the machine"
            findings.append(finding(gpu, Outcome.FAIL, reason, remedy, Remedy.CONFIGURE, "product"))
        elif size is not None and size < wanted.get("memory_bytes_min", 0):
            seen, least = units.sizes(size, wanted["memory_bytes_min"])
            reason = "it has {0} of memory, and the profile {1} says at least {2}".format(
                seen, expected.profile_name, least
            )
            remedy = "reset it with nvidia-smi --gpu-reset; redeploy the machine when it stays so"
            findings.append(finding(gpu, Outcome.FAIL, reason, remedy, Remedy.REPLACE, "memory"))
    if not wanted.get("products"):
        findings += _odd(gpus, _product, "product", "a {0}, and most others are {1}", Outcome.WARN)
    if not any(one.code == "memory" for one in findings):
        text = "a GPU with {0} bytes of memory, and most others of its kind have {1} bytes"
        findings += _odd(gpus, _memory, "memory", text, Outcome.FAIL, kind=_product)
    return Judgement("{0} GPUs".format(len(gpus)), tuple(findings), _names(gpus))


def _names(gpus: Tuple[GpuInformation, ...]) -> Tuple[Measured, ...]:
    """The product of each GPU as the label of a figure: nodes are compared within one product only."""
    return tuple(
        Measured(
            PRODUCT,
            1.0,
            one.identity.pci_address,
            labels={"product": one.identity.name, "index": str(one.identity.index)},
        )
        for one in gpus
        if one.identity.pci_address and one.identity.name
    )


def firmware(information: Information, expected: Expected) -> Judgement:
    none = nothing(information)
    if none is not None:
        return Judgement(not_applicable=none)
    gpus = answering(information)
    findings: List[Finding] = [found for gpu in gpus for found in unread(gpu, "board.vbios_version")]
    findings += untold(gpus, "board.vbios_version")
    text = "a GPU with VBIOS {0}, and most others of its kind have {1}"
    findings += _odd(gpus, _vbios, "vbios", text, Outcome.WARN, kind=_product)
    versions = sorted({version for version in map(_vbios, gpus) if version is not None})
    return Judgement("VBIOS {0}".format(", ".join(versions) or "not told"), tuple(findings))


def _odd(
    gpus: Tuple[GpuInformation, ...],
    value: Value,
    code: str,
    text: str,
    outcome: Outcome,
    kind: Optional[Value] = None,
) -> List[Finding]:
    """The GPUs whose value is not that of most others of their kind. Without a majority the node is named: GPUs of one
    kind should be alike, whichever of them are the wrong ones. Without a kind it may have been built so."""
    findings = []
    kinds = {None if kind is None else kind(gpu) for gpu in gpus}
    for one in sorted(kinds, key=str):
        told = [gpu for gpu in gpus if (kind is None or kind(gpu) == one) and value(gpu) is not None]
        ranked = collections.Counter(value(gpu) for gpu in told).most_common()
        if len(ranked) < 2:
            continue
        if ranked[0][1] * 2 <= len(told):
            if kind is not None:
                findings.append(_split(one, ranked, code))
            continue
        usual = ranked[0][0]
        for gpu in told:
            if value(gpu) != usual:
                reason = "it is " + text.format(value(gpu), usual)
                findings.append(finding(gpu, outcome, reason, _ONE_VERSION, Remedy.LOOK, code, Certainty.LIKELY))
    return findings


def _split(kind: Optional[Any], ranked: List[Tuple[Any, int]], code: str) -> Finding:
    parts = ", ".join("{0} with {1}".format(count, value) for value, count in sorted(ranked, key=str))
    reason = "those of one kind ({0}) differ in their {1}: {2}".format(kind or "unknown product", _WORDS[code], parts)
    return Finding(Outcome.WARN, "GPUs", reason, _ONE_VERSION, Remedy.LOOK, Certainty.LIKELY, "", code + "_split")


CHECKS = (
    Check(
        "gpu_product",
        "The GPUs are the right ones, and all alike",
        Cost.PASSIVE,
        products,
        lane=GPU_LANE,
        gpu_groups=("memory",),
    ),
    Check("gpu_firmware", "All GPUs have the same VBIOS", Cost.PASSIVE, firmware, lane=GPU_LANE, gpu_groups=("board",)),
)
