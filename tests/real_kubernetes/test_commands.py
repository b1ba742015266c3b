# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands that the gate writes into kubernetes.json, at a real API server."""

from __future__ import annotations

import rights

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import kubernetes
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.formats.formats_verdicts import (
    HEALTHY,
    SICK,
)

NODE = "/api/v1/nodes/gpu001"


def test_the_commands_of_kubernetes_json_with_the_rights_of_their_page(one_node, run, cluster, kubectl, built, request):
    """A healthy node that may have a taint of before, a sick one, a healthy one twice. Each command runs twice."""
    given = rights.of_commands("kubernetes_health.md")
    token = cluster.account("gate-" + request.node.callspec.id.replace(".", "-"), given.everywhere)
    before, since = None, []
    for verdict, status in ((HEALTHY, "False"), (SICK, "True"), (HEALTHY, "False"), (HEALTHY, "False")):
        before = kubernetes.document(verdict, "gpu001", before=before)
        for command in [*before["commands"], *before["commands"]]:
            # The page says: from kubectl 1.24 on.
            if kubectl.endswith("1.20") and "--subresource=status" in command:
                assert "unknown flag: --subresource" in run(*command[1:], token=token, fails=True)
                run(*command[1:], token=token, program=str(built.kubectl["newest"]))
            else:
                run(*command[1:], token=token)
        node = one_node.must("GET", NODE)
        taints = [one["key"] for one in node["spec"].get("taints") or ()]
        assert taints == (["trainyard.io/gpu-node-health"] if status == "True" else [])
        found = {one["type"]: one for one in node["status"]["conditions"]}
        assert found["GpuNodeUnhealthy"]["status"] == status and "Ready" in found
        since.append(found["GpuNodeUnhealthy"]["lastTransitionTime"])
    assert all(since)
