# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel must allow for containers of users, and what is done where it does not. Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from .types import Kernel

# (key, the least that is enough, what is set where there is less). enroot's requirements.md names the three keys;
# "No space left on device" is what a user sees of the first two.
NEEDS: Tuple[Tuple[str, int, str], ...] = (
    ("user.max_user_namespaces", 2, "65536"),
    ("user.max_mnt_namespaces", 2, "65536"),
    ("kernel.unprivileged_userns_clone", 1, "1"),
)
KEYS = tuple(key for key, dummy, dummy2 in NEEDS)
RESTRICTION = "kernel.apparmor_restrict_unprivileged_userns"


def path(key: str) -> str:
    return "/proc/sys/" + key.replace(".", "/")


def former(declared: Mapping[str, Any]) -> Dict[str, str]:
    """The values that were there before us, by the declaration."""
    given = declared.get("kernel_before")
    pairs = given.items() if isinstance(given, dict) else ()
    return {key: value for key, value in pairs if key in KEYS and isinstance(value, str) and value.isdigit()}


def wanted(kernel: Kernel, declared: Mapping[str, Any]) -> Dict[str, str]:
    """What is too small now, and what was so before we set it, for keys that the kernel tells a number for."""
    before = former(declared)
    return {
        key: value
        for key, least, value in NEEDS
        if kernel.values.get(key, "").isdigit() and (key in before or not enough(kernel.values[key], least))
    }


def before(kernel: Kernel, declared: Mapping[str, Any], setting: Mapping[str, str]) -> Dict[str, str]:
    """What ``absent`` has to return to."""
    known = former(declared)
    return {key: known.get(key, kernel.values[key]) for key in setting}


def to_set(kernel: Kernel, setting: Mapping[str, str]) -> List[Tuple[str, str]]:
    """Those that are too small now; a site may have raised one further."""
    least = {key: number for key, number, dummy in NEEDS}
    return [(key, value) for key, value in setting.items() if not enough(kernel.values[key], least[key])]


def enough(value: str, least: int) -> bool:
    return value.isdigit() and int(value) >= least


def notes(kernel: Kernel, setting: Mapping[str, str]) -> List[str]:
    found = []
    if "user.max_user_namespaces" not in kernel.values:
        found.append("this kernel has no user namespaces (CONFIG_USER_NS), so no container of a user will start")
    for key, place in kernel.overridden:
        if key in setting:
            found.append("{0} sets {1} too, and wins at the next boot: take it out there".format(place, key))
    return found
