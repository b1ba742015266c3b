# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner of checks: whatever one of them does, the others are looked for, and the run ends in time."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import signal
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import lanes, run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Check, Cost, Judgement


def fine(evidence):
    return "seen"


def hangs(evidence):
    time.sleep(3600)


def dies(evidence):
    os.kill(os.getpid(), signal.SIGKILL)


def has_a_bug(evidence):
    return {}["no such key"]


def cannot(evidence):
    raise NodeError("disk nvme3", "it does not answer", "replace it")


def returns_what_cannot_be_sent(evidence):
    return lambda: None


def check(name, look, lane="node", seconds=0.5):
    return Check(name, name, Cost.PASSIVE, lambda seen, expected: Judgement(), look, lane, seconds)


@pytest.fixture
def evidence(tmp_path):
    return Evidence(Host(str(tmp_path)), {}, {})


@pytest.mark.parametrize(
    ("look", "reason"),
    [
        (hangs, "did not end within 0.5 s"),
        (dies, "its process ended in the middle"),
        (has_a_bug, "KeyError"),
        (cannot, "it does not answer"),
        (returns_what_cannot_be_sent, "it failed"),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_bad_look_costs_its_own_check_and_no_other(evidence, look, reason, place):
    looks = [fine, fine]
    looks.insert(place, look)
    checks = [check("check_{0}".format(number), one) for number, one in enumerate(looks)]
    looked = lanes.look(checks, evidence, 1.0)
    assert set(looked) == {"check_0", "check_1", "check_2"}
    bad = looked.pop("check_{0}".format(place))
    assert reason in str(bad.error) and bad.seen is None
    assert all(one.seen == "seen" and one.error is None for one in looked.values())


def test_lanes_run_side_by_side(evidence):
    def slow(dummy):
        time.sleep(0.6)
        return "slow"

    checks = [check("check_{0}".format(number), slow, "lane{0}".format(number), 5.0) for number in range(4)]
    started = time.monotonic()
    looked = lanes.look(checks, evidence, 1.0)
    assert all(one.seen == "slow" for one in looked.values())
    assert time.monotonic() - started < 4 * 0.6, "the lanes waited for each other"


def test_lanes_that_share_a_child_have_an_order_so_that_a_dead_device_takes_no_time_from_the_log(evidence):
    """Sysfs of a dead network card is in the lane ``node``, a dead file server in the lane ``image``."""
    of_node = [check("node_{0}".format(number), hangs, "node") for number in range(4)]
    of_image = [check("image_{0}".format(number), hangs, "image") for number in range(4)]
    last = [check("log", fine, "log"), check("inforom", fine, "inforom"), check("processes", fine, "processes")]
    looked = lanes.look([*of_node, *of_image, *last], evidence, 0.5)
    assert [looked[one.id].seen for one in last] == ["seen"] * 3
    for name in ("node_3", "image_3"):
        assert "time limit of the whole run" in str(looked[name].error)


def test_many_hanging_checks_end_with_the_run(evidence):
    checks = [check("check_{0}".format(number), hangs, seconds=0.3) for number in range(40)]
    started = time.monotonic()
    looked = lanes.look(checks, evidence, 0.3)
    assert time.monotonic() - started < 40 * 0.3
    assert len(looked) == 40 and all(one.error is not None for one in looked.values())
    assert "time limit of the whole run" in str(looked["check_39"].error)


def test_no_child_is_left(evidence):
    before = children(), threads()
    lanes.look([check("a", hangs, "one"), check("b", fine, "two"), check("c", dies, "three")], evidence, 1.0)
    assert (children() - before[0], threads()) == (set(), before[1])


def children():
    """Process ids of this thread's children; an earlier test in the same process may have left one of its own."""
    with open("/proc/self/task/{0}/children".format(os.getpid()), encoding="ascii") as stream:
        return set(stream.read().split())


def threads():
    return set(os.listdir("/proc/self/task"))


def test_gpu_checks_share_one_answer_of_nvml(nvml_simulator):
    """Two checks with different groups: NVML is asked once, for both."""
    machine = nvml_simulator("nd96asr_v4")
    machine.control("fault", "gpu", "2", "lost")
    code = """
import json
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import lanes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Check, Cost, Judgement
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host

def check(name, group):
    return Check(name, name, Cost.QUICK, lambda seen, expected: Judgement(), lane="gpu", gpu_groups=(group,))

looked = lanes.look([check("a", "ecc"), check("b", "repair")], Evidence(Host(), {}, {}), 5.0)
one, other = looked["a"].seen, looked["b"].seen
print(json.dumps([one is other, [sorted(gpu.groups) for gpu in one.gpus], [gpu.fault is None for gpu in one.gpus]]))
"""
    same, groups, well = machine.python(code)
    assert same and groups == [["ecc", "repair"]] * 8
    assert well == [True, True, False, True, True, True, True, True]


def test_two_runs_of_active_checks_do_not_load_a_node_at_once(evidence):
    passive, active = check("passive", fine), dataclasses.replace(check("active", fine), cost=Cost.ACTIVE)
    with evidence.host.lock(run.ACTIVE_LOCK):
        looked, again = run.with_load([passive, active], evidence, 1.0)
    assert looked["passive"].seen == "seen" and again == {}
    assert looked["active"].seen is None and "another run of active checks loads it" in str(looked["active"].error)
    looked, dummy = run.with_load([passive, active], evidence, 1.0)
    assert looked["active"].seen == "seen"
    assert not evidence.host.locked(run.ACTIVE_LOCK)


def test_active_checks_run_where_there_can_be_no_lock(evidence, monkeypatch):
    (pathlib.Path(evidence.host.path("/run"))).write_text("no directory")
    active = dataclasses.replace(check("active", fine), cost=Cost.ACTIVE)
    assert run.with_load([active], evidence, 1.0)[0]["active"].seen == "seen"
