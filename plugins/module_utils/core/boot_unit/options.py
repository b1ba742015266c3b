# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a resource that has a boot unit; each is a field of the resource's class of options."""

from __future__ import annotations

from typing import Any

from ..options import option
from ..unit_name import UNIT


def at_boot(resource: str, effect: str) -> Any:
    """``effect`` completes the sentence "It ..."."""
    name = "C(gpu-node-{0}.service)".format(resource)
    return option(True, ["Install and enable {0}. It {1}.".format(name, effect), "V(false) removes it."])


BEFORE_UNITS: Any = option(
    ("slurmd.service", "docker.service", "containerd.service", "kubelet.service"),
    "Units that start only after the boot unit has ended, successfully or not. One that is not installed does no harm.",
    form=UNIT,
)


def boot_timeout(default: int) -> Any:
    return option(
        default, "The boot continues without the resource after this time.", bounds=(1, 86400), unit="seconds"
    )
