# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the load of the active checks brings to light: the verdict is of the looks before it and after it."""

from __future__ import annotations

import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import run, two_looks
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import (
    Check,
    Cost,
    Finding,
    Judgement,
    Measured,
    Outcome,
    Remedy,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.health_on_simulator import (
    Node,
)

CODE = """
import json, sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import Cost, Options, examine, to_dict
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
only = ("gpu_ecc", "gpu_row_remap", "gpu_xid", "gpu_lost", "host_device_bandwidth")
print(json.dumps(to_dict(examine(Host(sys.argv[1]), "node", Options(Cost.ACTIVE, only)))))
"""
RATES = """nvbandwidth Version: v0.6

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0
 0     24.50

SUM host_to_device_memcpy_ce 24.50

Running device_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0
 0     24.50

SUM device_to_host_memcpy_ce 24.50
"""
# An nvbandwidth that measures a healthy GPU, and what happens to the machine meanwhile.
TOOL = """#!{0} -S
import os, subprocess, sys
{1}
sys.stdout.write(open({2!r}).read())
"""


@pytest.fixture
def verdict(machine, tmp_path):
    """The verdict of a run whose load does this to the machine: lines of Python, of which the first GPU's runs them."""

    def run_it(*damage):
        gpus = machine("nd96asr_v4")
        node = Node(gpus.simulator, "nd96asr_v4", tmp_path / "node", profile=False)
        tool, output = tmp_path / "nvbandwidth", tmp_path / "output"
        output.write_text(RATES)
        lines = ["if os.environ['CUDA_VISIBLE_DEVICES'] == {0!r}:".format(gpus.gpus[0][0]), "    pass"]
        lines += ["    " + one for one in damage]
        tool.write_text(TOOL.format(sys.executable, "\n".join(lines), str(output)))
        tool.chmod(0o755)
        node.declare(health={"tools": {"nvbandwidth": str(tool)}})
        return gpus.simulator.python(
            CODE,
            str(node.root),
            timeout=120,
            LD_LIBRARY_PATH=gpus.library_path,
            SLURM_JOB_ID="",
            CONTROL=str(gpus.simulator.built / "nvml-simulator"),
            LOG=str(node.root / "dev/kmsg"),
        )

    return run_it


def told(verdict):
    return [(one["id"], found["code"], found["outcome"]) for one in verdict["results"] for found in one["findings"]]


def test_a_load_that_does_nothing_to_the_gpus(verdict):
    answer = verdict()
    assert told(answer) == [] and answer["outcome"] == "pass"


def test_what_comes_under_load_is_told(verdict):
    answer = verdict(
        "subprocess.run([os.environ['CONTROL'], 'ecc', 'add', '0', 'uncorrected', '1'], check=True)",
        "log = open(os.environ['LOG'], 'a')",
        "log.write('4,9,99000000,-;NVRM: Xid (PCI:0001:00:00): 48, pid=1, An uncorrectable double bit error\\n')",
    )
    found = told(answer)
    assert {one[:2] for one in found} >= {("gpu_ecc", "uncorrected"), ("gpu_xid", "xid_48")}
    assert answer["outcome"] in ("warn", "fail")
    (load,) = [one for one in answer["results"] if one["id"] == "host_device_bandwidth"]
    assert load["outcome"] == "pass"


# Of both ----------------------------------------------------------------------------------------------


def finding(outcome, key="gpu3", code="uncorrected", reason="it is broken"):
    return Finding(outcome, "GPU 3", reason, "mend it", Remedy.LOOK, key=key, code=code)


def both(before, after):
    return two_looks.both("gpu_ecc", before, after)


@pytest.mark.parametrize("first", [Outcome.WARN, Outcome.UNKNOWN, Outcome.FAIL])
def test_a_finding_of_either_look_counts(first):
    bad = Judgement("x", (finding(first),))
    assert both(bad, Judgement("y")) == Judgement("y", bad.findings)
    assert both(Judgement("y"), bad).findings == bad.findings
    nothing = Judgement(not_applicable="NVML cannot be opened")
    assert both(bad, nothing) is bad and both(nothing, bad) is bad and both(nothing, nothing) is nothing


def test_the_same_finding_is_told_once_at_its_worst():
    before, after = finding(Outcome.FAIL, reason="5 errors"), finding(Outcome.WARN, reason="6 errors")
    assert both(Judgement(findings=(before,)), Judgement(findings=(after,))).findings == (before,)
    assert both(Judgement(findings=(after,)), Judgement(findings=(before,))).findings == (before,)
    later = finding(Outcome.FAIL, reason="6 errors")
    assert both(Judgement(findings=(before,)), Judgement(findings=(later,))).findings == (later,)


def rows(value, key="gpu3", name="gpu_remapped_correctable_rows"):
    return Judgement(measured=(Measured(name, value, key, True, "lower"),))


def test_damage_that_is_within_its_limits_is_told_when_it_came_under_load():
    judgement = both(rows(2), rows(3))
    (one,) = judgement.findings
    assert (one.outcome, one.key, one.code) == (Outcome.WARN, "gpu3", "memory_damaged")
    assert one.reason == "1 memory rows were remapped for correctable errors while the active checks ran"
    assert judgement.measured == rows(3).measured
    for before, after in ((rows(3), rows(3)), (rows(3), rows(0)), (Judgement(), rows(3))):
        assert both(before, after).findings == ()
    assert both(rows(1, name="gpu_ecc_corrected_aggregate_errors"), rows(9)).findings == ()
    worse = both(rows(2), Judgement(findings=(finding(Outcome.FAIL),), measured=rows(3).measured))
    assert [one.outcome for one in worse.findings] == [Outcome.FAIL]  # told once


def test_what_was_known_before_the_load_does_not_hide_that_more_came():
    """A finding that somebody has silenced would take the growth with it."""
    known = (finding(Outcome.WARN, code="row_remapped"),)
    before = Judgement(findings=known, measured=rows(2).measured)
    after = Judgement(findings=known, measured=rows(3).measured)
    assert [one.code for one in both(before, after).findings] == ["row_remapped", "memory_damaged"]
    worse = Judgement(findings=(finding(Outcome.FAIL, code="row_remapped"),), measured=rows(3).measured)
    assert [one.code for one in both(before, worse).findings] == ["row_remapped"]
    beside = Judgement(findings=(*known, finding(Outcome.WARN, code="another")), measured=rows(3).measured)
    assert [one.code for one in both(before, beside).findings] == ["row_remapped", "another", "memory_damaged"]


def test_active_checks_run_after_the_others_and_before_the_second_look(tmp_path):
    seen = tmp_path / "seen"

    def check(name, cost, lane):
        def look(dummy):
            with open(str(seen), "a", encoding="ascii") as stream:
                stream.write(name + " ")
            return name

        return Check(name, name, cost, lambda seen, expected: Judgement(), look, lane)

    checks = [check("load", Cost.ACTIVE, "active"), check("xid", Cost.QUICK, "log"), check("cpus", Cost.QUICK, "node")]
    looked, again = run.with_load(checks, Evidence(Host(str(tmp_path)), {}, {}), 1.0)
    order = seen.read_text().split()
    assert sorted(order[:2]) == ["cpus", "xid"] and order[2:] == ["load", "xid"]
    assert set(looked) == {"load", "xid", "cpus"} and set(again) == {"xid"}
    assert run.with_load(checks[1:], Evidence(Host(str(tmp_path)), {}, {}), 1.0)[1] == {}
