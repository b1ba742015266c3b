# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of the chart compared with the ClusterPolicy or GPUCluster that it makes of them (NVIDIA/gpu-operator v26.7.0,
``templates/clusterpolicy.yaml`` and ``gpucluster.yaml``). Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

from ...kubernetes.objects import mapping
from . import chart

# The sections that the object has under the names that they have in the values.
SECTIONS = ("driver", "toolkit", "mig", "migManager", "devicePlugin", "dcgmExporter", "daemonsets", "cdi")
DRA_SECTIONS = ("draDriver", "dcgm", "dcgmExporter", "daemonsets")
# What of a section is in other objects, or in none.
_ELSEWHERE = (
    "dcgmExporter.config.create",
    "dcgmExporter.config.data",
    "devicePlugin.config.create",
    "devicePlugin.config.data",
    "devicePlugin.mps",
    "driver.nvidiaDriverCRD.deployDefaultCR",
    "driver.nvidiaDriverCRD.driverType",
    "driver.nvidiaDriverCRD.nodeSelector",
    "migManager.config.create",
    "migManager.config.data",
)
_BY_CRD = "driver.nvidiaDriverCRD.enabled"
# With drivers by objects NVIDIADriver, the object has of the section ``driver`` no more than these.
_BESIDE_CRD = ("driver.enabled", "driver.upgradePolicy.", "driver.hostNetwork")


def differences(values: Mapping[str, Any], policy: Mapping[str, Any], sections: Sequence[str] = SECTIONS) -> List[str]:
    """The dotted keys of ``values`` that the spec of the object has other values of."""
    there = _as_values(policy)
    asked = chart.flat({name: one for name, one in values.items() if name in sections})
    by_crd, is_by_crd = bool(asked.pop(_BY_CRD, False)), bool(there.get(_BY_CRD))
    found = [] if by_crd == is_by_crd else [_BY_CRD]
    for key, value in asked.items():
        elsewhere = any(key == one or key.startswith(one + ".") for one in _ELSEWHERE)
        if (by_crd or is_by_crd) and key.startswith("driver."):
            elsewhere = elsewhere or not key.startswith(_BESIDE_CRD)
        if not elsewhere and not _same(key, value, there.get(key)):
            found.append(key)
    return found


def _as_values(policy: Mapping[str, Any]) -> Dict[str, Any]:
    """The spec, flat, with what is called otherwise in it under its name in the values."""
    names = {
        "useNvidiaDriverCRD": "nvidiaDriverCRD.enabled",
        "upgradePolicy.podDeletion": "upgradePolicy.gpuPodDeletion",
    }
    found: Dict[str, Any] = {}
    for key, value in chart.flat(mapping(policy)).items():
        for theirs, ours in names.items():
            if (key + ".").startswith("driver." + theirs + "."):
                key = "driver." + ours + key[len("driver." + theirs) :]
        found[key] = value
    return found


def _same(key: str, asked: Any, there: Any) -> bool:
    """The template leaves out what is empty or false, but no switch of a part, and quotes some versions and numbers."""
    if not asked and not there and not key.endswith(".enabled"):
        return True
    plain = (str, int, float)
    if isinstance(asked, plain) and isinstance(there, plain) and not isinstance(asked, bool):
        return str(asked) == str(there)
    return bool(asked == there)
