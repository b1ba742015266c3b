# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of what GPU feature discovery does not know: NUMA nodes, scratch, InfiniBand, the layout of MIG. Pure.

The profile has no label here: it is what the node is judged against, so the verdict of the gate names it
(``health/formats/nfd.py``), and no label may come from two files.
"""

from __future__ import annotations

import hashlib
import re
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from . import rules
from .types import Device, Facts

OFF, EMPTY = "off", "empty"


def labels(facts: Facts) -> Dict[str, str]:
    """What was not told has no label."""
    told: Mapping[str, Optional[str]] = {
        "numa-nodes": _whole(facts.numa_nodes),
        "scratch-ready": None if facts.scratch_ready is None else ("true" if facts.scratch_ready else "false"),
        "scratch-gib": _whole(facts.scratch_gib),
        "infiniband-ports": _whole(facts.infiniband_ports),
        "infiniband-rate-gbps": None if facts.infiniband_gbps is None else "{0:g}".format(facts.infiniband_gbps),
        "mig-layout": layout(facts.devices) if facts.complete else None,
    }
    return {"{0}/{1}".format(rules.NAMESPACE, name): text for name, text in told.items() if text is not None}


def _whole(number: Optional[int]) -> Optional[str]:
    return None if number is None else str(number)


def layout(devices: Sequence[Device]) -> Optional[str]:
    """How the GPUs that can be divided are divided: ``off``, ``empty``, ``1g.10gb-x7``, ``3g.40gb-x1_1g.10gb-x4``, and
    of GPUs that differ ``1g.10gb-x7-on-4_off-on-4``. Too long for a label it is ``mixed-`` with a digest, the same on
    every node that is divided so. None: no GPU can be divided, or it was not told."""
    texts: List[str] = []
    for one in devices:
        if one.mig_capable:
            text = _of(one)
            if text is None:
                return None
            texts.append(text)
    if not texts:
        return None
    kinds = sorted(set(texts), key=lambda text: (-texts.count(text), text))
    if len(kinds) == 1:
        whole = kinds[0]
    else:
        whole = "_".join("{0}-on-{1}".format(text, texts.count(text)) for text in kinds)
    if len(whole) <= rules.LONGEST:
        return rules.value(whole)
    return "mixed-" + hashlib.sha256(whole.encode()).hexdigest()[:8]


def _of(device: Device) -> Optional[str]:
    if not device.mig_enabled:
        return OFF
    if device.mig is None:
        return None
    pieces = [named(one.profile) for one in device.mig] + [named(one) + "-bare" for one in device.bare]
    kinds = sorted(set(pieces), key=_largest_first)
    return "_".join("{0}-x{1}".format(kind, pieces.count(kind)) for kind in kinds) or EMPTY


def named(profile: str) -> str:
    """As the device plugin of NVIDIA writes a profile, since a label takes no plus."""
    return profile.replace("+", ".")


def _largest_first(piece: str) -> Tuple[int, int, str]:
    found = re.match(r"(?:([0-9]+)c\.)?([0-9]+)g", piece)
    slices, compute = (int(found.group(2)), int(found.group(1) or 0)) if found else (0, 0)
    return -slices, -compute, piece
