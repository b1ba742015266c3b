# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts of made-up fleets, as they come to the controller."""

from __future__ import annotations

import dataclasses
import random

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import plain
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import (
    SCHEMA,
    Certainty,
    Cost,
    Finding,
    Measured,
    Outcome,
    Remedy,
    Result,
    Verdict,
    worst,
)

LOST = Finding(
    Outcome.FAIL,
    "GPU 3 (0000:0b:00.0)",
    "it has fallen off the bus (Xid 79)",
    "reboot the node, and open a ticket if it recurs",
    Remedy.REBOOT,
    Certainty.CERTAIN,
    "0000:0b:00.0",
    "xid_79",
)
HOT = Finding(
    Outcome.WARN,
    "GPU 5 (0000:0d:00.0)",
    "it is at 84 °C, 3 below where it slows down",
    "look at the fans and the air of this rack",
    Remedy.LOOK,
    Certainty.LIKELY,
)
UNREAD = Finding(
    Outcome.UNKNOWN,
    "disk nvme2",
    "its state could not be read",
    "install nvme-cli",
    Remedy.CONFIGURE,
    Certainty.CERTAIN,
)
RATE, HEAT = "host_to_device_gigabytes_per_second", "temperature_celsius"


def verdict(host, chance, findings=(), slow=None, profile="nd96asr_v4"):
    """A node with 8 GPUs; ``slow`` is the GPU whose link is bad."""
    rates = [
        Measured(RATE, 21.4 if gpu == slow else chance.gauss(24.6, 0.06), "0000:0{0}:00.0".format(gpu), better="higher")
        for gpu in range(8)
    ]
    heat = [
        Measured(HEAT, round(chance.gauss(41, 2)), "0000:0{0}:00.0".format(gpu), better="lower") for gpu in range(8)
    ]
    measured = {"gpu_host_bandwidth": rates, "gpu_temperature": heat, "memory_size": [Measured("memory_bytes", 9e11)]}
    titles = {
        "gpu_count": "No GPU is lost",
        "gpu_temperature": "No GPU is near the temperature where it slows down",
        "gpu_host_bandwidth": "Each GPU reaches the memory at its rate",
        "nvme_health": "No disk warns",
        "memory_size": "All memory is there",
        "scratch_mounted": "The scratch is mounted and can be written",
    }
    own = {"gpu_count": LOST, "gpu_temperature": HOT, "nvme_health": UNREAD}
    results = tuple(
        Result(
            name,
            title,
            worst(tuple(one.outcome for one in findings if own.get(name) is one)),
            "8 of 8",
            tuple(one for one in findings if own.get(name) is one),
            tuple(measured.get(name, ())),
            0.01,
        )
        for name, title in titles.items()
    )
    outcome = worst(tuple(one.outcome for one in results))
    made = Verdict(host, 1_790_000_000.0, Cost.ACTIVE, profile, outcome, results, {}, (), 1.0)
    return dict(plain(made), schema=SCHEMA)


def fleet(nodes, seed=1):
    """Mostly healthy; a lost GPU, a hot one, a disk that cannot be read, and one slow link that no limit catches."""
    chance = random.Random(seed)
    special = {3: {"findings": (LOST, HOT)}, 7: {"findings": (HOT,)}, 12: {"findings": (UNREAD,)}, 20: {"slow": 6}}
    return {
        "gpu{0:04d}".format(number): verdict("gpu{0:04d}".format(number), chance, **special.get(number, {}))
        for number in range(nodes)
    }


def with_finding(content, **changes):
    """The verdict with another finding in its first check."""
    first = dict(content["results"][0], findings=[plain(dataclasses.replace(LOST, **changes))], outcome="fail")
    return dict(content, outcome="fail", results=[first, *content["results"][1:]])
