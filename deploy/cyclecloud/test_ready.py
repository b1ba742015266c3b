# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What CycleCloud runs on a node of a cluster that was started in testing mode: the node is ready."""

from __future__ import annotations

import json
import unittest


class Ready(unittest.TestCase):
    def test_the_last_converge_ended_ready(self) -> None:
        with open("/var/lib/gpu_node/converge.json", encoding="utf-8") as stream:
            record = json.load(stream)
        self.assertEqual(record["status"], "ready", record.get("reason"))
