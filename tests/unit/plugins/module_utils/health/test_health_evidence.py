# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a look knows from the checks of GPUs: only a clear answer of each GPU spares another look at MIG."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import sysfs
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import lanes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import (
    gpu_mig_instances,
    ib_pcie,
    ib_ports,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import GPU_LANE, Check, Cost, Judgement

PATH = "settings.mig_current"


def gpu(mode, failed=(), fault=None, group="settings"):
    return SimpleNamespace(groups={group: SimpleNamespace(mig_current=mode)}, failed=dict.fromkeys(failed), fault=fault)


@pytest.mark.parametrize(
    ("gpus", "known"),
    [
        (None, False),
        ((), False),
        ((gpu(False),), True),
        ((gpu(None),), True),  # a V100 has no such mode
        ((gpu(None, failed=[PATH]),), False),
        ((gpu(False), gpu(True)), False),
        ((gpu(False), gpu(False, fault="lost")), False),
        ((gpu(False), gpu(False, group="memory")), False),
    ],
)
def test_that_no_gpu_is_in_mig_mode_is_known_only_if_each_one_has_said_so(gpus, known):
    evidence = Evidence(Host(), {}, {})
    evidence.gpus = None if gpus is None else SimpleNamespace(gpus=gpus)
    assert evidence.none_in_mig_mode is known


def test_the_instances_are_not_asked_for_then():
    class NoNvml(Evidence):
        @property
        def mig(self):
            raise AssertionError("NVML is asked again")

    evidence = NoNvml(Host(), {}, {})
    evidence.gpus = SimpleNamespace(gpus=(gpu(False),))
    assert gpu_mig_instances.look(evidence) == gpu_mig_instances.Seen(())
    evidence.gpus = SimpleNamespace(gpus=(gpu(True),))
    with pytest.raises(AssertionError, match="asked again"):
        gpu_mig_instances.look(evidence)


def test_checks_of_one_lane_read_the_infiniband_devices_once(monkeypatch):
    reads = []
    monkeypatch.setattr(sysfs, "infiniband_devices", lambda host: reads.append(host) or ())
    evidence = Evidence(Host(), {}, {})
    ib_ports.look(evidence)
    ib_pcie.look(evidence)
    assert reads == [evidence.host]


def judge(seen, expected):
    return Judgement("")


def a_check(name, lane):
    def look(evidence):
        return evidence.gpus is not None

    return Check(name, name, Cost.PASSIVE, judge, None if lane == GPU_LANE else look, lane)


@pytest.mark.parametrize(("with_gpus", "seen"), [(True, True), (False, False)])
def test_the_lane_of_settings_begins_when_the_gpus_have_answered(monkeypatch, with_gpus, seen):
    monkeypatch.setattr(lanes, "_gpus", lambda *dummy: lanes.Looked(SimpleNamespace(gpus=()), None, 0.0))
    checks = [a_check("late", "settings"), a_check("other", "log")]
    checks += [a_check("gpu", GPU_LANE)] if with_gpus else []
    looked = lanes.look(checks, Evidence(Host(), {}, {}), 5.0)
    assert looked["late"].seen is seen and looked["other"].seen is False
