# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a profile may contain. :func:`problems` tells everything that is wrong with one, a sentence each.

The shape is data, so docs/profiles.md and this file can be held side by side.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

from ...core.frozen import frozen
from ..image.software import COMPONENTS
from ..image.version import constraint

Check = Callable[[str, Any], List[str]]

# Where a virtual machine hides PCIe switches: one for each GPU and its network device, or one for each NUMA node.
SWITCHES = ("none", "pair", "numa_node")
# GT/s of a PCIe lane as NCCL has them (kvDictPciGen in src/graph/topo.cc); any other text counts as 8 GT/s there.
LINK_SPEEDS = ("2.5", "5.0", "8.0", "16.0", "32.0", "64.0")


@frozen
class Field:
    """One key of a mapping."""

    check: Check
    required: bool = False


def _say(path: str, must: str, value: Any) -> List[str]:
    return ["{0} must be {1}, and is {2!r}.".format(path, must, value)]


def text(path: str, value: Any) -> List[str]:
    return [] if isinstance(value, str) and value.strip() else _say(path, "a text", value)


def whole(path: str, value: Any) -> List[str]:
    fine = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return [] if fine else _say(path, "a whole number, 0 or more", value)


def number(path: str, value: Any) -> List[str]:
    fine = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")
    return [] if fine else _say(path, "a number, 0 or more", value)


def flag(path: str, value: Any) -> List[str]:
    return [] if isinstance(value, bool) else _say(path, "true or false", value)


def one_of(*choices: str) -> Check:
    return lambda path, value: [] if value in choices else _say(path, "one of " + ", ".join(choices), value)


def matching(pattern: str, what: str) -> Check:
    return lambda path, value: [] if isinstance(value, str) and re.match(pattern, value) else _say(path, what, value)


def list_of(check: Check) -> Check:
    def checked(path: str, value: Any) -> List[str]:
        if not isinstance(value, list):
            return _say(path, "a list", value)
        return [one for place, item in enumerate(value) for one in check("{0}[{1}]".format(path, place), item)]

    return checked


def map_of(check: Check) -> Check:
    def checked(path: str, value: Any) -> List[str]:
        if not isinstance(value, dict):
            return _say(path, "a mapping", value)
        found = []
        for key, item in value.items():
            found += text("a key of {0}".format(path), key) or check("{0}.{1}".format(path, key), item)
        return found

    return checked


def mapping(fields: Mapping[str, Union[Field, Check]]) -> Check:
    def checked(path: str, value: Any) -> List[str]:
        if not isinstance(value, dict):
            return _say(path or "a profile", "a mapping", value)
        prefix = path + "." if path else ""
        found = []
        for key in value:
            if key not in fields:
                found.append("{0}{1} is no key of a profile; known here: {2}.".format(prefix, key, ", ".join(fields)))
        for key, field in fields.items():
            check, required = (field.check, field.required) if isinstance(field, Field) else (field, False)
            if key in value:
                found += check(prefix + key, value[key])
            elif required:
                found.append("{0}{1} is missing.".format(prefix, key))
        return found

    return checked


def _scalar(path: str, value: Any) -> List[str]:
    fine = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return [] if fine else _say(path, "a text or a number", value)


def _threshold(path: str, value: Any) -> List[str]:
    found = mapping({"warn": number, "fail": number, "better": Field(one_of("higher", "lower"), True)})(path, value)
    if found:
        return found
    if "warn" not in value and "fail" not in value:
        return ["{0} needs warn, fail or both.".format(path)]
    warn, fail = value.get("warn"), value.get("fail")
    if warn is not None and fail is not None:
        upside_down = warn < fail if value["better"] == "higher" else warn > fail
        if upside_down:
            return ["{0}.warn must be reached before {0}.fail ({1} is better).".format(path, value["better"])]
    return []


def _version(path: str, value: Any) -> List[str]:
    fine = constraint(value) is not None
    return [] if fine else _say(path, "a requirement such as '>=535,<600'", value)


def _required(path: str, value: Any) -> List[str]:
    if not isinstance(value, dict):
        return _version(path, value)
    return mapping({"version": Field(_version, True), "outcome": one_of("fail", "warn")})(path, value)


_NODE = mapping({"cpus": whole})
_DMI = mapping(
    {
        name: text
        for name in (
            "sys_vendor",
            "product_name",
            "product_family",
            "board_vendor",
            "board_name",
            "chassis_asset_tag",
            "chassis_vendor",
        )
    }
)

PROFILE: Dict[str, Union[Field, Check]] = {
    "name": Field(matching(r"^[a-z0-9][a-z0-9_]*$", "lower-case letters, digits and underscores"), True),
    "description": Field(text, True),
    "match": Field(
        mapping(
            {
                "vm_sizes": list_of(text),
                "dmi": _DMI,
                "gpu_products": list_of(text),
                "gpu_pci_ids": list_of(matching(r"^[0-9a-f]{4}:[0-9a-f]{4}$", "a PCI id such as 10de:20b0")),
                "gpu_count": whole,
                "cpus": whole,
                "infiniband_count": whole,
            }
        ),
        True,
    ),
    "gpus": mapping(
        {
            "count": Field(whole, True),
            "products": list_of(text),
            "memory_bytes_min": whole,
            "graphics_clock_max_mhz": whole,
            "memory_clock_max_mhz": whole,
            "nvlinks": whole,
            "nvlink_domain": flag,
        }
    ),
    "gpu_numa": list_of(whole),
    "cpus": whole,
    "numa_nodes": list_of(_NODE),
    "memory": mapping({"bytes": Field(whole, True), "tolerance_percent": Field(number, True)}),
    "nvme": mapping({"models": list_of(text), "serials": list_of(text), "count": Field(whole, True)}),
    "infiniband": mapping(
        {
            "count": Field(whole, True),
            "rate_gigabits_per_second": number,
            "names": one_of("leave", "ordered", "pci", "kernel"),
        }
    ),
    "nccl": mapping({"settings": map_of(_scalar), "switches": one_of(*SWITCHES), "link_speed": one_of(*LINK_SPEEDS)}),
    "software": mapping({name: _required for name in COMPONENTS}),
    "thresholds": map_of(_threshold),
}


def problems(profile: Any, key: Optional[str] = None) -> Tuple[str, ...]:
    """Everything that is wrong with a profile. ``key`` is the name that it is filed under."""
    found = mapping(PROFILE)("", profile)
    if found:
        return tuple(found)
    if key is not None and profile["name"] != key:
        found.append("name must be the name that it is filed under ({0}), and is {1!r}.".format(key, profile["name"]))
    if profile["name"] in ("auto", "unknown"):
        found.append("name must not be {0}, which has a meaning of its own.".format(profile["name"]))
    if not any(profile["match"].values()):
        found.append("match needs at least one of vm_sizes, dmi, gpu_products, gpu_pci_ids and the counts.")
    if "gpu_numa" in profile:
        count = profile.get("gpus", {}).get("count")
        if count != len(profile["gpu_numa"]):
            found.append("gpu_numa must name one NUMA node for each of the {0} GPUs of gpus.count.".format(count))
        nodes = len(profile.get("numa_nodes", []))
        if nodes and any(node >= nodes for node in profile["gpu_numa"]):
            found.append("gpu_numa names a NUMA node that numa_nodes does not have ({0} nodes).".format(nodes))
    if "cpus" in profile and "numa_nodes" in profile:
        counts = [node.get("cpus") for node in profile["numa_nodes"]]
        total = sum(count for count in counts if count is not None)
        if None not in counts and total != profile["cpus"]:
            found.append("numa_nodes have {0} CPUs together, and cpus is {1}.".format(total, profile["cpus"]))
    nvme = profile.get("nvme")
    if nvme and nvme["count"] and not nvme.get("models") and not nvme.get("serials"):
        found.append("nvme needs models or serials, so that no other disk is taken for a local one.")
    return tuple(found)
