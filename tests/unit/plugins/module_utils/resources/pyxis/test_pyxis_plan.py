# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pyxis's planner: golden plans, and for what slurmd has to be restarted."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import MARKER, Files, Seen
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files.plan import named
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.pyxis.options import Desired, Prebuilt
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.pyxis.plan import (
    after,
    plan,
    restart_pending,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.pyxis.types import (
    DROP_IN,
    PLUGSTACK,
    BuildPlugin,
    Headers,
    InstallPlugin,
    Other,
    Plugstack,
    State,
)

SUM, OTHER = "ab" * 32, "cd" * 32
DESIRED = Desired(source="https://mirror.example/pyxis-0.24.0.tar.gz", sha256=SUM)
READY_MADE = Prebuilt("25.11.5", "/srv/spank_pyxis-25.11.5.so", OTHER)
ABSENT = Desired(present=False)
# What CycleCloud 4 has on each node.
THEIRS = Other("/etc/slurm/plugstack.conf.d/pyxis.conf", "/opt/pyxis/spank_pyxis.so")
GONE = dataclasses.replace(THEIRS, exists=False)
BLANK = State(
    slurm_version="25.11.5",
    headers=Headers("/usr/include", (25, 11, 5)),
    files=Files(missing_folders=("/etc/slurm/plugstack.conf.d", "/opt/gpu_node", "/opt/gpu_node/pyxis")),
    slurmd_started=1000.0,
    changed_at=500.0,
)


def described(result):
    return [action.describe() for action in result.actions]


def applied(state, desired):
    return after(state, plan(state, desired).actions, desired)


def test_a_blank_node_gets_all_of_it_and_then_nothing():
    assert described(plan(BLANK, DESIRED)) == [
        "fetch https://mirror.example/pyxis-0.24.0.tar.gz",
        "declare section pyxis in /etc/gpu_node/node.json",
        "build /opt/gpu_node/pyxis/spank_pyxis.so for Slurm 25.11.5",
        "make the folder /etc/slurm/plugstack.conf.d",
        "write /etc/slurm/plugstack.conf.d/50-gpu_node_pyxis.conf",
        "write /etc/slurm/plugstack.conf",
    ]
    made = applied(BLANK, DESIRED)
    assert plan(made, DESIRED).actions == ()
    assert made.files.seen(DROP_IN).text.splitlines()[1:] == ["required /opt/gpu_node/pyxis/spank_pyxis.so"]
    assert made.files.seen(PLUGSTACK).text.splitlines()[1:] == ["include /etc/slurm/plugstack.conf.d/*.conf"]


def test_another_slurm_is_one_build():
    made = applied(BLANK, DESIRED)
    newer = dataclasses.replace(made, slurm_version="26.05.0", headers=Headers("/usr/include", (26, 5, 0)))
    assert described(plan(newer, DESIRED)) == [
        "fetch https://mirror.example/pyxis-0.24.0.tar.gz",
        "build /opt/gpu_node/pyxis/spank_pyxis.so for Slurm 26.05.0",
    ]
    assert plan(applied(newer, DESIRED), DESIRED).actions == ()


def test_another_source_and_a_plugin_that_was_exchanged_are_built_again_and_nothing_else_is():
    made = applied(BLANK, DESIRED)
    for state, desired in (
        (made, dataclasses.replace(DESIRED, sha256=OTHER)),
        (dataclasses.replace(made, plugin_sha256=None), DESIRED),
        (dataclasses.replace(made, plugin_sha256="of somebody"), DESIRED),
    ):
        assert [one for one in plan(state, desired).actions if isinstance(one, BuildPlugin)]
    options = dataclasses.replace(DESIRED, options={"container_scope": "job"})
    assert described(plan(made, options)) == ["write " + DROP_IN]
    assert applied(made, options).files.seen(DROP_IN).text.endswith("spank_pyxis.so container_scope=job\n")
    # Once built, it stays when no source is given any more.
    assert plan(made, Desired()).actions == ()


@pytest.mark.parametrize("desired", [DESIRED, Desired(), Desired(prebuilt=(READY_MADE,))])
def test_a_pyxis_of_somebody_elses_is_used_as_it_is(desired):
    state = dataclasses.replace(BLANK, plugstack=Plugstack(reached=True, others=(THEIRS,)))
    result = plan(state, desired)
    assert (result.actions, result.refusals, result.skipped) == ((), (), None)
    assert result.notes[0].startswith("/opt/pyxis/spank_pyxis.so is loaded by /etc/slurm/plugstack.conf.d/pyxis.conf")


def test_options_would_have_no_effect_on_it():
    state = dataclasses.replace(BLANK, plugstack=Plugstack(others=(THEIRS,)))
    told = str(plan(state, Desired(options={"container_scope": "job"})).refusals[0])
    assert told.startswith("option options: /etc/slurm/plugstack.conf.d/pyxis.conf loads /opt/pyxis/spank_pyxis.so")


def test_one_that_came_after_ours_is_refused_until_one_of_them_goes():
    made = applied(BLANK, DESIRED)
    both = dataclasses.replace(made, plugstack=dataclasses.replace(made.plugstack, others=(THEIRS,)))
    result = plan(both, DESIRED)
    assert not result.actions and "use that pyxis and take ours away" in str(result.refusals[0])
    left = after(both, plan(both, ABSENT).actions, ABSENT)
    assert plan(left, DESIRED).notes and not plan(left, DESIRED).actions


def test_one_that_was_built_elsewhere_is_taken_for_its_version_only():
    both = dataclasses.replace(DESIRED, prebuilt=(READY_MADE,))
    assert [type(one) for one in plan(BLANK, both).actions][2] is InstallPlugin
    other = dataclasses.replace(BLANK, slurm_version="25.11.4")
    assert [type(one) for one in plan(other, both).actions][2] is BuildPlugin
    bare = dataclasses.replace(BLANK, missing_tools=("gcc",), headers=None)
    assert not plan(bare, both).refusals


@pytest.mark.parametrize(
    "change, desired, told",
    [
        ({"slurm_version": "26.05.0"}, Desired(prebuilt=(READY_MADE,)), "26.05.0: there is nothing to make it of"),
        ({"missing_tools": ("gcc", "make")}, DESIRED, "cannot be built here without gcc, make; install that"),
        ({"headers": None}, DESIRED, "Slurm's headers (slurm/spank.h) are not installed; install libslurm-dev"),
        ({"headers": Headers("/usr/include", (22, 5, 8))}, DESIRED, "in /usr/include are those of Slurm 22.05.8"),
        ({"plugstack": Plugstack(others=(THEIRS, THEIRS))}, DESIRED, "pyxis.conf: it loads a pyxis, /opt/pyxis/spank"),
        ({"plugstack": Plugstack(others=(GONE,))}, Desired(), "so, which is not there, so each srun fails; take that"),
        ({"files": Files(((DROP_IN, Seen("file", "x\n", 0o644)),))}, DESIRED, "it is there and is not ours"),
    ],
)  # fmt: skip
def test_what_is_in_the_way_is_told_before_anything_is_done(change, desired, told):
    result = plan(dataclasses.replace(BLANK, **change), desired)
    assert not result.actions and told in str(result.refusals[0])


def test_headers_of_the_same_release_are_good_enough():
    assert not plan(dataclasses.replace(BLANK, headers=Headers("/usr/include", (25, 11, 2))), DESIRED).refusals


def test_a_plugstack_of_somebody_else_is_left_and_the_line_told():
    theirs = dataclasses.replace(BLANK, files=Files(((PLUGSTACK, Seen("file", "required x.so\n", 0o644)),)))
    result = plan(theirs, DESIRED)
    assert "write " + PLUGSTACK not in described(result)
    assert "add the line 'include /etc/slurm/plugstack.conf.d/*.conf' to it" in result.notes[0]
    reached = dataclasses.replace(theirs, plugstack=Plugstack(reached=True))
    assert plan(reached, DESIRED).notes == ()


def test_what_slurmd_has_yet_to_read_stays_pending_until_it_is_started_again():
    first = plan(BLANK, DESIRED).actions
    made = after(BLANK, first, DESIRED)
    assert restart_pending(BLANK, first, DESIRED) and restart_pending(made, first, DESIRED)
    assert plan(made, DESIRED) == Plan() and restart_pending(made, (), DESIRED)
    started = dataclasses.replace(made, slurmd_started=made.changed_at + 1.0)
    assert not restart_pending(started, (), DESIRED)
    gone = plan(started, ABSENT).actions
    assert restart_pending(after(started, gone, ABSENT), gone, ABSENT)
    login = dataclasses.replace(BLANK, slurmd_started=None)
    assert not restart_pending(login, first, DESIRED)


def test_files_of_others_are_nothing_that_slurmd_is_restarted_for():
    """Nothing of ours is there, or their pyxis is used: their plugstack.conf, newer than slurmd, is theirs."""
    newer = dataclasses.replace(BLANK, changed_at=2000.0, plugstack=Plugstack(reached=True, others=(THEIRS,)))
    assert plan(newer, DESIRED).actions == () and not restart_pending(newer, (), DESIRED)
    assert not restart_pending(dataclasses.replace(newer, plugstack=Plugstack(reached=True)), (), ABSENT)


def test_without_slurm_it_is_skipped():
    assert "Slurm is not installed" in plan(State(), DESIRED).skipped


def test_without_anything_to_make_it_of_it_is_skipped_until_it_was_built_once():
    assert "no source of pyxis" in plan(BLANK, Desired()).skipped
    newer = dataclasses.replace(applied(BLANK, DESIRED), slurm_version="26.05.0")
    assert "pyxis for Slurm 26.05.0: there is nothing to make it of" in str(plan(newer, Desired()).refusals[0])


def test_absent_takes_the_line_before_the_plugin():
    made = applied(BLANK, DESIRED)
    result = plan(made, ABSENT)
    assert described(result) == [
        "remove /etc/slurm/plugstack.conf.d/50-gpu_node_pyxis.conf",
        "remove /etc/slurm/plugstack.conf",
        "remove /opt/gpu_node/pyxis/spank_pyxis.so",
        "remove the folder /opt/gpu_node/pyxis, if it is empty",
        "remove the folder /opt/gpu_node, if it is empty",
        "remove the folder /etc/slurm/plugstack.conf.d, if it is empty",
        "take section pyxis out of /etc/gpu_node/node.json",
    ]
    assert plan(after(made, result.actions, ABSENT), ABSENT).actions == ()


def test_a_line_that_other_nodes_read_too_stays_and_so_does_its_plugin():
    """Without the plugin it would fail each job of this node."""
    made = applied(BLANK, DESIRED)
    shared = dataclasses.replace(made, files=dataclasses.replace(made.files, shared=(DROP_IN,)))
    result = plan(shared, ABSENT)
    assert result.actions == () and "on a network file system" in result.notes[0]


SEEN = st.sampled_from(
    [
        Seen(),
        Seen("file", MARKER + " old\n", 0o644),
        Seen("file", "theirs\n", 0o644),
        Seen("link", MARKER),
        Seen("other"),
    ]
)
SECTIONS = st.sampled_from(
    [
        {},
        {"files": [DROP_IN, PLUGSTACK, "/etc/slurm/old"], "made_folders": ["/etc/slurm/plugstack.conf.d"], "built": 7},
        {"files": [DROP_IN], "built": {"slurm_version": "25.11.5", "sha256": SUM, "plugin_sha256": "of " + SUM}},
        {"files": 7, "built": {"slurm_version": "22.05.8", "sha256": OTHER, "plugin_sha256": "of " + OTHER}},
    ]
)
STATES = st.builds(
    lambda seen, declared, **others: State(
        files=Files(tuple(zip((DROP_IN, PLUGSTACK), seen)), (), *named(declared)), declared=declared, **others
    ),
    seen=st.lists(SEEN, min_size=2, max_size=2),
    declared=SECTIONS,
    slurm_version=st.sampled_from([None, "25.11.5", "25.11.6", "22.05.8"]),
    headers=st.sampled_from([None, Headers("/usr/include", None), Headers("/opt/slurm/include", (25, 11, 5))]),
    missing_tools=st.sampled_from([(), ("gcc",)]),
    plugin_sha256=st.sampled_from([None, "of " + SUM, "of " + OTHER, "of somebody"]),
    plugstack=st.builds(
        Plugstack,
        reached=st.booleans(),
        others=st.sampled_from([(), (THEIRS,), (GONE,), (THEIRS, GONE)]),
        configless=st.booleans(),
    ),
    slurmd_started=st.sampled_from([None, 1000.0]),
    changed_at=st.sampled_from([0.0, 999.0, 1001.0]),
    users=st.sampled_from([(), ("job 4711",)]),
)  # fmt: skip
WISHES = st.sampled_from(
    [
        DESIRED,
        Desired(),
        ABSENT,
        dataclasses.replace(DESIRED, prebuilt=(READY_MADE,), restart=False),
        Desired(prebuilt=(READY_MADE,)),
        dataclasses.replace(DESIRED, options={"container_scope": "job"}),
    ]
)


@given(STATES, WISHES)
def test_every_state_has_a_plan_that_ends_and_touches_nothing_foreign(state, desired):
    result = plan(state, desired)
    for action in result.actions:
        assert not state.files.seen(getattr(action, "path", "")).foreign
    if not result.refusals:
        made = after(state, result.actions, desired)
        assert described(plan(made, desired)) == []


@given(STATES, WISHES)
def test_what_is_installed_was_fetched_by_its_sum_before(state, desired):
    kinds = [type(one).__name__ for one in plan(state, desired).actions]
    for kind in ("BuildPlugin", "InstallPlugin"):
        if kind in kinds:
            assert kinds.index("FetchSource") == 0 < kinds.index(kind)


@pytest.mark.parametrize(
    "options, told",
    [
        ({"source": "/x.tar.gz"}, "it is nothing without option sha256"),
        ({"source": "/x.tar.gz", "sha256": "12"}, "64 hexadecimal"),
        ({"options": {"scope": "job"}}, "pyxis knows no 'scope'; give some of container_scope"),
        ({"options": {"container_scope": "node"}}, "'node' is not possible; give one of global, job"),
        ({"options": {"runtime_path": "/run/a b"}}, "give an absolute path without blanks"),
        ({"plugstack": "plugstack.conf"}, "no absolute path"),
        ({"prebuilt": (READY_MADE, READY_MADE)}, "Slurm 25.11.5 is there twice"),
    ],
)
def test_wrong_options_are_one_sentence(options, told):
    with pytest.raises(NodeError, match=told):
        Desired(**options)
    with pytest.raises(NodeError, match="no version of Slurm"):
        Prebuilt("latest", "/x.so", SUM)


# Running jobs -----------------------------------------------------------------------------------------

BUSY = ("job 4711",)
BUILD, WRITE = "build /opt/gpu_node/pyxis/spank_pyxis.so for Slurm ", "write " + DROP_IN


def test_pyxis_is_not_loaded_while_a_job_runs():
    result = plan(dataclasses.replace(BLANK, users=BUSY), DESIRED)
    assert (result.actions, result.refusals) == ((), ())
    assert result.notes[0].startswith("pyxis: not changed yet: job 4711 would read the change (" + BUILD)
    assert WRITE in result.notes[0]
    made = applied(BLANK, DESIRED)
    held = plan(dataclasses.replace(made, users=BUSY), dataclasses.replace(DESIRED, options={"container_scope": "job"}))
    assert not held.actions and "job 4711" in held.notes[0]
    assert plan(dataclasses.replace(made, users=BUSY), ABSENT).refusals
    assert plan(dataclasses.replace(BLANK, users=BUSY), ABSENT) == plan(BLANK, ABSENT)
    assert plan(dataclasses.replace(made, users=BUSY), DESIRED) == plan(made, DESIRED)


OPTIONS = {"container_scope": "job"}
NEW_SOURCE = dataclasses.replace(DESIRED, sha256=OTHER)


def made_for(version, **change):
    """A node whose plugin was built for Slurm 25.11.5, with this version of Slurm now."""
    headers = Headers("/usr/include", tuple(int(one) for one in version.split(".")))
    return dataclasses.replace(applied(BLANK, DESIRED), slurm_version=version, headers=headers, **change)


@pytest.mark.parametrize(
    "state, desired, waiting",
    [
        (made_for("25.11.5"), NEW_SOURCE, [BUILD + "25.11.5"]),
        (made_for("25.11.5"), dataclasses.replace(NEW_SOURCE, options=OPTIONS), [BUILD + "25.11.5", WRITE]),
        (made_for("25.11.5"), Desired(prebuilt=(READY_MADE,)), ["install /opt/gpu_node/pyxis/spank_pyxis.so"]),
        (made_for("25.11.5", plugin_sha256="of somebody"), DESIRED, [BUILD + "25.11.5"]),
        # Slurm loads a plugin of the same release, so the steps of the job use it.
        (made_for("25.11.6"), DESIRED, [BUILD + "25.11.6"]),
        # No line loads it yet.
        (made_for("26.05.0", files=BLANK.files), DESIRED, [BUILD + "26.05.0", WRITE]),
    ],
)
def test_a_plugin_that_running_jobs_use_is_not_replaced(state, desired, waiting):
    held = plan(dataclasses.replace(state, users=BUSY), desired)
    assert (held.actions, held.refusals) == ((), ())
    assert held.notes[0].startswith("pyxis: not changed yet: job 4711 would read the change")
    assert all(one in held.notes[0] for one in waiting)
    at_once = described(plan(state, desired))
    assert all(any(one in action for action in at_once) for one in waiting)


@pytest.mark.parametrize(
    "state",
    [
        made_for("26.05.0"),
        made_for("25.05.0"),
        made_for("25.11.5", plugin_sha256=None),
        made_for("25.11.5", declared={}),
    ],
)
def test_a_plugin_that_slurm_does_not_load_is_replaced_while_a_job_runs(state):
    """Each step fails, so no job uses it. The options wait, because the epilog reads them."""
    busy = dataclasses.replace(state, users=BUSY)
    build = BUILD + state.slurm_version
    assert build in described(plan(busy, DESIRED)) and plan(busy, DESIRED) == plan(state, DESIRED)
    wish = dataclasses.replace(NEW_SOURCE, options=OPTIONS)
    result = plan(busy, wish)
    assert build in described(result) and WRITE not in described(result)
    assert WRITE in result.notes[0] and build not in result.notes[0]
    later = after(busy, result.actions, wish)
    assert described(plan(later, wish)) == [] and WRITE in plan(later, wish).notes[0]
    assert described(plan(dataclasses.replace(later, users=()), wish)) == [WRITE]


@given(STATES, WISHES)
def test_no_line_changes_while_a_job_runs(state, desired):
    busy, idle = (plan(dataclasses.replace(state, users=users), desired) for users in (BUSY, ()))
    assert not [one for one in busy.actions if one.describe().startswith(("write", "remove /etc"))]
    assert set(described(busy)) <= set(described(idle))
    replaced = [one for one in busy.actions if isinstance(one, (BuildPlugin, InstallPlugin))]
    # The line is loaded and its plugin fits: nothing replaces it.
    fits = state.built is not None and state.built.slurm_version[:5] == str(state.slurm_version)[:5]
    assert not (replaced and fits and state.plugin_sha256)
