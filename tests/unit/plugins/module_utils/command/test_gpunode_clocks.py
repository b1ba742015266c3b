# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode clocks`` through NVIDIA's own binding, on simulated machines."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import resource
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.command import gpunode_on

RECORD = "var/lib/gpu_node/gpu_settings.json"
DECLARATION = "etc/gpu_node/node.json"


class Node:
    def __init__(self, simulator, root: pathlib.Path) -> None:
        self.simulator = simulator
        self.control = simulator.control
        self.root = root
        boot = root / "proc/sys/kernel/random/boot_id"
        boot.parent.mkdir(parents=True)
        boot.write_text("one\n")

    def gpunode(self, *arguments, uid=None, **environment):
        words = [str(self.root)] + ([str(uid)] if uid else []) + ["--", *arguments]
        return forked.run(
            [sys.executable, gpunode_on.__file__, *words],
            env=self.simulator.environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=60,
            text=True,
            check=False,
        )

    def clocks(self, *arguments, status=0):
        done = self.gpunode("clocks", *arguments)
        assert done.returncode == status, done.stdout + done.stderr
        for line in () if "--json" in arguments else done.stdout.splitlines():
            assert len(line) <= 80, line
        return done.stdout

    def refused(self, *arguments, status=1, **how):
        """The one sentence of a run that did nothing."""
        done = self.gpunode("clocks", *arguments, **how)
        assert (done.returncode, done.stdout) == (status, ""), done.stdout + done.stderr
        assert done.stderr.startswith("gpunode: ") and done.stderr.count("\n") == 1, done.stderr
        return done.stderr[len("gpunode: ") : -1]

    def json(self, *arguments, status=0):
        return json.loads(self.clocks(*arguments, "--json", status=status))

    def locked(self, *numbers):
        """(lowest, highest) of the graphics lock that each GPU really has; None without one."""
        path = self.simulator.state / "driver.state"
        lines = path.read_text().splitlines() if path.exists() else []
        values = dict(line.split(" = ") for line in lines if not line.startswith("#"))
        found = []
        for gpu in numbers or range(8):
            low, high = (values.get("gpu.{0}.locked.graphics_{1}_mhz".format(gpu, end)) for end in ("min", "max"))
            found.append(None if low is None else (int(low), int(high)))
        return found

    def persistent(self):
        for gpu in range(8):
            self.control("set", "gpu.{0}.persistence_mode".format(gpu), "1")
        return self

    def files(self):
        found = {}
        for top in (self.root, self.simulator.state):
            for path in sorted(top.rglob("*")):
                if path.is_file() and path.name != "lock":
                    found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found


@pytest.fixture
def node(nvml_simulator, tmp_path):
    def make(machine="nd96asr_v4", *settings):
        return Node(nvml_simulator(machine, *settings), tmp_path / "node")

    return make


MAX, FREE = (1410, 1410), None


# List -------------------------------------------------------------------------------------------------


def test_list_tells_the_clocks_of_the_a100_as_its_maker_does(node):
    rows = node().json("list")["gpus"]
    assert [one["index"] for one in rows] == list(range(8))
    assert rows[0]["pci_address"] == "0001:00:00.0"
    # The reference figures of ND96asr_v4: default 1095, maximum 1410 with 1215 of memory.
    assert (rows[0]["graphics"]["default_mhz"], rows[0]["graphics"]["max_mhz"]) == (1095, 1410)
    assert (rows[0]["memory"]["default_mhz"], rows[0]["memory"]["max_mhz"]) == (1215, 1215)
    assert rows[0]["graphics"]["held_by"] == "not known"


def test_list_is_a_table_that_shows_how_each_clock_is_held(node):
    one = node().persistent()
    fresh = one.clocks("list").splitlines()
    assert fresh[0].split("  ")[0] == "GPU" and fresh[1].split() == [
        *("0", "0001:00:00.0", "210+1215", "-", "not", "known", "1095+1215", "1410+1215")
    ]
    assert "note: not known: NVML cannot tell of a lock" in "\n".join(fresh)
    one.clocks("set", "--graphics", "1005", "--gpu", "2")
    one.clocks("reset", "--gpu", "3")
    after = one.clocks("list").splitlines()
    assert after[3].split() == [
        "2",
        "0003:00:00.0",
        "1005+1215",
        "1005+-",
        "locked",
        "1095+1215",
        "1410+1215",
    ]
    assert after[4].split() == ["3", "0004:00:00.0", "210+1215", "-", "default", "1095+1215", "1410+1215"]


def test_a_lock_is_told_beside_an_application_clock_that_reads_its_default(node):
    one = node().persistent()
    assert "overrides" not in one.clocks("list")
    one.clocks("max", "--gpu", "0,1,2,5")
    one.clocks("set", "--graphics", "1095", "--gpu", "6")  # locked at what the application clock reads
    told = " ".join(one.clocks("list").split())
    assert (
        "note: GPU 0-2,5: the graphics clock is locked at 1410 MHz; the application clock reads its default, 1095 MHz, "
        "and the lock overrides it" in told
    )
    assert told.count("overrides") == 1
    one.clocks("reset")
    assert "overrides" not in one.clocks("list")


def test_a_lock_that_the_readings_speak_against_is_told(node):
    one = node().persistent()
    one.clocks("max")
    one.simulator.python(
        "import pynvml as n; n.nvmlInit(); n.nvmlDeviceSetGpuLockedClocks(n.nvmlDeviceGetHandleByIndex(5), 600, 600)"
    )
    told = one.clocks("list")
    assert "note: GPU 5: its clock speaks against the lock that was set" in told
    assert one.json("list")["gpus"][5]["graphics"]["contradicted"] is True
    assert "GPU 5: lock the graphics clock at 1410 MHz" in one.clocks("max")
    assert "speaks against" not in one.clocks("list")


def test_list_names_the_gpu_that_does_not_answer_and_shows_the_others(node):
    one = node()
    one.control("fault", "gpu", "3", "lost")
    done = one.gpunode("clocks", "list")
    assert done.returncode == 1 and len(done.stdout.splitlines()) >= 8
    assert "GPU 3" in done.stderr and done.stderr.count("\n") == 1
    assert len(one.json("list", status=1)["gpus"]) == 7
    # Who asks for the GPUs of one job does not hear of others.
    assert one.gpunode("clocks", "list", "--gpu", "0,1").returncode == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("machine", ["nd40rs_v2", "nd96isr_h100_v5", "nc24ads_a100_v4", "laptop"])
def test_other_machines_are_listed_raised_and_reset(node, machine):
    one = node(machine)
    one.clocks("list")
    one.clocks("max")
    for row in one.json("list")["gpus"]:
        assert row["graphics"]["held_mhz"] == row["graphics"]["max_mhz"]
    one.clocks("reset")
    assert {row["graphics"]["held_by"] for row in one.json("list")["gpus"]} == {"default"}


# Max and reset ----------------------------------------------------------------------------------------


def test_max_locks_every_gpu_once_and_reset_frees_them(node):
    one = node().persistent()
    assert "GPU 0-7: lock the graphics clock at 1410 MHz" in one.clocks("max")
    assert one.locked() == [MAX] * 8
    before = one.files()
    assert one.clocks("max") == "as asked already, nothing to do\n"
    assert one.files() == before
    assert "GPU 0-7: return the clocks to the driver's default" in one.clocks("reset")
    assert one.locked() == [FREE] * 8
    assert one.clocks("reset") == "as asked already, nothing to do\n"


def test_two_jobs_on_one_node_do_not_undo_each_others_clocks(node):
    one = node().persistent()
    one.clocks("max", "--gpu", "0,1")
    one.clocks("max", "--gpu", "2", "--gpu", "0004:00:00.0")
    assert one.locked() == [MAX] * 4 + [FREE] * 4
    one.clocks("reset", "--gpu", "0,1")
    assert one.locked() == [FREE] * 2 + [MAX] * 2 + [FREE] * 4
    rows = one.json("list")["gpus"]
    assert [row["graphics"]["held_by"] for row in rows] == ["default"] * 2 + ["locked"] * 2 + ["not known"] * 4


def test_two_jobs_that_start_at_the_same_moment_both_get_their_clocks(node):
    one = node().persistent()
    words = [sys.executable, gpunode_on.__file__, str(one.root), "--", "clocks", "max", "--gpu"]
    jobs = [subprocess.Popen(words + [gpu], env=one.simulator.environment()) for gpu in ("0,1", "2,3", "4,5")]
    assert [job.wait(60) for job in jobs] == [0, 0, 0]
    assert one.locked() == [MAX] * 6 + [FREE] * 2
    assert [row["graphics"]["held_by"] for row in one.json("list")["gpus"]] == ["locked"] * 6 + ["not known"] * 2


def test_what_was_declared_stays_declared_and_comes_back(node):
    one = node().persistent()
    path = one.root / DECLARATION
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"gpu_settings": {"clocks": {"graphics_mhz": 1095}}}))
    before = path.read_text()
    one.clocks("max")
    assert (one.locked(0), path.read_text()) == ([MAX], before)
    done = one.gpunode("apply", "gpu_settings")
    assert done.returncode == 0, done.stderr
    assert one.locked() == [(1095, 1095)] * 8


def test_check_tells_the_plan_and_changes_nothing(node):
    one = node().persistent()
    before = one.files()
    assert "GPU 0-7: would lock the graphics clock at 1410 MHz" in one.clocks("max", "--check")
    assert one.json("max", "--check")["changed"] is True
    one.clocks("set", "--graphics", "1005", "--check")
    assert one.files() == before


def test_max_opens_nvml_once_for_all_gpus(node):
    code = """
import json, sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings import clocks_session
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml import session
opened, original = [], session.collect
def counting(*arguments):
    opened.append(1)
    return original(*arguments)
session.collect = counting
counts = []
for word in ("max", "max", "default"):
    opened.clear()
    clocks_session.run(Host(sys.argv[1]), word)
    counts.append(len(opened))
print(json.dumps(counts))
"""
    one = node().persistent()
    assert one.simulator.python(code, str(one.root)) == [1, 1, 1]


def test_a_prolog_needs_less_than_a_second_of_cpu(node):
    one = node().persistent()
    one.clocks("max")  # compiled files exist from now on
    took = []
    command = [sys.executable, gpunode_on.__file__, str(one.root), "--", "clocks"]
    for word in ("reset", "max") * 3:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, word], env=one.simulator.environment(), capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # Whole processes with Python's start. Not the elapsed time, because this machine runs other things as well.
    assert 0 < min(took) < 1.0


# What goes wrong --------------------------------------------------------------------------------------


def test_a_lost_gpu_is_named_and_the_others_are_set(node):
    one = node().persistent()
    one.control("fault", "gpu", "3", "lost")
    done = one.gpunode("clocks", "max")
    assert done.returncode == 1
    assert done.stderr.startswith("gpunode: GPU 3") and done.stderr.count("\n") == 1
    assert [gpu for gpu, lock in enumerate(one.locked()) if lock == MAX] == [0, 1, 2, 4, 5, 6, 7]
    # A job that does not have that GPU is not held up by it.
    assert one.gpunode("clocks", "reset", "--gpu", "0,1").returncode == 0


def test_a_setter_that_fails_leaves_nothing_stated_about_that_gpu(node):
    one = node().persistent()
    one.clocks("set", "--graphics", "1005")
    one.control("fault", "call", "nvmlDeviceSetGpuLockedClocks", "gpu", "2", "return", "UNKNOWN")
    done = one.gpunode("clocks", "max")
    assert done.returncode == 1 and "GPU 2" in done.stderr
    claims = [entry["clocks"] for entry in json.loads((one.root / RECORD).read_text())["gpus"].values()]
    assert sorted(claim["graphics_mhz"] if claim else 0 for claim in claims) == [0] + [1410] * 7


def test_a_driver_that_refuses_all_gpus_is_told_in_one_sentence(node):
    one = node()
    done = one.gpunode("clocks", "max", NVML_SIMULATOR_UID="1000")
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("gpunode: GPU 0-7: the driver allows this to root only")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_user_who_is_not_root_gets_one_sentence(node):
    one = node()
    for top in (one.root, one.simulator.state):
        for path in [top, *top.rglob("*"), *(up for up in top.parents if "pytest" in str(up))]:
            path.chmod(0o755 if path.is_dir() else 0o644)
    for words in (("max",), ("reset",), ("set", "--graphics", "1005")):
        assert "only root may change them" in one.refused(*words, uid=65534)
    assert one.gpunode("clocks", "max", "--check", uid=65534).returncode == 0


def test_a_driver_that_forgets_at_once_is_no_success(node):
    one = node()
    one.control("set", "driver_unload_when_idle", "1")
    done = one.gpunode("clocks", "max")
    assert done.returncode == 1
    assert "GPU 0-7: the driver forgot its clocks at once, since persistence mode is off" in done.stderr
    assert {row["graphics"]["held_by"] for row in one.json("list")["gpus"]} == {"not known"}


def test_an_unsupported_clock_is_refused_with_its_neighbours_and_nothing_is_set(node):
    one = node().persistent()
    told = one.refused("set", "--graphics", "1000")
    assert told.startswith("GPU 0-7: 1000 MHz is not a supported graphics clock")
    assert "990 MHz and 1005 MHz" in told and "--snap" in told
    assert one.locked() == [FREE] * 8
    one.clocks("set", "--graphics", "1000", "--snap", "--gpu", "7")
    assert one.locked(6, 7) == [FREE, (1005, 1005)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("gpu", ["8", "zz", "GPU-00000000-0000-0000-0000-000000000000", "", "0,,1"])
@pytest.mark.parametrize("words", [("list",), ("max",), ("set", "--graphics", "1005")])
def test_a_gpu_that_is_not_there_is_named_with_those_that_are(node, words, gpu):
    told = node().refused(*words, "--gpu", gpu, status=2)
    assert ("0001:00:00.0" in told and "no such GPU" in told) or "this is no GPU index" in told or "name" in told


@pytest.mark.parametrize("words", [("set",), ("set", "--graphics", "0"), ("set", "--graphics", "fast"), ("boost",), ()])
def test_wrong_usage_is_status_2(node, words):
    assert node().gpunode("clocks", *words).returncode == 2


def test_a_node_without_a_gpu_has_nothing_to_set_and_that_is_no_failure(node):
    one = node()
    one.control("fault", "driver", "not-loaded")
    for words in (("list",), ("max",), ("reset",), ("set", "--graphics", "1005")):
        done = one.gpunode("clocks", *words)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        assert "The PCI bus has no NVIDIA GPU" in done.stdout
