# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rolling.yml over six nodes of a Slurm that is two scripts; what converge does stands in for the roles."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jinja2
import pytest
import yaml

import ansible_collections.trainyard.gpu_node as collection

# One file a node; no two nodes are written at the same time by more than one of these.
SCONTROL = """#!{python}
import json, os, sys
folder = os.path.dirname(os.path.abspath(__file__)) + "/nodes/"
if sys.argv[1] == "show":
    later = folder + "../later." + sys.argv[3]
    steps = json.load(open(later)) if os.path.exists(later) else []
    if steps:
        json.dump(steps[1:], open(later, "w"))
        if steps[0] == "down":
            sys.exit("slurm_load_node error: Unable to contact slurm controller (connect failure)")
        if steps[0]:
            json.dump(steps[0], open(folder + sys.argv[3], "w"))
    state, reason = json.load(open(folder + sys.argv[3]))
    print("NodeName=" + sys.argv[3] + "\\n   State=" + state + " ThreadsPerCore=1")
    if reason:
        print("   Reason=" + reason + " [root@2026-01-31T12:00:00]")
else:
    given = dict(word.split("=", 1) for word in sys.argv[2:])
    state, reason = json.load(open(folder + given["NodeName"]))
    base = state.replace("+DRAIN", "")
    drains = given["State"] == "DRAIN"
    json.dump([base + "+DRAIN", given["Reason"]] if drains else [base, ""], open(folder + given["NodeName"], "w"))
"""
# Stands for the tasks of site.yml; the node must be out of service while they run.
CONVERGE = """---
- name: Converge
  ansible.builtin.shell: |
    grep -q DRAIN {folder}/nodes/{{{{ inventory_hostname }}}} && echo {{{{ inventory_hostname }}}} >>{folder}/converged
    cp {folder}/elsewhere/left.txt {folder}/seen 2>/dev/null || true
    test ! -e {folder}/breaks.{{{{ inventory_hostname }}}} || {{{{ 'GPU 3 is lost' | quote }}}}
  changed_when: true

- name: A role
  ansible.builtin.shell: echo {{{{ inventory_hostname }}}} >>{folder}/role
  changed_when: true
  tags: [role]
"""
NAMES = ["n{0}".format(number) for number in range(6)]


@pytest.fixture
def play(tmp_path):
    roots = sorted({os.path.dirname(os.path.dirname(os.path.dirname(path))) for path in collection.__path__})
    (source,) = {Path(path) / "playbooks" for path in collection.__path__ if (Path(path) / "playbooks").is_dir()}
    shutil.copytree(str(source), str(tmp_path / "playbooks"))
    (tmp_path / "playbooks/tasks/converge.yml").write_text(CONVERGE.format(folder=tmp_path))
    (tmp_path / "nodes").mkdir()
    (tmp_path / "elsewhere").mkdir()
    for name, text in (("scontrol", SCONTROL.format(python=sys.executable + " -IS")), ("squeue", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "inventory.json").write_text(
        json.dumps(
            {
                # What is done on the controller needs no connection and nobody's rights.
                "all": {
                    "vars": {"ansible_become": True, "ansible_become_user": "nobody", "ansible_become_exe": "/no/sudo"},
                    "hosts": {"localhost": {"ansible_host": "no.such.invalid", "ansible_python_interpreter": "/no"}},
                },
                "gpu_nodes": {
                    "vars": {
                        "ansible_connection": "local",
                        "ansible_python_interpreter": sys.executable,
                        "ansible_become_exe": str(tmp_path / "become"),
                        "ansible_become_user": "root",
                    },
                    "hosts": {name: {} for name in NAMES},
                },
            }
        )
    )

    def run(*arguments, forks=6, environment=None, **variables):
        clean = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        words = ["-i", str(tmp_path / "inventory.json"), "-e", json.dumps(dict(variables, **COMMON))]
        return subprocess.run(
            [sys.executable, "-m", "ansible.cli.playbook", *words, *arguments, str(tmp_path / "playbooks/rolling.yml")],
            env=dict(
                clean,
                PATH="{0}:{1}".format(tmp_path, clean["PATH"]),
                PWD=str(tmp_path / "elsewhere"),
                ANSIBLE_COLLECTIONS_PATH=os.pathsep.join(roots),
                ANSIBLE_NOCOLOR="1",
                ANSIBLE_BECOME_EXE=str(tmp_path / "become"),
                ANSIBLE_FORKS=str(forks),
                ANSIBLE_PIPELINING="1",
                **(environment or {}),
            ),
            capture_output=True,
            text=True,
            timeout=1500,
            check=False,
        )

    run.folder = tmp_path
    run.set = lambda name, *node: (tmp_path / "nodes" / name).write_text(json.dumps(list(node)))
    run.later = lambda name, *steps: (tmp_path / ("later." + name)).write_text(json.dumps(steps))
    run.nodes = lambda: {name: json.loads((tmp_path / "nodes" / name).read_text()) for name in NAMES}
    for name in NAMES:
        run.set(name, "IDLE", "")
    # What becomes root does so already, or need not here.
    (tmp_path / "become").write_text('#!/bin/sh\nwhile [ "$1" != /bin/sh ]; do shift; done\nexec "$@"\n')
    (tmp_path / "become").chmod(0o755)
    return run


# The machine that runs this test is not looked at.
COMMON = {"gpu_node_health_fail_on": "never", "gpu_node_health_level": "quick"}


def test_all_outcomes_and_a_second_run_that_takes_who_is_left(play):
    play.set("n1", "MIXED", "")
    play.set("n2", "IDLE+DRAIN", "anna: new memory")
    play.set("n3", "IDLE+DRAIN", "gpu_node: rolling: being converged")  # of a run that was cut off
    play.set("n4", "IDLE+DRAIN", "gpu_node: health: GPU 3 is lost")
    (play.folder / "breaks.n5").touch()
    left = play.folder / "left.txt"
    done = play(gpu_node_rolling_batch=4, gpu_node_rolling_not_done=str(left), gpu_node_rolling_failures=1)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout.count("PLAY [Converge GPU nodes in batches]") == 2, done.stdout
    assert sorted((play.folder / "converged").read_text().split()) == ["n0", "n3", "n4", "n5"]
    nodes = play.nodes()
    assert nodes["n1"] == ["MIXED", ""] and nodes["n2"] == ["IDLE+DRAIN", "anna: new memory"]
    assert nodes["n4"] == ["IDLE+DRAIN", "gpu_node: health: GPU 3 is lost"]
    assert nodes["n5"][0] == "IDLE+DRAIN" and nodes["n5"][1].startswith("gpu_node: rolling: failed: ")
    assert nodes["n0"] == nodes["n3"] == ["IDLE", ""]
    assert left.read_text() == "n1\nn2\nn5\n"
    assert "6 of 6 nodes: 3 converged, 1 busy, 1 left, 1 failed" in done.stdout
    assert "converged: n0, n3" in done.stdout and "converged: n4: stays out of service" in done.stdout
    assert "jobs run on it (MIXED)" in done.stdout

    (play.folder / "breaks.n5").unlink()
    (play.folder / "converged").unlink()
    play.set("n1", "IDLE", "")
    again = play("--limit", "@{0}".format(left), gpu_node_rolling_not_done=str(left), gpu_node_rolling_others=True)
    assert again.returncode == 0, again.stdout + again.stderr
    assert (play.folder / "converged").read_text().split() == ["n1", "n2", "n5"]
    assert play.nodes()["n2"] == ["IDLE+DRAIN", "anna: new memory"] and play.nodes()["n5"] == ["IDLE", ""]
    assert not left.exists()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("strategy", ["free", "host_pinned"])
def test_the_strategy_of_a_site_changes_nothing(play, strategy):
    """With ``strategy = free`` in its ansible.cfg healthy nodes stayed drained and the run stopped."""
    wish = ("--limit", "n0,n1,n2")
    done = play(*wish, gpu_node_rolling_batch=2, environment={"ANSIBLE_STRATEGY": strategy})
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted((play.folder / "converged").read_text().split()) == NAMES[:3]
    assert set(map(tuple, play.nodes().values())) == {("IDLE", "")}
    assert "3 of 3 nodes: 3 converged" in done.stdout


def test_it_stops_when_more_failed_than_may(play):
    for name in ("n0", "n1", "n2"):
        (play.folder / ("breaks." + name)).touch()
    left = play.folder / "left.txt"
    done = play(gpu_node_rolling_batch=2, gpu_node_rolling_failures=2, gpu_node_rolling_not_done=str(left))
    assert done.returncode == 2
    # A batch of which all failed does not end it: two may fail.
    assert sorted((play.folder / "converged").read_text().split()) == ["n0", "n1", "n2", "n3"]
    assert "stopped: 3 failed, and 2 may (gpu_node_rolling_failures); not begun: n4, n5" in done.stdout
    assert left.read_text().split() == ["n0", "n1", "n2", "n4", "n5"]
    assert all(play.nodes()[name] == ["IDLE", ""] for name in NAMES[3:])


OTHER = "gpu_node: rolling: being converged (run 0badcafe)"
SLOW = "gpu_node: rolling: failed: GPU 3 is slow (active)"


@pytest.mark.soak
def test_what_happens_to_a_node_beside_its_turn(play):
    """Three runs: a node changes under the first, the second drains as many as it may, the third takes some tasks."""
    play.later("n0", "", "", ["MIXED", ""])  # resumed, and a job began, after the first task of the play
    play.later("n1", "", "down", "down")  # right after our drain
    play.set("n2", "IDLE+DRAIN", OTHER)
    play.set("n3", "IDLE+DRAIN", SLOW)
    play.set("n4", "IDLE+DRAIN", "gpu_node: health: GPU 3 is lost")
    (play.folder / "breaks.n4").touch()
    left = play.folder / "elsewhere/left.txt"
    done = play(gpu_node_rolling_batch=6, gpu_node_rolling_failures=6, gpu_node_rolling_not_done="left.txt")
    assert done.returncode == 2, done.stdout + done.stderr
    assert sorted((play.folder / "converged").read_text().split()) == ["n4", "n5"]
    assert "6 of 6 nodes: 1 converged, 1 busy, 2 left, 2 failed" in done.stdout
    assert "n2: another run (0badcafe) took it out of service; if that run is gone" in done.stdout
    nodes = play.nodes()
    assert nodes["n0"] == ["MIXED", ""] and nodes["n5"] == ["IDLE", ""]
    assert nodes["n1"][1].startswith("gpu_node: rolling: failed: slurmctld: it does not answer: ")
    assert nodes["n2"] == ["IDLE+DRAIN", OTHER] and nodes["n3"] == ["IDLE+DRAIN", SLOW]
    assert nodes["n4"][1].startswith("gpu_node: rolling: failed: ") and "before" not in nodes["n4"][1]
    # All were in the file before the first was converged.
    assert (play.folder / "seen").read_text().split() == NAMES
    assert left.read_text().split() == NAMES[:5]

    left.write_text(left.read_text() + "cloud-9\n")
    limit = ("--limit", "@{0}".format(left))
    wish = {"gpu_node_rolling_not_done": "left.txt", "gpu_node_rolling_batch": 1, "gpu_node_rolling_busy": "drain"}
    again = play(*limit, **wish)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "stopped: 1 nodes are drained and wait, as many as a batch has" in again.stdout
    assert "not begun: n1, n2" in again.stdout
    assert play.nodes() == dict(nodes, n0=["MIXED+DRAIN", "gpu_node: rolling: waits for its jobs"])
    assert left.read_text().split() == [*NAMES[:5], "cloud-9"]

    (play.folder / "breaks.n4").unlink()
    (play.folder / "role").unlink()
    wish = {"gpu_node_rolling_not_done": "left.txt", "gpu_node_rolling_batch": 5, "gpu_node_rolling_take_over": True}
    last = play(*limit, "--tags", "role", **wish)
    assert last.returncode == 0, last.stdout + last.stderr
    assert "5 of 5 nodes: 3 converged, 1 busy, 1 left" in last.stdout
    # Nothing but the tasks that were asked for.
    assert sorted((play.folder / "role").read_text().split()) == ["n1", "n2", "n4"]
    assert sorted((play.folder / "converged").read_text().split()) == ["n4", "n5"]
    assert left.read_text().split() == ["n0", "n3", "cloud-9"]
    assert all(play.nodes()[name] == ["IDLE", ""] for name in ("n1", "n2", "n4", "n5"))


@pytest.mark.soak
def test_no_more_nodes_are_drained_than_ansible_works_on(play):
    """A node that is drained and waits for its turn is capacity that nobody uses."""
    counting = "$(cat {0}/nodes/* | grep -c DRAIN)".format(play.folder)
    text = "- name: Converge\n  ansible.builtin.shell: sleep 1; echo {0} >>{1}/drained\n".format(counting, play.folder)
    (play.folder / "playbooks/tasks/converge.yml").write_text("---\n" + text)
    done = play("--limit", "n0,n1,n2,n3,n4", forks=2, gpu_node_rolling_batch="100%")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PLAY [Converge GPU nodes in batches]") == 3, done.stdout
    assert max(int(one) for one in (play.folder / "drained").read_text().split()) <= 2
    assert "Batches of 2 nodes, not 100% of 5" in done.stdout and "raise --forks" in done.stdout


def test_a_node_that_is_left_alone_takes_jobs_again(play):
    """It has no profile, so that a verdict on it would always be unknown."""
    tasks = play.folder / "playbooks/tasks"
    roles = {"n0": [], "n1": ["gpu_settings"]}
    look = {
        "name": "Look",
        # As a fact of the host, which is what the module sets.
        "ansible.builtin.set_fact": {
            "gpu_node_profile": {"roles": "{{ roles[inventory_hostname] }}"},
            "cacheable": True,
        },
    }
    (tasks / "converge.yml").write_text(yaml.safe_dump([look]))
    node = (tasks / "rolling_node.yml").read_text()
    assert node.count("trainyard.gpu_node.health_check:\n") == 1
    # Whatever machine runs this test: nobody is healthy.
    sick = "ansible.builtin.fail:\n        msg: unknown\n      vars:\n"
    (tasks / "rolling_node.yml").write_text(node.replace("trainyard.gpu_node.health_check:\n", sick))
    done = play("--limit", "n0,n1", roles=roles)
    assert done.returncode == 2, done.stdout + done.stderr
    assert play.nodes()["n0"] == ["IDLE", ""]
    assert play.nodes()["n1"][0] == "IDLE+DRAIN"


@pytest.mark.soak
@pytest.mark.parametrize("what", ["a reboot", "slurmd"])
def test_a_node_that_waits_for_something_stays_drained_until_a_later_run(play, what):
    converge = play.folder / "playbooks/tasks/converge.yml"
    plain = converge.read_text()
    waits = {"n0": [{"for": what, "why": "reboot the node, then run this again"}], "n1": []}
    fact = {"__gpu_node_result": {"waits": "{{ waits[inventory_hostname] }}"}}
    look = {"name": "Look", "ansible.builtin.set_fact": fact}
    converge.write_text(yaml.safe_dump([look]))
    done = play("--limit", "n0,n1", waits=waits, gpu_node_rolling_batch=2, gpu_node_rolling_not_done="left.txt")
    assert done.returncode == 0, done.stdout + done.stderr
    assert play.nodes()["n0"] == ["IDLE+DRAIN", "gpu_node: rolling: waits for " + what]
    assert play.nodes()["n1"] == ["IDLE", ""]
    assert "2 of 2 nodes: 1 converged, 1 waits for " + what in done.stdout
    assert ": n0: reboot the node, then run this again" in done.stdout
    assert (play.folder / "elsewhere/left.txt").read_text() == "n0\n"
    converge.write_text(plain)
    assert play("--limit", "n0").returncode == 0 and play.nodes()["n0"] == ["IDLE", ""]


def test_what_is_included_is_not_always_done(play):
    plays = yaml.safe_load((play.folder / "playbooks/rolling.yml").read_text())
    (tasks,) = [one["tasks"] for one in plays if "serial" in one]
    (block,) = [task for task in tasks if "block" in task]
    assert "tags" not in block
    assert all(task["tags"] == ["always"] for task in block["block"] + block["rescue"])
    (include,) = [task for task in block["block"] if "ansible.builtin.include_tasks" in task]
    assert "apply" not in include


@pytest.mark.parametrize("check, found", [(True, ("passive", "never")), (False, ("active", "fail"))])
def test_check_mode_loads_no_node_and_judges_none(play, check, found):
    text = (play.folder / "playbooks/tasks/rolling_node.yml").read_text()
    health = yaml.safe_load(text)[1]["block"][1]["trainyard.gpu_node.health_check"]
    given = {"gpu_node_health_level": "active", "gpu_node_health_fail_on": "fail", "ansible_check_mode": check}
    told = tuple(jinja2.Template(health[key]).render(given) for key in ("level", "fail_on"))
    assert told == found
    assert jinja2.Template(health["seconds"]).render(given, omit="", gpu_node_health_seconds=60) == "60"
    # What a node owes after a fault is reached whatever the level.
    assert jinja2.Template(health["proof"]).render(given) == str(not check)


@pytest.mark.parametrize(
    "result, reason", [({}, ""), ({"skipped": True}, ""), ({"owes": "gpu_node: health: x"}, "gpu_node: health: x")]
)
def test_what_a_node_owes_still_is_handed_to_the_gate(play, result, reason):
    block = yaml.safe_load((play.folder / "playbooks/tasks/rolling_node.yml").read_text())[1]["block"]
    assert block[1]["register"] == "__gpu_node_rolling_health"
    template = block[-1]["trainyard.gpu_node.rolling_node"]["owes"]
    assert jinja2.Template(template).render(__gpu_node_rolling_health=result) == reason


def test_check_mode_drains_nothing_and_a_wrong_limit_begins_nothing(play):
    done = play("--check", "--limit", "n0")
    assert done.returncode == 0, done.stdout + done.stderr
    done = play(gpu_node_rolling_failures="many", gpu_node_rolling_batch=[1, "10%"])
    told = done.stdout + done.stderr
    assert done.returncode != 0
    for sentence in (
        "is a list, and one value holds for the whole run; give 3 or '5%'.",
        "'many' is neither a number of nodes nor percent; give 3 or '5%'.",
    ):
        assert sentence in told, (sentence, told)
    assert all(node == ["IDLE", ""] for node in play.nodes().values())
    assert not (play.folder / "converged").exists()


def test_no_tasks_have_the_name_of_a_play():
    """A file that an included one imports is looked for beside the playbook first."""
    (source,) = {Path(path) / "playbooks" for path in collection.__path__ if (Path(path) / "playbooks").is_dir()}
    assert not {path.name for path in source.glob("*.yml")} & {path.name for path in source.glob("tasks/*.yml")}
