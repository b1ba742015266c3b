# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the node command says in a unit of ours reaches the journal: systemd.exec(5) gives each line SyslogLevel=, info
unless it is set, and LogLevelMax= drops what is less than it."""

from __future__ import annotations

import re

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.boot_unit import BootUnit
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.cloud_events.types import UNIT
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_metrics import texts as metrics
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_metrics.options import Desired as Metrics
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.health_gate import texts as gate
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_labels import texts as labels
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_labels.options import Desired as Labels

LEVELS = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
UNITS = {
    "gpu_metrics": metrics.service(Metrics()),
    "node_labels": labels.service("/x", Labels()),
    "health": gate.service(True),
    "proof": gate.proof(),
    "remedy": gate.remedy(60),
    "cloud_events": UNIT.text(),
    "converge": UNIT.text(),
    "boot": BootUnit("gpu_settings", "x").text(),
}


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_drops_nothing_that_the_command_says(name):
    given = dict(re.findall("^(SyslogLevel|LogLevelMax)=(.*)$", UNITS[name], re.MULTILINE))
    said, most = given.get("SyslogLevel", "info"), given.get("LogLevelMax", "debug")
    assert LEVELS.index(said) <= LEVELS.index(most), UNITS[name]
