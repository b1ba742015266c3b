# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate's files and declarations: every state that the places can be in, in systems with and without systemd."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import managed_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.folder_given import Folder
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import (
    MARKER,
    Files,
    RemoveFile,
    Seen,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files.plan import named
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Outcome
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.timer import TimerState
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.units import (
    DisableUnit,
    EnableUnit,
    ReloadSystemd,
    StartUnit,
    StopUnit,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import overrules
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.silences import parse
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.health_gate import RESOURCE
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.health_gate.observe import observe
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.health_gate.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.health_gate.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.health_gate.types import (
    PROGRAM,
    State,
)
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples

TEXTFILE = "/var/lib/node_exporter/textfile_collector/gpu_node.prom"
SERVICE = "/etc/systemd/system/gpu-node-health.service"
TIMER = "/etc/systemd/system/gpu-node-health.timer"
PROOF = "/etc/systemd/system/gpu-node-health-proof.service"
BLANK = State(slurmd=True, slurm_conf="/etc/slurm/slurm.conf", program=PROGRAM, timer=TimerState(running=True))
DESIRED = Desired(textfile=TEXTFILE)
ABSENT = dataclasses.replace(DESIRED, present=False)


def described(result):
    return [action.describe() for action in result.actions]


def applied(state, result):
    """The state after the actions of a plan, as node and systemd would be."""
    declared = {name: dict(content) for name, content in state.declared.items()}
    timer, left = state.timer, list(state.left)
    for action in result.actions:
        if isinstance(action, Declare):
            declared.pop(action.section, None)
            if action.content is not None:
                declared[action.section] = dict(action.content)
        elif isinstance(action, (EnableUnit, DisableUnit)):
            timer = replaced(timer, enabled=isinstance(action, EnableUnit))
        elif isinstance(action, (StartUnit, StopUnit)):
            timer = replaced(timer, active=isinstance(action, StartUnit))
        elif isinstance(action, ReloadSystemd):
            timer = replaced(timer, stale=False)
        elif isinstance(action, RemoveFile) and action.path in left:
            left.remove(action.path)
    files = managed_files.after(state.files, [one for one in result.actions if not isinstance(one, Declare)])
    former, made = named(declared.get("health_gate", {}))
    return dataclasses.replace(
        state,
        files=dataclasses.replace(files, former=former, made_folders=made),
        declared=declared,
        timer=timer,
        left=tuple(left),
    )


def test_a_blank_node_gets_all_of_it_and_then_nothing_and_loses_it_again():
    first = plan(BLANK, DESIRED)
    assert described(first) == [
        "declare section health_gate in /etc/gpu_node/node.json",
        "write " + SERVICE,
        "write " + TIMER,
        "write " + PROOF,
        "write " + PROGRAM,
        "enable gpu-node-health.timer",
        "have systemd read its units again",
        "start gpu-node-health.timer",
    ]
    assert first.notes == ()
    there = applied(BLANK, first)
    assert plan(there, DESIRED).actions == ()
    found = dataclasses.replace(
        there,
        left=("/var/lib/gpu_node/health/verdict.json", "/run/gpu_node/npd/status"),
        files=dataclasses.replace(there.files, found=(*there.files.found, (TEXTFILE, Seen("file", MARKER, 0o644)))),
    )
    last = plan(found, ABSENT)
    assert described(last) == [
        "stop gpu-node-health.timer",
        "disable gpu-node-health.timer",
        "remove " + SERVICE,
        "remove " + TIMER,
        "remove " + PROOF,
        "remove " + PROGRAM,
        "remove " + TEXTFILE,
        "have systemd read its units again",
        "remove /var/lib/gpu_node/health/verdict.json",
        "remove /run/gpu_node/npd/status",
        "remove the folder /run/gpu_node/npd, if it is empty",
        "remove the folder /var/lib/gpu_node/health, if it is empty",
        "take section health_gate out of /etc/gpu_node/node.json",
    ]
    assert plan(applied(found, last), ABSENT).actions == ()


def test_diff_mode_shows_both_sections_as_they_are_and_as_they_will_be():
    here = dataclasses.replace(BLANK, declared={"health": {"without": ["ib_ports"]}, "nccl": {"secret": "of another"}})
    desired = dataclasses.replace(DESIRED, without=("nvme_*",), resume_after=5)

    def shown(wish, planned):
        outcome = Outcome(here, here, plan(here, wish), changed=True)
        text = RESOURCE.shown(outcome, wish, planned).partition("==>")[0]
        return json.loads(text) if text else {}

    assert shown(desired, False) == {"health": {"without": ["ib_ports"]}}
    after = shown(desired, True)
    assert list(after) == ["health", "health_gate"] and after["health"] == {"without": ["nvme_*"]}
    assert after["health_gate"]["resume_after"] == 5 and SERVICE in after["health_gate"]["files"]
    assert shown(ABSENT, True) == {}


def test_a_drained_node_is_told_when_the_gate_goes():
    there = dataclasses.replace(applied(BLANK, plan(BLANK, DESIRED)), drained=True)
    assert "nothing resumes it any more" in plan(there, ABSENT).notes[0]


def test_folders_that_cannot_be_used_are_refused_and_in_an_image_noted():
    folders = (("textfile", Folder("/m", False)), ("journal_folder", Folder("/run/j", True, "tmpfs", "/run")))
    result = plan(dataclasses.replace(BLANK, folders=folders), DESIRED)
    assert [one.thing for one in result.refusals] == ["health_gate_journal_folder"]
    noted = plan(dataclasses.replace(BLANK, folders=folders, timer=TimerState()), DESIRED)
    told = [one.split(":")[0] for one in noted.notes]
    assert noted.actions and told == ["health_gate_textfile", "health_gate_journal_folder"]
    # A folder that is not there costs no node.
    missing = plan(dataclasses.replace(BLANK, folders=folders[:1]), DESIRED)
    assert missing.actions and not missing.refusals and "there is no folder /m" in missing.notes[0]
    scratch = {"nvme_scratch": {"mount_point": "/scratch"}}
    here = dataclasses.replace(BLANK, folders=(("journal_folder", Folder("/scratch/j", True, "xfs", "/scratch")),))
    assert not plan(here, DESIRED).refusals
    assert "the scratch" in plan(dataclasses.replace(here, declared=scratch), DESIRED).refusals[0].reason
    # Metrics are written anew with each look.
    metrics = dataclasses.replace(here, declared=scratch, folders=(("textfile", here.folders[0][1]),))
    assert not plan(metrics, DESIRED).refusals


def test_the_folders_that_are_looked_at_are_those_of_the_options(tmp_path):
    (tmp_path / "m").mkdir()
    desired = Desired(textfile="/m/x.prom", labels_file="/features.d/gpu", journal_folder="/j")
    found = observe(Host(str(tmp_path)), desired).folders
    assert [(option, one.path, one.there) for option, one in found] == [
        ("textfile", "/m", True),
        ("labels_file", "/features.d", False),
        ("journal_folder", "/j", False),
    ]
    assert observe(Host(str(tmp_path)), Desired()).folders == ()
    assert observe(Host(str(tmp_path)), dataclasses.replace(desired, present=False)).folders == ()


def test_a_new_interval_starts_the_timer_again():
    there = applied(BLANK, plan(BLANK, DESIRED))
    slower = dataclasses.replace(DESIRED, interval_seconds=600)
    assert described(plan(there, slower)) == [
        "declare section health_gate in /etc/gpu_node/node.json",
        "write " + TIMER,
        "have systemd read its units again",
        "start gpu-node-health.timer",
    ]


def test_without_slurm_there_is_no_script_and_no_word_of_it():
    result = plan(dataclasses.replace(BLANK, slurmd=False, slurm_conf=None, program=None), DESIRED)
    assert "write " + PROGRAM not in described(result) and result.notes == ()


def test_what_slurm_conf_lacks_is_told():
    none = plan(dataclasses.replace(BLANK, program=None), DESIRED).notes
    assert len(none) == 1 and "HealthCheckProgram=" + PROGRAM in none[0]
    other = plan(dataclasses.replace(BLANK, program="/sched/health.sh"), DESIRED).notes
    assert len(other) == 1 and "/sched/health.sh" in other[0] and "health_gate_by_timer" in other[0]
    by_timer = dataclasses.replace(DESIRED, by_timer=True)
    assert plan(dataclasses.replace(BLANK, program="/sched/health.sh"), by_timer).notes == ()


def test_the_agent_of_cyclecloud_is_told_from_other_programs():
    hooks = ("/etc/slurm/prolog.d/10-health_prolog.sh", "/etc/slurm/epilog.d/10-health_epilog.sh")
    state = dataclasses.replace(BLANK, program="/sched/ccw/health.sh", healthagent=("/sched/ccw/health.sh", *hooks))
    program, job = plan(state, DESIRED).notes
    assert "healthagent as HealthCheckProgram= (/sched/ccw/health.sh)" in program and "health_gate_by_timer" in program
    assert hooks[0] in job and hooks[1] in job and "'Prolog error'" in job and "health.sh" not in job
    by_timer = dataclasses.replace(DESIRED, by_timer=True)
    assert plan(state, by_timer).notes == (job,)
    assert plan(dataclasses.replace(state, healthagent=state.healthagent[:1]), by_timer).notes == ()


def test_the_agent_of_cyclecloud_is_found_where_its_installer_puts_it(tmp_path):
    for path in ("etc/healthagent/defaults.yaml", "etc/slurm/prolog.d/10-health_prolog.sh", "sched/health.sh"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    (tmp_path / "etc/slurm/slurm.conf").write_text("HealthCheckProgram=/sched/health.sh\n")
    found = observe(Host(str(tmp_path)), DESIRED).healthagent
    assert found == ("/sched/health.sh", "/etc/slurm/prolog.d/10-health_prolog.sh")
    # A script of that name that is somebody else's.
    (tmp_path / "etc/healthagent/defaults.yaml").unlink()
    (tmp_path / "etc/healthagent").rmdir()
    assert observe(Host(str(tmp_path)), DESIRED).healthagent == ()


@pytest.mark.parametrize("path", [SERVICE, TIMER, PROGRAM, TEXTFILE])
@pytest.mark.parametrize("seen", [Seen("file", "mine\n", 0o644), Seen("link", MARKER), Seen("other")])
def test_what_is_of_others_is_never_touched(path, seen):
    state = dataclasses.replace(BLANK, files=Files(found=((path, seen),)), timer=TimerState(enabled=True, active=True))
    refused = plan(state, DESIRED)
    assert refused.refusals[0].thing == path and refused.actions == ()
    gone = plan(state, ABSENT)
    assert "remove " + path not in described(gone) and any(path in note for note in gone.notes)
    if path in (SERVICE, TIMER):
        assert not any(isinstance(one, (StopUnit, DisableUnit)) for one in gone.actions)


@pytest.mark.parametrize("running", [True, False])
def test_without_a_timer_systemd_reads_the_unit_of_the_proof_only_where_it_runs(running):
    planned = plan(dataclasses.replace(BLANK, timer=TimerState(running=running)), Desired(timer=False))
    assert "write " + PROOF in described(planned)
    assert (ReloadSystemd() in planned.actions) is running


def test_a_slurmd_without_slurm_conf_is_reported_and_not_the_missing_line():
    (told,) = plan(dataclasses.replace(BLANK, slurm_conf=None, program=None), DESIRED).notes
    assert "no slurm.conf in any of its usual places, so Slurm keeps no job away" in told
    (told,) = plan(dataclasses.replace(BLANK, program=None), DESIRED).notes
    assert told.startswith("/etc/slurm/slurm.conf has no HealthCheckProgram=")


def test_a_silence_that_has_ended_is_told():
    silence = parse({"finding": "gpu_xid", "until": "2026-01-31", "owner": "anna", "reason": "x", "nodes": ["gpu7"]})
    desired = dataclasses.replace(DESIRED, silences=(silence,))
    assert plan(dataclasses.replace(BLANK, now=0.0), desired).notes == ()
    late = plan(dataclasses.replace(BLANK, now=1.8e9), desired).notes
    assert late == ("the silence of gpu_xid by anna ended on 2026-01-31: take it out, or give it a new date",)
    overrule = overrules.parse({"until": "2026-01-31", "owner": "anna", "reason": "x", "nodes": ["gpu7"]})
    (told,) = plan(dataclasses.replace(BLANK, now=1.8e9), dataclasses.replace(DESIRED, overrules=(overrule,))).notes
    assert told.startswith("the overrule by anna ended on 2026-01-31")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", None),
        ('HealthCheckProgram="/usr/sbin/nhc"\n', "/usr/sbin/nhc"),
        ("healthcheckprogram = /usr/sbin/nhc # x\n", "/usr/sbin/nhc"),
        ("#HealthCheckProgram=/a\nHealthCheckProgram=/b\nHealthCheckProgram=/c\n", "/c"),
        ("HealthCheckInterval=60\n", None),
    ],
)
@pytest.mark.parametrize(
    "path, options",
    [
        ("etc/slurm/slurm.conf", ""),
        ("var/spool/slurm/conf-cache/slurm.conf", ""),
        ("run/slurm/conf/slurm.conf", "--conf-server ctl"),
        ("sched/slurm.conf", "-f /sched/slurm.conf"),
    ],
)
def test_slurm_conf_is_read_where_slurmd_reads_it(tmp_path, text, expected, path, options):
    for name, content in (
        ("etc/slurm/slurm.conf", "HealthCheckProgram=/old\n"),
        ("etc/default/slurmd", "SLURMD_OPTIONS={0}\n".format(options)),
        (path, text),
    ):
        if name == "etc/slurm/slurm.conf" and path.startswith("var"):
            continue
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    found = observe(Host(str(tmp_path)), DESIRED)
    assert (found.slurm_conf, found.program) == ("/" + path, expected)


SEEN = st.sampled_from((Seen(), Seen("file", MARKER + "\nold\n", 0o644), Seen("file", "mine\n", 0o600), Seen("other")))
STATES = st.builds(
    State,
    files=st.builds(
        Files,
        found=st.tuples(SEEN, SEEN, SEEN, SEEN).map(lambda four: tuple(zip((SERVICE, TIMER, PROGRAM, TEXTFILE), four))),
    ),
    slurmd=st.booleans(),
    program=st.sampled_from((None, PROGRAM, "/usr/sbin/nhc")),
    # systemd tells of a timer only where it runs.
    timer=st.builds(TimerState, st.just(True), st.booleans(), st.booleans(), st.booleans())
    | st.builds(TimerState, st.just(False), st.booleans()),
    left=st.sampled_from(((), ("/var/lib/gpu_node/health/verdict.json",))),
    drained=st.booleans(),
)
DESIREDS = st.builds(
    Desired,
    present=st.booleans(),
    timer=st.booleans(),
    by_timer=st.booleans(),
    program=st.sampled_from((PROGRAM, "")),
    without=st.sampled_from(((), ("ib_*",))),
    textfile=st.sampled_from(("", TEXTFILE)),
)


@examples(200)
@given(STATES, DESIREDS)
def test_a_plan_applied_twice_is_empty_and_touches_nothing_of_others(state, desired):
    result = plan(state, desired)
    if result.refusals:
        return
    for action in result.actions:
        path = getattr(action, "path", None)
        assert path is None or not state.files.seen(path).foreign
    again = plan(applied(state, result), desired)
    assert not again.refusals and again.actions == ()
