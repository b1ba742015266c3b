# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module slurm_hooks as Ansible runs it, on a captured machine with simulated GPUs; its files are a folder."""

from __future__ import annotations

import os
import re
import shutil
import time

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import shared_folder
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.types import EPILOG, PROLOG
from ansible_collections.trainyard.gpu_node.plugins.modules import slurm_hooks as module
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import unpack
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

NAME = os.uname().nodename.split(".")[0]
CONF = """ClusterName=test
Prolog=/etc/slurm/prolog.d/*
Epilog=/etc/slurm/epilog.d/*
PrologFlags=Alloc
SchedulerParameters=nohold_on_prolog_fail
NodeName={0} Sockets=2 CoresPerSocket=48 Gres=gpu:8
""".format(NAME)
SLURMD = "#!/bin/sh\necho slurm {0}\n"


@pytest.fixture
def run(nvml_simulator, tmp_path):
    simulator = nvml_simulator("nd96asr_v4")
    root = tmp_path / "node"
    unpack("ndv4", root)
    (root / "usr/sbin").mkdir(parents=True)
    (root / "usr/sbin/slurmd").write_text(SLURMD.format("22.05.8"))
    (root / "usr/sbin/slurmd").chmod(0o755)
    (root / "etc/slurm").mkdir(parents=True)
    (root / "etc/slurm/slurm.conf").write_text(CONF)

    (root / "proc/4242").mkdir(parents=True)
    (root / "proc/4242/comm").write_text("slurmd\n")

    def call(check=False, **arguments):
        return run_module("slurm_hooks", arguments, root, check, environment=simulator.environment())

    def began(when=None):
        """slurmd of this node runs since then."""
        uptime = 30 * 86400.0
        ticks = int(((when or time.time()) - time.time() + uptime) * os.sysconf("SC_CLK_TCK"))
        (root / "proc/uptime").write_text("{0:.2f} 1.00\n".format(uptime))
        (root / "proc/4242/stat").write_text("4242 (slurmd) S 1 " + "0 " * 17 + "{0} 0 0\n".format(ticks))

    def program(name, text):
        for folder in ("run/systemd/system", "usr/bin"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "usr/bin" / name).write_text("#!/bin/sh\n" + text + "\n")
        (root / "usr/bin" / name).chmod(0o755)

    call.root, call.simulator, call.began, call.program = root, simulator, began, program
    began(time.time() - 3600.0)
    return call


def tree(root):
    return {
        os.path.relpath(os.path.join(folder, name), str(root))
        for folder, dummy, names in os.walk(str(root / "etc"))
        for name in names
    }


def test_check_real_check_real_and_absent_leaves_what_it_found(run):
    before = tree(run.root)
    planned = run(check=True)
    assert planned["changed"] and tree(run.root) == before
    made = run()
    assert made["changed"]
    assert [one["description"] for one in made["actions"]] == [one["description"] for one in planned["actions"]]
    assert made["diff"] == planned["diff"] and "==> /etc/slurm/gres.conf <==" in made["diff"]["after"]
    assert not run(check=True)["changed"] and not run()["changed"]
    for name, text in (
        ("prolog.d/00-gpu_node", PROLOG),
        ("prolog.d/zz-gpu_node", PROLOG),
        ("epilog.d/50-gpu_node", EPILOG),
    ):
        path = run.root / "etc/slurm" / name
        assert path.read_text() == text and path.stat().st_mode & 0o777 == 0o755
    assert run(check=True, state="absent")["changed"]
    assert run(state="absent")["changed"] and not run(state="absent")["changed"]
    assert tree(run.root) == before
    assert sorted(os.listdir(str(run.root / "etc/slurm"))) == ["slurm.conf"]


def test_a_new_node_that_finds_the_shared_hooks_in_place_waits_for_no_turn(run):
    mounts = run.root / "proc/self/mountinfo"
    mounts.parent.mkdir(parents=True, exist_ok=True)
    mounts.write_text("30 1 0:30 / /etc/slurm/prolog.d rw - nfs4 server:/sched rw\n")
    assert run()["changed"] and not (run.root / "etc/slurm/prolog.d" / shared_folder.NAME).exists()
    shutil.rmtree(str(run.root / "etc/gpu_node"))
    (run.root / "etc/slurm/gres.conf").unlink()
    (run.root / "etc/slurm/prolog.d" / shared_folder.NAME).write_text("gpu07 1 a\n")
    began = time.monotonic()
    made = run()
    assert made["changed"] and not made.get("failed") and time.monotonic() - began < 30
    assert [one["action"] for one in made["actions"]] == ["declare", "write_file"]


UNREAD = "slurmd has yet to read /etc/slurm/gres.conf, and is not restarted, as "


def unread(result):
    return [note for note in result["notes"] if note.startswith(UNREAD)]


def test_slurm_is_told_to_read_its_files_again_only_on_request_and_only_once(run):
    calls = run.root / "calls"
    run.program("scontrol", 'echo "$@" >> {0}'.format(calls))
    made = run(restart=False)
    assert made["unread"] == ["/etc/slurm/gres.conf"] and made["reconfigure_pending"] and made["restart_pending"]
    assert unread(made)[0].startswith(UNREAD + "that is left to you: run 'systemctl restart slurmd' when no job runs ")
    assert "reconfigure" not in calls.read_text()
    calls.unlink()
    told = "have Slurm read /etc/slurm/gres.conf again (scontrol reconfigure)"
    # What an earlier run left unread is not forgotten.
    planned = run(check=True, reconfigure=True)
    assert [one["description"] for one in planned["actions"]] == [told] and not calls.exists()
    made = run(reconfigure=True, gres_type="auto")
    assert made["actions"][-1]["description"] == told and calls.read_text() == "reconfigure\n"
    assert not made["reconfigure_pending"] and made["unread"] == [] and not unread(made)
    assert not run(reconfigure=True, gres_type="auto")["changed"] and calls.read_text() == "reconfigure\n"


def test_what_slurmd_has_not_read_is_told_by_each_run_until_it_has(run):
    state, jobs, log = run.root / "state", run.root / "jobs", run.root / "log"
    run.program("scontrol", "[ $1 = reconfigure ] || cat {0}".format(state))
    run.program("squeue", "cat {0}".format(jobs))
    run.program("systemctl", "echo $* >> {0}; cat {1}/fresh > {1}/proc/4242/stat".format(log, run.root))
    state.write_text("NodeName=x\n   State=MIXED ThreadsPerCore=1\n")
    jobs.write_text("")
    for _run in range(2):
        found = run()
        assert found["unread"] == ["/etc/slurm/gres.conf"] and found["reconfigure_pending"] and not log.exists()
        assert unread(found) == [UNREAD + "its state is MIXED: run this again when no job runs here"]
    assert not found["changed"]
    state.write_text("NodeName=x\n   State=IDLE+DRAIN ThreadsPerCore=1\n")
    planned = run(check=True)
    assert [one["description"] for one in planned["actions"]] == ["restart slurmd, as no job runs here"]
    assert planned["unread"] == [] and not log.exists()
    before = (run.root / "proc/4242/stat").read_text()
    run.began(time.time() + 3600.0)  # later than any file of this test
    (run.root / "proc/4242/stat").rename(run.root / "fresh")
    (run.root / "proc/4242/stat").write_text(before)
    made = run()
    assert made["changed"] and log.read_text() == "restart -- slurmd.service\n" and not unread(made)
    assert made["unread"] == [] and not made["reconfigure_pending"]
    assert not run()["changed"] and log.read_text() == "restart -- slurmd.service\n"


@pytest.mark.parametrize(
    "gres, wanted",
    [("gpu:9", False), ("gpu:a100:8", False), ("gpu:8,shard:16", False), ("gpu:8", True), ("gpu:4", True)],
)
@pytest.mark.parametrize("reconfigure", [False, True])
@pytest.mark.parametrize("who", ["slurm.conf", "slurmctld"])
def test_slurmd_does_not_come_with_fewer_gpus_than_slurm_asks_for(run, gres, wanted, who, reconfigure):
    """slurmctld goes on with what it read before slurm.conf was changed, unless it is to read that as well."""
    wanted = wanted or (reconfigure and who == "slurmctld")
    given = dict({"slurm.conf": "gpu:8", "slurmctld": "gpu:8(S:0-1)"}, **{who: gres})
    run.program("systemctl", "true")
    run.program("scontrol", "echo 'NodeName=x\n   Gres={0}\n   State=IDLE ThreadsPerCore=1'".format(given["slurmctld"]))
    run.program("squeue", "true")
    (run.root / "etc/slurm/slurm.conf").write_text(CONF.replace("gpu:8", given["slurm.conf"]))
    planned = run(check=True, reconfigure=reconfigure)
    what = "scontrol reconfigure" if reconfigure else "restart slurmd"
    assert bool([one for one in planned["actions"] if what in one["description"]]) == wanted, planned
    refused = [note for note in unread(planned) if "and Slurm drains a node that comes with fewer: " in note]
    assert bool(refused) != wanted and (planned["unread"] == []) == wanted
    if refused:
        assert "/etc/slurm/gres.conf has gpu:8: " in refused[0]
        remedy = "restart slurmctld, then slurmd, and run this again"
        if who == "slurm.conf":
            remedy = "correct Gres= of {0} in /etc/slurm/slurm.conf, {1}".format(NAME, remedy)
        assert refused[0].endswith(": " + remedy)


@pytest.mark.parametrize("comm", ["bash", "slurmctld"])
def test_a_slurmd_that_does_not_run_reads_its_files_when_it_starts(run, comm):
    (run.root / "proc/4242/comm").write_text(comm + "\n")
    made = run()
    assert made["changed"] and made["unread"] == [] and not unread(made)


def test_a_controller_that_does_not_answer_is_one_sentence(run):
    run.program("scontrol", "echo 'slurm_reconfigure error: Unable to contact slurm controller' >&2\nexit 1")
    result = run(reconfigure=True)
    assert result["failed"] and result["msg"].startswith("scontrol reconfigure: ")
    assert "Unable to contact slurm controller" in result["msg"]
    assert result["msg"].endswith("run 'scontrol reconfigure' where slurmctld answers, or set reconfigure to false.")


def test_gres_conf_has_the_cores_of_this_machine(run):
    result = run(gres_type="auto")
    lines = (run.root / "etc/slurm/gres.conf").read_text().splitlines()
    assert "Name=gpu Type=a100 File=/dev/nvidia0 Cores=24-47" in lines
    assert "Name=gpu Type=a100 File=/dev/nvidia7 Cores=48-71" in lines
    assert result["features"] == ["gpu_node", "numa4", "gpus8", "a100", "a100-sxm4-40gb"]
    assert (run.root / "etc/slurm/gpu_node_features").read_text().splitlines()[1] == ",".join(result["features"])
    assert result["prolog_reached"] and result["epilog_reached"] and result["reconfigure_pending"]
    run.began(time.time() + 1.0)
    assert not run(gres_type="auto")["reconfigure_pending"]


def test_slurm_24_11_gets_whole_sockets_and_is_told_why(run):
    (run.root / "usr/sbin/slurmd").write_text(SLURMD.format("24.11.5"))
    result = run()
    lines = (run.root / "etc/slurm/gres.conf").read_text().splitlines()
    assert "Name=gpu File=/dev/nvidia0 Cores=0-47" in lines and "Name=gpu File=/dev/nvidia7 Cores=48-95" in lines
    assert any("and Slurm counts 2 sockets of 48 cores here; for NUMA nodes set" in note for note in result["notes"])
    conf = run.root / "etc/slurm/slurm.conf"
    conf.write_text(CONF.replace("Sockets=2 CoresPerSocket=48", "CPUs=96"))
    result = run()
    assert result["changed"] and result["notes"] == unread(result) != []
    assert "Name=gpu File=/dev/nvidia0 Cores=24-47" in (run.root / "etc/slurm/gres.conf").read_text().splitlines()
    conf.write_text(CONF.replace("NodeName=", "NodeName=another"))
    assert any("no NodeName line of this node" in note for note in run()["notes"])
    assert "Cores=" not in (run.root / "etc/slurm/gres.conf").read_text()


def test_a_shared_gres_conf_is_compared_and_left(run):
    shared = run.root / "sched/gres.conf"
    shared.parent.mkdir()
    shared.write_text("Nodename={0} Name=gpu Count=8 File=/dev/nvidia[0-7]\n".format(os.uname().nodename.split(".")[0]))
    (run.root / "etc/slurm/gres.conf").symlink_to("../../sched/gres.conf")
    result = run()
    assert result["gres_differences"] == [] and result["notes"] == [] and not result["reconfigure_pending"]
    text = shared.read_text().replace("[0-7]", "[0-6]").replace("Count=8", "Count=7")
    shared.write_text(text)
    result = run()
    assert result["gres_differences"] == ["it does not list /dev/nvidia7, which no job gets"]
    assert result["gres_conf"] == "/etc/slurm/gres.conf" and result["gres_lines"][0].startswith("NodeName=")
    assert shared.read_text() == text and os.path.islink(str(run.root / "etc/slurm/gres.conf"))


def test_a_configless_node_gets_no_gres_conf(run):
    (run.root / "run/slurm/conf").mkdir(parents=True)
    (run.root / "etc/slurm/slurm.conf").rename(run.root / "run/slurm/conf/slurm.conf")
    result = run()
    assert not (run.root / "etc/slurm/gres.conf").exists() and not run()["changed"]
    assert result["gres_conf"] == "/run/slurm/conf/gres.conf" and "configless" in result["notes"][0]


def test_a_gpu_in_mig_mode_without_instances_is_given_to_no_job(run):
    run()
    run.simulator.control("set", "gpu.2.latched.mig_mode", "1")
    result = run()
    text = (run.root / "etc/slurm/gres.conf").read_text()
    assert re.findall(r"Type=a100 File=/dev/nvidia(\d) ", text) == list("0134567") and text.count("Name=") == 7
    assert any("has Gres=gpu:8 for" in note and "which is Gres=gpu:a100:7" in note for note in result["notes"])
    assert result["reconfigure_pending"] and not run()["changed"]
    (run.root / "usr/sbin/slurmd").write_text(SLURMD.format("20.11.9"))
    result = run()
    assert not (run.root / "etc/slurm/gres.conf").exists() and not run()["changed"]
    assert "MIG is on at /dev/nvidia2" in result["notes"][0] and result["reconfigure_pending"]
    # The lines that slurmd still has are those of the file that is gone.
    assert run()["unread"] == ["/etc/slurm/gres.conf"]


def test_a_folder_where_anybody_may_write_is_refused(run):
    folder = run.root / "etc/slurm/prolog.d"
    folder.mkdir()
    folder.chmod(0o777)
    result = run()
    assert (
        result["failed"]
        and "other users can write to it (mode 0777), and Slurm runs what lies there as root" in result["msg"]
    )


def test_a_lost_gpu_leaves_gres_conf_as_it_was(run):
    run()
    before = (run.root / "etc/slurm/gres.conf").read_text()
    run.simulator.control("fault", "gpu", "3", "lost")
    result = run()
    assert not result["changed"] and any("lost" in note for note in result["notes"])
    assert (run.root / "etc/slurm/gres.conf").read_text() == before


def test_what_slurm_conf_lacks_is_told(run):
    (run.root / "etc/slurm/slurm.conf").write_text("Prolog=/etc/slurm/prolog.sh\n")
    result = run()
    assert result["prolog_reached"] is False and result["epilog_reached"] is False
    assert sum("add the line" in note for note in result["notes"]) == 2
    assert (run.root / "etc/slurm/slurm.conf").read_text() == "Prolog=/etc/slurm/prolog.sh\n"


def test_without_slurm_it_is_skipped(run):
    (run.root / "usr/sbin/slurmd").unlink()
    result = run()
    assert not result["changed"] and "slurmd is not installed" in result["skipped_reason"]


def test_a_slurmd_without_configuration_is_skipped_unless_it_is_told_where_that_will_be(run):
    (run.root / "etc/slurm/slurm.conf").unlink()
    result = run()
    assert not result["changed"], result
    assert "no slurm.conf" in result["skipped_reason"]
    assert run(slurm_conf="/etc/slurm/slurm.conf")["changed"]


@pytest.mark.parametrize(
    "options, told",
    [
        ({"prolog_dir": "prolog.d"}, "no absolute path"),
        ({"gres_type": "a 100"}, "no name for a type"),
        ({"grace_seconds": 1e9}, "out of range"),
        ({"state": "gone"}, "value of state must be one of"),
    ],
)
def test_a_wrong_option_is_one_sentence(run, options, told):
    before = tree(run.root)
    result = run(**options)
    assert result["failed"] and told in result["msg"]
    assert tree(run.root) == before


def test_everything_that_is_returned_is_documented(run):
    documented = yaml.safe_load(module.RETURN)
    returned = set(run()) - {"changed", "diff", "invocation", "failed", "warnings", "deprecations"}
    assert returned == set(documented)
