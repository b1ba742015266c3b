# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What slurm.conf is told to lack, and who may change the hooks."""

from __future__ import annotations

import dataclasses
import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import Files, Seen
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks import trusted
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.advice import advice
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.trusted import Trust
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.types import (
    PROLOG,
    State,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import syntax
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.hooks_conf import Hooks
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.layout import Slurm

GOOD = "PrologFlags=Alloc\nSchedulerParameters=bf_continue,nohold_on_prolog_fail\n"
SAVING = GOOD + "SuspendTime=300\nSuspendProgram=/opt/suspend\n"
HOOK = "/etc/slurm/prolog.d/00-gpu_node"


def told(text, **changes):
    state = State(
        configured=Hooks(("/etc/slurm/prolog.d/*",), ("/etc/slurm/epilog.d/*",)),
        conf=syntax.of(text),
        slurm_conf="/etc/slurm/slurm.conf",
        node_name="gpu01",
    )
    return advice(dataclasses.replace(state, **changes), Desired())


def test_nothing_lacks():
    assert told(GOOD) == []


@pytest.mark.parametrize(
    "flags", ["alloc", "Contain", "X11", "NoHold", "DeferBatch,Serial", "RunInJob", "ForceRequeueOnFail"]
)
def test_every_flag_that_implies_alloc_will_do(flags):
    assert told(GOOD.replace("Alloc", flags)) == []


def test_a_declared_slurm_conf_that_does_not_exist_is_named():
    state = State(node_name="gpu01")
    assert advice(state, Desired()) == ["neither slurm.conf nor slurmctld tells which Prolog= and Epilog= are set"]
    (note,) = advice(state, Desired(slurm_conf="/opt/slurm/etc/slurm.cnf"))
    assert note.endswith(
        "are set: /opt/slurm/etc/slurm.cnf does not exist; correct slurm_hooks_slurm_conf, or run this again when the "
        "file is there"
    )


def test_a_prolog_that_runs_late_is_told():
    (note,) = told(GOOD.replace("PrologFlags=Alloc", "PrologFlags=Serial"))
    assert note.startswith("/etc/slurm/slurm.conf has no PrologFlags=Alloc, so the prolog runs only before")


def test_jobs_that_will_be_held_are_told():
    (note,) = told("PrologFlags=Alloc\n")
    assert "a job that a prolog turned away is held (launch failed requeued held) until somebody runs" in note


@pytest.mark.parametrize(
    "more, told_of",
    [
        ("", "powered down after 300 idle seconds: add SuspendExcStates=DRAIN,DOWN, then run"),
        ("SlurmctldParameters=idle_on_node_suspend\n", "and then idle again, sick or not (idle_on_node_suspend): add"),
        ("SuspendExcNodes=gpu[02-09]\n", "powered down"),
        ("SuspendExcNodes=gpu[01-09]:4\n", "powered down"),
        ("SuspendExcNodes=gpu[01-09],login:1\n", None),
        ("SuspendExcStates=DRAIN\n", None),
        ("SuspendTime=-1\n", None),
    ],
)
def test_power_saving_of_drained_nodes(more, told_of):
    notes = told(SAVING + more)
    assert bool(notes) == bool(told_of) and all(told_of in note for note in notes)


def test_an_option_that_this_slurm_does_not_have_is_not_advised():
    (note,) = told(SAVING, slurm=Slurm((22, 5), (22, 5)))
    assert "add the node to SuspendExcNodes when it is drained" in note


# Who may change the hooks -----------------------------------------------------------------------------


@pytest.fixture
def node(tmp_path):
    folder = tmp_path / "node/etc/slurm/prolog.d"
    folder.mkdir(parents=True)
    for one in (tmp_path / "node", tmp_path / "node/etc", tmp_path / "node/etc/slurm", folder):
        one.chmod(0o755)
    (folder / "00-gpu_node").write_text(PROLOG)
    (folder / "00-gpu_node").chmod(0o755)
    (tmp_path / "node/etc/passwd").write_text("root:x:0:0::/:\nslurm:x:64030:64030::/:\n")
    return tmp_path / "node"


def look(node, user="slurm"):
    return trusted.look(Host(str(node)), [HOOK], user)


def written(mode):
    return "other users can write to it (mode {0:04o})".format(mode)


def test_what_only_root_may_change_is_trusted(node):
    assert look(node) == Trust()


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
def test_a_folder_that_every_user_may_write_to(node, mode):
    (node / "etc/slurm/prolog.d").chmod(mode)
    assert look(node) == Trust(folders=(("/etc/slurm/prolog.d", written(mode)),))


def test_a_folder_above_counts_unless_it_is_sticky(node):
    (node / "etc").chmod(0o777)
    assert look(node) == Trust(above=((str(node / "etc"), written(0o777)),))
    (node / "etc").chmod(0o1777)
    assert look(node) == Trust()


def test_a_folder_that_holds_a_link_to_the_hooks_counts(node):
    """Who may write there can put another link in its place."""
    (node / "etc/slurm/prolog.d").rename(node / "hooks")
    (node / "etc/slurm/prolog.d").symlink_to(node / "hooks")
    (node / "etc/slurm").chmod(0o777)
    assert look(node) == Trust(above=((str(node / "etc/slurm"), written(0o777)),))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owners_and_groups(node):
    hook, folder = node / "etc/slurm/prolog.d/00-gpu_node", node / "etc/slurm/prolog.d"
    os.chown(hook, 1000, 1000)
    assert look(node).hooks == ((HOOK, "it belongs to user 1000"),)
    os.chown(hook, 64030, 64030)
    os.chown(folder, 64030, 64030)
    assert look(node) == look(node, "slurm(64030)") == look(node, "64030") == Trust()
    assert look(node, None).folders == (("/etc/slurm/prolog.d", "it belongs to user 64030"),)
    folder.chmod(0o775)
    assert look(node) == Trust()
    os.chown(folder, 64030, 100)
    assert look(node).folders == (("/etc/slurm/prolog.d", written(0o775)),)


def test_a_hook_of_somebody_else_is_written_anew_and_an_open_folder_refused():
    state = State(
        files=Files(found=((HOOK, Seen("file", PROLOG, 0o755)),)),
        configured=Hooks(("/etc/slurm/prolog.d/*",), ("/etc/slurm/epilog.d/*",)),
    )
    before = [action.describe() for action in plan(state, Desired()).actions]
    assert "write " + HOOK not in before
    theirs = dataclasses.replace(state, trust=Trust(hooks=((HOOK, "it belongs to user 7"),)))
    result = plan(theirs, Desired())
    described = [action.describe() for action in result.actions]
    assert described.index("remove " + HOOK) == described.index("write " + HOOK) - 1
    assert HOOK + ": it belongs to user 7, so it is written anew as root's" in result.notes
    open_one = dataclasses.replace(state, trust=Trust(folders=(("/etc/slurm/prolog.d", "every user may write to it"),)))
    (refusal,) = plan(open_one, Desired()).refusals
    assert str(refusal).startswith(
        "/etc/slurm/prolog.d: every user may write to it, and Slurm runs what lies there as root"
    )


@pytest.mark.parametrize("key", ["PrologEpilogTimeout", "PrologTimeout", "EpilogTimeout"])
@pytest.mark.parametrize(("seconds", "short"), [("30", True), ("105", True), ("106", False), ("65534", False)])
def test_a_time_limit_that_ends_a_hook_in_the_middle_is_told(key, seconds, short):
    """A hook may take 100 s, and the 5 s of grace that are the default."""
    notes = told("{0}{1}={2}\n".format(GOOD, key, seconds))
    assert [note.partition(" may take ")[2][:5] for note in notes] == ["105 s"] * short
    assert all("{0}={1}".format(key, seconds) in note for note in notes)
