# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patches of many nodes: which of them are sent, and what is reported. test_sharing_cluster has the requests."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.kubectl import AT_ONCE, KubectlError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.node_patches import patch_nodes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_sharing.types import LabelNode

NODES = ["n{0:03d}".format(number) for number in range(200)]


class Client:
    """The calls of kubectl that patch_nodes makes. ``errors``: of a node."""

    def __init__(self, errors):
        self.errors, self.patched = errors, []

    def patch(self, dummy_kind, name, dummy_change):
        if name in self.errors:
            raise self.errors[name]
        self.patched.append(name)


def run(errors):
    client = Client(errors)
    steps = [LabelNode(name, None, "config", "config", "1") for name in NODES]
    return client.patched, patch_nodes(client, steps, lambda step, found: step)


def error(reason, kind):
    return KubectlError("kubectl patch", reason, "run it again", kind)


def test_timeouts_of_single_nodes_stop_no_other_node():
    slow = NODES[5::10]
    patched, found = run({name: error("no answer", "Timeout") for name in slow})
    assert len(slow) > AT_ONCE and sorted(patched) == [name for name in NODES if name not in slow]
    assert "20 nodes" in str(found) or "n005" in str(found)


def test_a_server_that_is_away_is_not_asked_for_each_node():
    patched, found = run({name: error("no answer", "Unreachable") for name in NODES[20:]})
    assert sorted(patched) == NODES[:20] and found is not None


@pytest.mark.parametrize(("second", "sentences"), [("no space left on device", 2), ("webhook denied n002", 1)])
def test_nodes_that_fail_for_one_reason_are_one_sentence(second, sentences):
    found = run({"n001": error("webhook denied n001", ""), "n002": error(second, "")})[1]
    assert len(getattr(found, "refusals", (found,))) == sentences
    assert "webhook denied" in str(found) and (sentences == 1 or second in str(found))
