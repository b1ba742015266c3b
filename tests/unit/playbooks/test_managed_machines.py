# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which resources a converge by variables manages on which machine. The machines are captured trees; all resources but
node_profile stand in for themselves."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import run as core
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Outcome
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import converge as whole
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.summary import lines
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_profile import manage
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import declarations
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import shared, unpack

STACK = list(registry.group("comm"))
DISABLED = {one.name for one in registry.RESOURCES.values() if not one.enabled}
ALL = [name for name in registry.NAMES if name not in ("node_profile", "image", *DISABLED)]


class Ran:
    """``names``: the resources that a converge came to, in order; what it does with them is nothing."""

    def __init__(self, root):
        self.root = root
        self.names = []

    def runner(self, host, resource, desired, check_mode):
        if resource.name == "node_profile":
            return core.run(host, resource, desired, check_mode)
        self.names.append(resource.name)
        facts = {"nvme_scratch": {"scratch": {}}}.get(resource.name, {"restart_pending": False})
        return _Told(facts)

    def converge(self, monkeypatch, everything=False, **variables):
        request = {key: variables.pop(key) for key in ("only", "undo", "check_mode") if key in variables}
        sections = declarations.of_playbooks(variables, variables.__getitem__, everything)
        sections.pop("health")
        sections["node_profile"].update(gpus=False, metadata="never", call_timeout_seconds=5)
        monkeypatch.setattr(whole, "result", _result)
        self.report = whole.converge(Host(self.root), whole.Request(sections, **request), self.runner)
        return self.names


class _Told:
    def __init__(self, facts):
        self.facts = facts


def _result(outcome, resource, desired):
    if isinstance(outcome, Outcome):
        return core.result(outcome, resource, desired)
    return dict(outcome.facts, changed=False, actions=[], notes=[], skipped_reason="it stands in", diff={})


@pytest.fixture
def ran(tmp_path, monkeypatch):
    def run(tree="hb176", **variables):
        # A tree that is unpacked once for all tests is never written to.
        made = Ran(shared(tree) if variables.setdefault("check_mode", True) else unpack(tree, tmp_path / tree))
        made.converge(monkeypatch, **variables)
        run.last = made
        return made.names

    return run


@pytest.mark.parametrize(
    "variables, names",
    [
        ({}, []),
        ({"tree": "ndv4"}, ALL),
        ({"gpu_node_comm": ["enroot", "pyxis"]}, ["enroot", "pyxis"]),
        ({"tree": "ndv4", "gpu_node_comm": []}, [one for one in ALL if one not in STACK]),
        ({"gpu_node_manage": True}, ALL),
        ({"gpu_node_health_gate": True}, ["health_gate"]),
        ({"tree": "ndv4", "gpu_node_health_gate": True}, [*ALL, "health_gate"]),
        ({"gpu_node_cloud_events": True}, ["cloud_events"]),
        ({"tree": "ndv4", "gpu_node_cloud_events": True, "gpu_node_health_gate": False}, [*ALL, "cloud_events"]),
        ({"gpu_node_checkpoint": True}, ["checkpoint"]),
        ({"gpu_node_gpu_metrics": True}, ["gpu_metrics"]),
        ({"gpu_node_node_labels": True}, ["node_labels"]),
        ({"gpu_node_cleanup": True}, ["cleanup"]),
        ({"node_lease_until": "2090-12-01T18:00Z"}, ["node_lease"]),
        ({"tree": "ndv4", "node_lease_state": "absent"}, ["node_lease", *ALL]),
        ({"gpu_node_beeond": True}, ["beeond"]),
        ({"nvme_scratch_serials": ["S1"]}, ["nvme_scratch"]),
        ({"nvme_scratch_count": 4}, ["nvme_scratch"]),
        ({"nccl_state": "absent", "slurm_hooks_state": "absent"}, ["slurm_hooks", "nccl"]),
        ({"only": ("pyxis", "hpcx")}, ["hpcx", "pyxis"]),
        ({"only": ("node_profile", *STACK), "gpu_node_comm": ["hpcx"]}, ["hpcx"]),
        ({"only": ("node_profile", *STACK), "gpu_node_manage": True}, STACK),
        (
            {"undo": True, "everything": True},
            [one for one in reversed(registry.NAMES) if one not in ("node_profile", "image")],
        ),
    ],
)
def test_a_machine_gets_what_it_is_known_for_or_was_asked_for(ran, variables, names):
    assert ran(**variables) == names


def test_what_is_left_alone_says_why_and_nothing_is_written(ran):
    assert ran(check_mode=False) == []
    told = "\n".join(lines(ran.last.report))
    assert "machine: it has no NVIDIA GPU, no profile" in told and "changed: nothing" in told
    assert "set gpu_node_manage: true" in told
    assert not Host(ran.last.root).exists("/etc/gpu_node")


def test_the_order_of_the_registry_has_every_resource_that_may_be_managed():
    assert set(registry.NAMES) >= {*STACK, "health_gate", "nvme_scratch", "slurm_hooks"}
    assert set(manage.ROLES) == set(registry.NAMES) - {"node_profile", "image"}
