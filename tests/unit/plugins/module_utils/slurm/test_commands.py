# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One client runs the commands of Slurm: how it finds them, what an error means; no other module runs them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Completed, Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import commands, job_processes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.client import Slurm
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.commands import (
    Commands,
    NoAnswer,
    NoSuchNode,
    NotInstalled,
    NotPermitted,
    Refused,
)

PLUGINS = Path(__file__).resolve().parents[5] / "plugins"
PROGRAMS = ("scontrol", "squeue", "sinfo", "sacct", "sacctmgr")
# What may search for a program without running it: the declared path of scontrol is found here.
SEARCH = ("slurm/commands.py", "slurm/places.py", "resources/slurm_hooks/observe.py")


def runners(text: str) -> list[str]:
    """Each place where a module puts together a command of Slurm, or finds one, by itself."""
    found = []
    for node in ast.walk(ast.parse(text)):
        words = node.elts if isinstance(node, ast.List) else ()
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name.endswith("places.command"):
                found.append(name)
            if name.rpartition(".")[2] in ("which", "program", "find_program", "getoutput", "system", "access"):
                words = node.args
        for word in words:
            value = word.value if isinstance(word, ast.Constant) else None
            if isinstance(value, str) and os.path.basename(value.split(" ")[0]) in PROGRAMS:
                found.append(value)
    return found


def test_no_other_module_runs_the_commands_of_slurm():
    found = []
    for path in sorted(PLUGINS.rglob("*.py")):
        name = path.relative_to(PLUGINS).as_posix()
        if not name.endswith(SEARCH):
            found += ["{0}: {1}".format(name, one) for one in runners(path.read_text(encoding="utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        'host.run(["scontrol", "listpids", job])',
        'host.run([folder, "/opt/slurm/bin/squeue"])',
        'host.run(places.command(host, [scontrol, "ping"]))',
        'if host.which("scontrol"): pass',
        'scontrol = places.program(host, "scontrol")',
        'os.system("sinfo -h")',
    ],
)
def test_a_second_client_is_found(text):
    assert runners(text)
    assert not runners('Commands(host).run("scontrol", "ping")')


class Answers(Host):
    """A machine whose Slurm is at ``path``, and whose commands end like this; None: they do not end."""

    def __init__(self, root, status=0, stdout="", stderr="", path="usr/bin"):
        super().__init__(str(root))
        self.done, self.asked = (status, stdout, stderr), []
        for name in PROGRAMS[:3]:
            program = root / path / name
            program.parent.mkdir(parents=True, exist_ok=True)
            program.touch(0o755)

    def run(self, argv, timeout_seconds=60.0, accept=(0,), environment=None):
        self.asked.append((list(argv), timeout_seconds))
        if self.done[0] is None:
            raise NodeError(argv[0], "did not end within {0:g} s".format(timeout_seconds), "look")
        return Completed(tuple(argv), *self.done)


@pytest.fixture(autouse=True)
def _no_slurm_on_the_path(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("SLURM_CONF", raising=False)


@pytest.mark.parametrize(
    "message, kind, told",
    [
        # slurm_errno.c, 22.05 to 26.05
        (
            "slurm_load_node error: Unable to contact slurm controller (connect failure)",
            NoAnswer,
            "it does not answer: ",
        ),
        ("slurm_update error: Socket timed out on send/recv operation", NoAnswer, "it does not answer: "),
        ("slurm_update error: Zero Bytes were transmitted or received", NoAnswer, "it does not answer: "),
        ("slurm_load_jobs error: Communication message receive failure", NoAnswer, "it does not answer: "),
        ("slurm_update error: Slurm backup controller in standby mode", NoAnswer, "it does not answer: "),
        ("slurm_update error: Invalid node name specified", NoSuchNode, "node gpu01: slurmctld has no such node"),
        ("Node gpu01 not found", NoSuchNode, "node gpu01: slurmctld has no such node"),
        ("slurm_update error: Access/permission denied", NotPermitted, "run it as root or SlurmUser"),
        ("slurm_update error: Invalid user id", NotPermitted, "run it as root or SlurmUser"),
        ("slurm_update error: Invalid node state specified", Refused, "it was refused: "),
        ("Reservation x not found", Refused, "it was refused: "),
    ],
)
def test_each_error_has_one_class(tmp_path, message, kind, told):
    slurm = Slurm(Answers(tmp_path, 1, stderr=message), "gpu01")
    with pytest.raises(NodeError) as caught:
        slurm.update("State=DRAIN", "Reason=x")
    assert type(caught.value) is kind and told in str(caught.value)
    # Who may have changed something must not say that nothing was done.
    assert isinstance(caught.value, Refused) == (kind is not NoAnswer)


def test_a_command_that_does_not_end_is_a_slurmctld_that_does_not_answer(tmp_path):
    with pytest.raises(NoAnswer, match=r"slurmctld: it does not answer: squeue did not end within 10 s; look at"):
        Slurm(Answers(tmp_path, None), "gpu01").jobs()


def test_no_slurm_is_one_sentence(tmp_path):
    with pytest.raises(NotInstalled, match="scontrol: it is not on this machine; install Slurm's commands here"):
        Commands(Host(str(tmp_path))).run("scontrol", "ping")
    assert not Commands(Host(str(tmp_path))).installed


def test_a_declared_scontrol_has_the_others_beside_it(tmp_path):
    host = Answers(tmp_path, path="srv/slurm/bin")
    found = Commands(host, str(tmp_path / "srv/slurm/bin/scontrol"))
    assert found.find("squeue") == str(tmp_path / "srv/slurm/bin/squeue")
    assert not Commands(host).installed  # nor in a place that nobody names


def test_the_processes_of_a_job_are_asked_of_a_slurm_outside_of_the_search_path(tmp_path):
    """It asked the scontrol of the search path alone, and without slurmd's slurm.conf."""
    host = Answers(tmp_path, stdout="PID JOBID\n42 7\n", path="opt/slurm/bin")
    for folder, text in (("proc/9", "/opt/slurm/sbin/slurmd\0-f\0/srv/a.conf\0"), ("srv", "")):
        (tmp_path / folder).mkdir(parents=True)
        if text:
            (tmp_path / folder / "cmdline").write_text(text)
            (tmp_path / folder / "comm").write_text("slurmd\n")
    (tmp_path / "srv/a.conf").touch()
    assert job_processes.job_pids(host, "7") == (42,)
    argv, seconds = host.asked[-1]
    assert argv[-3:] == [str(tmp_path / "opt/slurm/bin/scontrol"), "listpids", "7"]
    assert "SLURM_CONF=/srv/a.conf" in argv and seconds == commands.PATIENT_SECONDS


def test_a_prolog_of_a_healthy_node_does_not_load_the_client():
    base = "ansible_collections.trainyard.gpu_node.plugins.module_utils."
    code = "import sys, {0}jobs.hooks.run; print([one for one in sys.modules if one.startswith({0!r})])".format(base)
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert base + "slurm.types" in done.stdout
    assert not [one for one in ("client", "commands", "nodes", "places") if base + "slurm." + one + "'" in done.stdout]


@pytest.mark.parametrize(
    ("words", "thing"),
    [
        (("scontrol", "show", "node", "n1"), "node n1"),
        (("squeue", "-h", "--nodelist=n1"), "node n1"),
        (("scontrol", "create", "reservation", "Nodes=n1", "Flags=MAINT"), "node n1"),
        (("scontrol", "ping", "x"), "scontrol ping x"),
    ],
)
def test_an_unknown_node_is_named_by_the_command(words, thing):
    assert commands._refused(words, "Invalid node name specified").thing == thing
