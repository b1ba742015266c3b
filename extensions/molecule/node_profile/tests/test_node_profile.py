# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node knows what it was declared to be."""

from __future__ import annotations

import json


def test_the_profile_is_declared_on_the_node(host):
    declared = json.loads(host.file("/etc/gpu_node/node.json").content_string)
    assert declared["profile"]["name"] == "virtual"
