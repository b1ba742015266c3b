# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each class of failures in docs/health_peers.md names checks, series and alerts that exist, or says why not."""

from __future__ import annotations

import pathlib
import re

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost
from tools.monitoring import alerts, rules

ROOT = pathlib.Path(__file__).resolve().parents[4]
TABLE = (
    (ROOT / "docs/health_peers.md").read_text().split("<!-- begin failures -->")[1].split("<!-- end failures -->")[0]
)
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.strip().splitlines()[2:]]
CHECKS = {one.id for one in registry.checks(Cost.ACTIVE)}
RECORDED = {one.record for _name, _seconds, group in rules.groups() for one in group}
METRICS = (ROOT / "docs/metrics.md").read_text()
ALERTS = {one.name for one in alerts.alerts()}


def test_the_table_has_all_classes():
    assert len(ROWS) == 23 and all(len(row) == 6 for row in ROWS)
    # Those of Llama 3 are all of its 419 interruptions.
    counts = [int(one) for row in ROWS for one in re.findall(r"Llama 3: ([0-9]+)", row[1])]
    assert sum(counts) == 419


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_class_has_a_check_a_series_and_an_alert_or_a_sentence(row):
    checks, series, links = (
        re.findall(pattern, cell) for pattern, cell in zip(("`(.*?)`", "`(.*?)`", r"\[(\w+)\]"), row[2:5])
    )
    assert set(checks) <= CHECKS and set(links) <= ALERTS
    assert [one for one in series if one not in RECORDED and "`{0}`".format(one) not in METRICS] == []
    assert (checks and series and links) or row[5].endswith(".")
