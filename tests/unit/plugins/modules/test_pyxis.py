# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module pyxis as Ansible runs it, on a folder with a Slurm in it; make and the compiler are real."""

from __future__ import annotations

import hashlib
import shutil

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.modules import pyxis as module
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.core.node_packages import debs
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.pyxis import slurm_tree
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("make", "gcc", "strip"))), reason="make, gcc or strip is not installed here"
)
DROP_IN = "etc/slurm/plugstack.conf.d/50-gpu_node_pyxis.conf"
PLUGIN = "opt/gpu_node/pyxis/spank_pyxis.so"


@pytest.fixture
def run(tmp_path):
    node = slurm_tree.SlurmTree(tmp_path / "node")
    digest = slurm_tree.source(tmp_path / "pyxis.tar.gz")

    def call(check=False, **arguments):
        given = {"source": str(tmp_path / "pyxis.tar.gz"), "sha256": digest}
        if arguments.get("state") == "absent":
            given = {}
        given.update(arguments)
        # The source lies outside of the folder that stands for the node.
        mirror = node.root / str(tmp_path).lstrip("/")
        mirror.parent.mkdir(parents=True, exist_ok=True)
        if not mirror.exists():
            mirror.symlink_to(tmp_path)
        return run_module("pyxis", given, node.root, check)

    call.node, call.root, call.folder, call.sum = node, node.root, tmp_path, digest
    return call


def tree(root):
    # Temporary files lie in /tmp or /dev/shm.
    without = ("dev", "proc", "run", "tmp", "asked", "systemctl-log", "slurm-version", "running-jobs")
    return debs.tree(root, without)


def test_check_real_check_real_and_absent_leaves_what_it_found(run):
    before = tree(run.root)
    planned = run(check=True)
    assert planned["changed"] and tree(run.root) == before and run.node.restarts() == []
    made = run()
    assert [one["description"] for one in made["actions"]] == [one["description"] for one in planned["actions"]]
    assert made["diff"] == planned["diff"] and "built for Slurm 22.05.8" in made["diff"]["after"]
    assert run.node.plugin_version() == "0x160508"
    assert run.node.restarts() == ["restart -- slurmd.service"] and not made["restart_pending"]
    assert made["built_for"] == made["slurm_version"] == "22.05.8" and made["plugstack_reached"]
    assert (run.root / DROP_IN).read_text().splitlines()[1] == "required /" + PLUGIN
    assert (run.root / PLUGIN).stat().st_mode & 0o777 == 0o644
    assert not run(check=True)["changed"] and not run()["changed"]
    assert run.node.restarts() == ["restart -- slurmd.service"]
    assert not (run.root / "var/lib/gpu_node").exists()
    assert run(check=True, state="absent")["changed"]
    assert run(state="absent")["changed"] and not run(state="absent")["changed"]
    left = {path: text for path, text in tree(run.root).items() if path not in before}
    assert left == {"opt": "/"} or left == {}


def test_an_upgrade_of_slurm_is_exactly_one_build_and_steps_that_run_keep_their_plugin(run):
    run()
    held = open(str(run.root / PLUGIN), "rb")  # as a step of a job does
    old = (run.root / PLUGIN).read_bytes()
    run.node.version("23.11.4")
    result = run()
    assert [one["action"] for one in result["actions"]] == ["fetch_source", "build_plugin", "restart_slurmd"]
    assert run.node.plugin_version() == "0x170b04" and result["built_for"] == "23.11.4"
    assert held.read() == old
    held.close()
    assert not run()["changed"]


def test_a_busy_node_is_told_and_restarted_later(run):
    run.node.jobs("17\n")  # it has no step here: only slurmctld knows it
    held = run()
    assert not held["changed"] and "pyxis: not changed yet: job 17 would read the change" in held["notes"][0]
    assert not (run.root / DROP_IN).exists()
    run.node.jobs("")
    run.node.state("IDLE+COMPLETING")
    first = run()
    assert first["changed"] and first["restart_pending"] and run.node.restarts() == []
    assert "its state is COMPLETING+IDLE" in first["notes"][0]
    again = run()
    assert not again["changed"] and again["restart_pending"]
    run.node.state("IDLE")
    later = run()
    assert [one["action"] for one in later["actions"]] == ["restart_slurmd"] and not later["restart_pending"]
    assert len(run.node.restarts()) == 1


def test_a_step_that_runs_here_is_seen_without_asking_slurmctld(run):
    run.node.state("IDLE+COMPLETING")
    assert run()["restart_pending"]
    run.node.state("IDLE")
    (run.root / "proc/77").mkdir()
    (run.root / "proc/77/comm").write_text("slurmstepd\n")
    (run.root / "proc/77/cmdline").write_text("/usr/sbin/slurmstepd\0infinity\0")
    assert run(check=True)["actions"][-1]["action"] == "restart_slurmd"
    (run.root / "proc/77/cmdline").write_text("slurmstepd: [17.0]\0")
    (run.root / "asked").unlink()
    assert "a step of a job runs here" in run()["notes"][0] and not (run.root / "asked").exists()


def test_pyxis_is_not_loaded_while_a_step_runs(run):
    (run.root / "proc/77").mkdir()
    (run.root / "proc/77/comm").write_text("slurmstepd\n")
    (run.root / "proc/77/cmdline").write_text("slurmstepd: [17.0]\0")
    before = tree(run.root)
    for check in (True, False):
        result = run(check=check)
        assert not result["changed"] and "job 17 would read the change" in result["notes"][0]
    assert tree(run.root) == before


def test_slurmctld_is_asked_only_when_a_restart_depends_on_it(run):
    run()
    (run.root / "asked").unlink()
    assert not run()["changed"] and not (run.root / "asked").exists()


def test_a_controller_that_does_not_answer_counts_as_busy(run):
    (run.root / "node-state").unlink()
    result = run()
    assert result["restart_pending"] and "slurmctld does not tell" in result["notes"][0]


def test_a_login_node_gets_the_same_without_a_restart(run):
    (run.root / "proc/4242/comm").write_text("bash\n")
    result = run()
    assert result["changed"] and not result["restart_pending"] and run.node.restarts() == []
    assert not (run.root / "asked").exists()


def test_a_wrong_sum_builds_nothing(run):
    before = tree(run.root)
    result = run(sha256="0" * 64)
    assert result["failed"] and "its sha256 is" in result["msg"]
    assert tree(run.root) == before


def test_a_build_that_fails_leaves_the_old_plugin_and_quotes_the_compiler(run):
    run()
    old = (run.root / PLUGIN).read_bytes()
    digest = slurm_tree.source(run.folder / "pyxis.tar.gz", text="#include <slurm/no_such.h>\n")
    result = run(sha256=digest)
    assert result["failed"] and "fatal error: slurm/no_such.h: No such file" in result["msg"]
    assert (run.root / PLUGIN).read_bytes() == old
    assert not (run.root / "var/lib/gpu_node").exists()
    digest = slurm_tree.source(run.folder / "pyxis.tar.gz", makefile="spank_pyxis.so:\n\techo no > $@\n")
    assert "it gives no plugin for Slurm" in run(sha256=digest)["msg"]


def test_one_that_was_built_elsewhere_is_installed_without_a_compiler(run):
    run()
    built = (run.root / PLUGIN).read_bytes()
    run(state="absent")
    (run.folder / "spank_pyxis-22.05.8.so").write_bytes(built)
    (run.root / "usr/bin/gcc").unlink()
    element = {
        "slurm_version": "22.05.8",
        "source": str(run.folder / "spank_pyxis-22.05.8.so"),
        "sha256": hashlib.sha256(built).hexdigest(),
    }
    assert "cannot be built here without gcc" in run()["msg"]
    assert run(prebuilt=[element])["changed"] and not run(prebuilt=[element])["changed"]
    assert (run.root / PLUGIN).read_bytes() == built


def test_a_plugstack_of_somebody_else(run):
    theirs = run.root / "etc/slurm/plugstack.conf"
    theirs.write_text("optional other.so\n")
    result = run()
    assert not result["plugstack_reached"] and "add the line 'include" in result["notes"][0]
    theirs.write_text("optional other.so\ninclude plugstack.conf.d/*\n")
    assert run()["plugstack_reached"]
    (run.root / "etc/slurm/plugstack.conf.d/pyxis.conf").write_text("required /usr/local/lib/slurm/spank_pyxis.so\n")
    result = run()
    assert "so, which is not there, so each srun fails; take that line out of it" in result["msg"]
    (run.root / "usr/local/lib/slurm").mkdir(parents=True)
    (run.root / "usr/local/lib/slurm/spank_pyxis.so").write_text("")
    assert "it loads a pyxis, /usr/local/lib/slurm/spank_pyxis.so, and Slurm cannot load two" in run()["msg"]
    run(state="absent")
    result = run()
    assert result["adopted"] == "/etc/slurm/plugstack.conf.d/pyxis.conf" and not result["changed"]
    assert result["plugin"] == "/usr/local/lib/slurm/spank_pyxis.so" and result["plugstack_reached"]
    assert theirs.read_text() == "optional other.so\ninclude plugstack.conf.d/*\n"


def test_a_plugstack_that_slurm_conf_names_is_the_one(run):
    (run.root / "etc/slurm/slurm.conf").write_text("PlugStackConfig=/etc/slurm/site.conf # ours\n")
    assert run()["plugstack"] == "/etc/slurm/site.conf"
    assert "include /etc/slurm/plugstack.conf.d/*.conf" in (run.root / "etc/slurm/site.conf").read_text()
    assert not (run.root / "etc/slurm/plugstack.conf").exists()


def test_a_configless_node_is_told_whose_plugstack_counts(run):
    (run.root / "proc/4242/cmdline").write_text("slurmd\0--conf-server\0ctl\0")
    # A local slurm.conf of before does not make it another node.
    told = "this node gets its configuration from the controller, whose plugstack.conf has to name"
    assert any(told in note for note in run(check=True)["notes"])


def test_headers_of_another_release_are_refused(run):
    run.node.version("23.11.4", headers=False)
    assert "the headers in /usr/include are those of Slurm 22.05.8" in run()["msg"]


def test_without_slurm_it_is_skipped(run):
    for name in ("srun", "slurmd", "scontrol"):
        (run.root / "usr/bin" / name).unlink()
    result = run()
    assert not result["changed"] and "Slurm is not installed" in result["skipped_reason"]


@pytest.mark.parametrize(
    "options, told",
    [
        ({"sha256": ""}, "it is nothing without option sha256"),
        ({"options": {"container_scope": "node"}}, "is not possible"),
        ({"options": {"sbatch_support": [1]}}, "is not possible"),
        ({"prebuilt": [{"slurm_version": "x", "source": "/x", "sha256": "y"}]}, "no version of Slurm"),
    ],
)
def test_a_wrong_option_is_one_sentence(run, options, told):
    result = run(**options)
    assert result["failed"] and told in result["msg"]


def test_everything_that_is_returned_is_documented(run):
    documented = yaml.safe_load(module.RETURN)
    returned = set(run(options={"sbatch_support": True})) - {"changed", "diff", "invocation", "failed", "warnings"}
    assert returned - {"deprecations"} == set(documented)
    assert (run.root / DROP_IN).read_text().endswith(" sbatch_support=true\n")
