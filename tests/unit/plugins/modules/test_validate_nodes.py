# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module validate_nodes as Ansible runs it; real processes stand for NCCL's tests, and print what these print."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet import judge, launch, validate
from ansible_collections.trainyard.gpu_node.plugins.modules import validate_nodes as module
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

# What stands for the job script: reads the names, knows who is bad, and prints a table of one size.
TEST = """#!{python}
import os, sys, time
nodes = set(open(sys.argv[1]).read().split())
with open({log!r}, "a") as log:
    log.write(" ".join(sorted(nodes)) + "\\n")
rate = 180.0 + len(nodes) % 3
if "slow" in nodes or {{"left", "right"}} <= nodes:
    rate = 90.0
if "broken" in nodes:
    sys.exit("ncclInternalError: unhandled cuda error")
wrong = 7 if "liar" in nodes else 0
if "hung" in nodes:
    if not os.fork():
        time.sleep(300)
    time.sleep(300)
names = "%7s %6s %6s %6s" % ("time", "algbw", "busbw", "#wrong")
print("# %12s %12s %8s %6s %6s " % ("size", "count", "type", "redop", "root") + names + "  " + names)
timing = "%7.1f %6.2f %6.2f %6d" % (47721.0, 180.0, rate, wrong)
print("  %12d %12d %8s %6s %6d " % (8 << 30, 2 << 30, "float", "sum", -1) + timing + "  " + timing)
print("# Out of bounds values : %d %s" % (2 * wrong, "FAILED" if wrong else "OK"))
print("# Avg bus bandwidth    : %.2f" % rate)
"""
NODES = ["n{0:02d}".format(number) for number in range(8)]


@pytest.fixture
def run(tmp_path):
    script = tmp_path / "test"
    log = tmp_path / "log"
    log.write_text("")
    script.write_text(TEST.format(python=sys.executable, log=str(log)))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "work").mkdir()

    def call(nodes, check=False, **arguments):
        given = dict({"launcher": "mpirun", "script": str(script), "folder": str(tmp_path / "work")}, **arguments)
        result = run_module("validate_nodes", dict(given, nodes=nodes), check=check)
        assert not os.listdir(str(tmp_path / "work"))
        return result

    call.log, call.folder = log, tmp_path
    return call


def placed(*others):
    """Eight nodes, some of them special."""
    return [*NODES[: 8 - len(others) - 2], *others, *NODES[-2:]]


def test_healthy_nodes_pass_and_nothing_but_the_record_is_left(run):
    record = run.folder / "record" / "validation.json"
    result = run(NODES, record=str(record))
    assert (result["outcome"], result["changed"], result["bad_nodes"], result["proven"]) == ("pass", False, [], NODES)
    assert result["lines"] == ["n00, n01, n02, n03 and 4 more do well together at 182 GB/s.", "25 tests in 9 rounds."]
    assert result["busbw_limit_gigabytes_per_second"] == pytest.approx(182.0 * 400 / 450)
    written = json.loads(record.read_text())
    assert written["outcome"] == "pass" and [len(one) for one in written["rounds"]] == [4, 4, 4, 4, 2, 1, 2, 2, 2]


@pytest.mark.parametrize(
    "bad, reason",
    [
        ("slow", "90 GB/s, below 161.8"),
        ("broken", "it ended with status 1: ncclInternalError: unhandled cuda error"),
        ("liar", "results were wrong"),
    ],
)
def test_a_bad_node_is_named_with_the_reason(run, bad, reason):
    result = run(placed(bad))
    assert (result["outcome"], result["bad_nodes"], result["bad_pairs"]) == ("fail", [bad], [])
    assert result["lines"][0].startswith(bad + ": it falls short with different partners (with ")
    assert reason in result["lines"][0] and "gpunode health" in result["lines"][0]
    assert sorted(result["proven"]) == sorted(set(placed(bad)) - {bad})


def test_two_bad_nodes_and_a_bad_pair(run):
    assert run(placed("slow", "broken"))["bad_nodes"] == ["slow", "broken"]
    result = run(placed("left", "n20", "right"))
    assert result["outcome"] == "fail" and result["bad_nodes"] == []
    assert [sorted(one["one"] + one["other"]) for one in result["bad_pairs"]] == [["left", "right"]]
    assert "links and switches" in result["lines"][0]


def test_nodes_that_all_fall_short_are_one_line_with_a_reason_and_nobody_is_said_to_do_well(run):
    result = run(NODES[:5], busbw_min=400)
    assert result["outcome"] == "unknown" and len(result["lines"]) == 2 and not result["proven"]
    assert " GB/s, below 400; " in result["lines"][0] and "gpu_node_validate_busbw_min" in result["lines"][0]


def test_a_test_that_hangs_is_ended_with_all_that_it_started(run):
    started = time.monotonic()
    result = run(placed("hung"), seconds_per_test=3, launcher="command", command=["{script}", "{hostfile}"])
    assert result["bad_nodes"] == ["hung"] and "it did not end within 3 s" in result["lines"][0]
    assert time.monotonic() - started < 120
    left = subprocess.run(["pgrep", "-f", str(run.folder / "test")], capture_output=True, text=True, check=False)
    assert not left.stdout.split()


def test_one_at_a_time_finds_the_same(run):
    result = run(placed("slow"), parallel=1)
    assert result["bad_nodes"] == ["slow"] and all(len(one) == 1 for one in result["rounds"])


def test_check_mode_runs_nothing_and_tells_the_first_round(run):
    result = run(NODES, check=True, record=str(run.folder / "no"))
    assert result["next_tests"] == [NODES[place : place + 2] for place in (0, 2, 4, 6)]
    assert run.log.read_text() == "" and not (run.folder / "no").exists()


def test_slurm_is_given_exactly_these_nodes_and_a_job_past_its_time_is_cancelled(run, tmp_path, monkeypatch):
    """A stand-in for sbatch, which writes the file that it was told to; the words are those of Slurm's manual."""
    folder = tmp_path / "bin"
    folder.mkdir()
    sbatch, scancel = folder / "sbatch", folder / "scancel"
    sbatch.write_text(
        "#!/bin/bash\nfor word; do case $word in --nodelist=*) nodes=${word#*=};; --output=*) output=${word#*=};; "
        '--job-name=*) name=${word#*=};; esac; done\necho "$@" >>%s/calls\nhosts=$(mktemp)\ntr , "\\n" <<<"$nodes" '
        '>"$hosts"\necho Submitted batch job 1\n"${!#}" "$hosts" >"$output"\n' % tmp_path
    )
    scancel.write_text('#!/bin/bash\necho "$@" >>%s/cancelled\n' % tmp_path)
    for program in (sbatch, scancel):
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder) + os.pathsep + os.environ["PATH"])
    result = run(placed("hung"), launcher="slurm", seconds_per_test=4)
    assert result["bad_nodes"] == ["hung"]
    calls = (tmp_path / "calls").read_text().splitlines()  # of tests side by side, in any order
    call = next(line for line in calls if "--nodelist=n00,n01 " in line)
    assert {"--wait", "--exclusive", "--nodes=2"} <= set(call.split())
    # The script may send errors elsewhere by itself.
    told = dict(word.split("=", 1) for word in call.split() if "=" in word)
    assert told["--error"] == told["--output"]
    assert (tmp_path / "cancelled").read_text().startswith("--name=gpu_node-validate-")


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"nodes": ["a"]}, "option nodes: a test between nodes needs two of them, and this is a; name more"),
        ({"nodes": ["a", "b", "a"]}, "option nodes: a is named twice; name each once."),
        ({"nodes": ["a", "b;reboot"]}, "option nodes: 'b;reboot' is no name of a node"),
        (
            {"nodes": ["gpu01.rack1", "gpu02.rack1", "gpu01.rack2"]},
            "option nodes: nccl-tests prints gpu01.rack1 and gpu01.rack2 alike, as gpu01",
        ),
        ({"nodes": ["a", "b"], "script": None}, "option script: it must be an absolute path"),
        ({"nodes": ["a", "b"], "launcher": "command"}, "option command: there is no command"),
        ({"nodes": ["a", "b"], "busbw_min": 0}, "option busbw_min: 0 GB/s is no limit; give what the nodes must reach"),
        ({"nodes": ["a", "b"], "busbw_min": "nan"}, "option busbw_min: nan GB/s is no limit"),
        ({"nodes": ["a", "b"], "runs": 0}, "option runs: it is 0; give 1 or more"),
        ({"nodes": ["a", "b"], "pairwise": False}, "option busbw_min: without it nodes are compared by pairs"),
        ({"nodes": ["a", "b"], "script": "/nowhere/test"}, "/nowhere/test: it cannot be started"),
        ({"nodes": ["a", "b"], "folder": "/proc/none"}, "/proc/none: nothing can be written there"),
    ],
)
def test_bad_arguments_are_one_sentence(run, arguments, words):
    result = run(**arguments)
    assert result["failed"] and words in result["msg"] and not run.log.read_text()


def test_addresses_have_no_short_name():
    launcher = launch.Launcher(("true",))
    assert validate.Desired(("10.0.0.4", "10.0.0.5"), launcher).nodes == ("10.0.0.4", "10.0.0.5")


@pytest.mark.parametrize(
    "text", ["", "garbage", "\x00\xff", "# Avg bus bandwidth : 12,5", "# Out of bounds values : 0 OK"]
)
def test_output_that_nobody_can_read_is_no_good_result(text):
    ran = judge.read(("a", "b"), text, 0, 1.0)
    assert ran.busbw_gigabytes_per_second is None and "cannot be read" in ran.fault
    assert not judge.judged([(ran,)], judge.limits(("a", "b"), []))[0][0].good


TABLE = """# Using devices
{devices}#  size    count    type  redop  root   time  algbw   busbw #wrong   time  algbw   busbw #wrong
  8589934592  2147483648  float    sum    -1  85899  100.00  {rate}      0  85899  100.00  {rate}      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : {rate}
"""
DEVICE = "#  Rank {0:2d} Group  0 Pid  12345 on {1:>10s} device {0:2d} [0000:19:00] NVIDIA H100 80GB HBM3\n"


def table(*hosts, rate="450.00"):
    return TABLE.format(devices="".join(DEVICE.format(*one) for one in enumerate(hosts)), rate=rate)


@pytest.mark.parametrize(
    "text, fault",
    [
        (table("a", "a", "b", "b"), ""),
        (table(), ""),
        (table("a") + table("b"), "its output cannot be read (output of nccl-tests: several runs are in it"),
        (table("a", "a"), "it ran on 1 of 2 nodes"),
        (table("a", "b", "c"), "it ran on 3 hosts, not on 2 nodes"),
        (table("a", "b", rate="0.00"), "it measured no bandwidth between ranks"),
    ],
)
def test_what_was_not_measured_between_all_nodes_is_no_good_result(text, fault):
    """nccl-tests built without MPI=1 is the usual way there: each process measures itself, and ends well."""
    ran = judge.read(("a", "b"), text, 0, 1.0)
    assert ran.fault.startswith(fault) and (ran.busbw_gigabytes_per_second is None) == bool(fault) == bool(ran.fault)


def test_the_documentation_names_every_argument():
    documented = yaml.safe_load(module.DOCUMENTATION)["options"]
    assert len(documented) == 13
