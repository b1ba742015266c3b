# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of node_labels: nothing where nobody reads, nothing that is of others, and a second run changes nothing."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command.main import parser
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import managed_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.folder_given import Folder
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import (
    MARKER,
    Files,
    RemoveFile,
    Seen,
    WriteFile,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files.plan import named
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.timer import TimerState
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.units import (
    DisableUnit,
    EnableUnit,
    ReloadSystemd,
    StartUnit,
    StopUnit,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.metrics.labels import settings, sharing
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_labels import texts
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_labels.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_labels.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_labels.types import UNIT, State

FILE = settings.FOLDER + "/trainyard"
GFD = settings.FOLDER + "/gfd"
NODE = State(timer=TimerState(running=True), file=FILE, folder=Folder(settings.FOLDER))
ABSENT = Desired(present=False)


def kinds(result):
    return [type(one) for one in result.actions]


def applied(state, result):
    """The state after the actions of a plan, as node and systemd would be."""
    declared, timer, left = dict(state.declared), state.timer, list(state.left)
    for action in result.actions:
        if isinstance(action, Declare):
            declared = dict(action.content or {})
        elif isinstance(action, (EnableUnit, DisableUnit)):
            timer = replaced(timer, enabled=isinstance(action, EnableUnit))
        elif isinstance(action, (StartUnit, StopUnit)):
            timer = replaced(timer, active=isinstance(action, StartUnit))
        elif isinstance(action, ReloadSystemd):
            timer = replaced(timer, stale=False)
        elif isinstance(action, RemoveFile) and action.path in left:
            left.remove(action.path)
    rest = [one for one in result.actions if isinstance(one, (WriteFile, RemoveFile)) and one.path in UNIT.paths]
    former, made = named(declared)
    if declared.get("file") and timer.active:
        left = list(dict.fromkeys([*left, declared["file"]]))  # the timer writes it
    files = replaced(managed_files.after(state.files, rest), former=former, made_folders=made)
    return replaced(state, files=files, declared=declared, timer=timer, left=tuple(left))


def ours(state):
    return {path for path, seen in state.files.found if seen.ours} | set(state.left)


def test_a_timer_writes_the_labels_and_takes_them_away_with_it():
    first = plan(NODE, Desired())
    assert kinds(first) == [Declare, WriteFile, WriteFile, EnableUnit, ReloadSystemd, StartUnit] and not first.notes
    after = applied(NODE, first)
    assert after.declared["file"] == FILE and ours(after) == {*UNIT.paths, FILE}
    assert plan(after, Desired()).actions == ()
    gone = plan(after, ABSENT)
    assert kinds(gone)[:2] == [StopUnit, DisableUnit]
    assert ours(applied(after, gone)) == set() and applied(after, gone).declared == {}
    assert plan(applied(after, gone), ABSENT).actions == ()


def test_where_nobody_reads_nothing_is_done_and_what_was_there_goes():
    nowhere = replaced(NODE, file="", folder=None)
    assert "nobody would read the labels" in plan(nowhere, Desired()).skipped and plan(nowhere, ABSENT).actions == ()
    moved = replaced(applied(NODE, plan(NODE, Desired())), file="", folder=None)
    gone = plan(moved, Desired())
    assert gone.notes and ours(applied(moved, gone)) == set()


def test_another_file_takes_the_old_one_away_and_a_folder_that_lacks_is_told():
    before = applied(NODE, plan(NODE, Desired()))
    moved = replaced(before, file="/srv/x", folder=Folder("/srv", there=False))
    now = plan(moved, Desired(file="/srv/x"))
    assert RemoveFile(FILE) in now.actions and "there is no folder /srv" in now.notes[0]
    assert StartUnit in kinds(now)


@pytest.mark.parametrize(
    ("state", "desired", "sentence"),
    [
        (replaced(NODE, foreign=True), Desired(), "it is there and is not ours"),
        (replaced(NODE, gate=FILE), Desired(), "the labels of the health gate go there"),
        (replaced(NODE, gfd=GFD), Desired(gfd=True), "GPU feature discovery has its file there"),
        (replaced(NODE, files=Files(found=((UNIT.paths[0], Seen("file", "x\n", 0o644)),))), Desired(), "is not ours"),
    ],
)
def test_what_others_write_is_refused(state, desired, sentence):
    refused = plan(state, desired)
    assert refused.actions == () and len(refused.refusals) == 1 and sentence in str(refused.refusals[0])


def test_without_the_labels_of_gpus_their_file_is_no_matter():
    assert plan(replaced(NODE, gfd=GFD), Desired()).actions


def test_the_units_run_the_command_as_it_was_asked():
    desired = of(
        Desired,
        {
            "gfd": True,
            "mig_strategy": "mixed",
            "sharing": {"time_slicing": {"nvidia.com/gpu": 4, "nvidia.com/mig-1g.10gb": "2"}, "rename": True},
            "interval_seconds": 60,
        },
    )
    text = texts.service(FILE, desired)
    assert text.startswith(MARKER) and texts.timer(60).splitlines().count("OnUnitInactiveSec=60") == 1
    (start,) = re.findall("^ExecStart=(.*)$", text, re.MULTILINE)
    # No word means anything to systemd, and the command reads them as they were meant.
    assert not set(start) & set("%$\\\"';")
    words = parser().parse_args(shlex.split(start)[1:])
    assert (words.output, words.valid, words.gfd, words.mig_strategy) == (FILE, 150.0, True, "mixed")
    assert sharing.of_words(words) == sharing.read(desired.sharing) and words.renamed
    plain = texts.command(FILE, Desired())
    assert plain.endswith("labels -o {0} --valid 750".format(FILE))


@pytest.mark.parametrize(
    ("given_options", "sentence"),
    [
        ({"interval_seconds": 5}, "interval_seconds"),
        ({"valid_seconds": 10}, "valid_seconds"),
        ({"valid_seconds": 300}, "the labels would come and go"),
        ({"mig_strategy": "both"}, "mig_strategy"),
        ({"mig_strategy": "mixed"}, "set gfd to true"),
        ({"sharing": {"mps": {"nvidia.com/gpu": 2}}}, "set gfd to true"),
        ({"gfd": True, "sharing": {"mps": {"cpu": 2}}}, "cannot be shared"),
        ({"gfd": True, "sharing": 4}, "no mapping"),
        ({"file": "features.d/x"}, "absolute path"),
        ({"file": "/a/.hidden"}, "begins with no dot"),
        ({"file": "/a/../x"}, "absolute path"),
        ({"file": "/a/x y"}, "absolute path"),
        ({"file": "/a/"}, "absolute path"),
        ({"file": "/a/%i"}, "absolute path"),
        ({"gdf": True}, "there is no such option"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(given_options, sentence):
    with pytest.raises(NodeError, match=sentence) as refused:
        of(Desired, given_options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("file", ["", "/trainyard", FILE, "/a.d/b-c_1"])
def test_what_can_be_is_taken(file):
    assert of(Desired, {"file": file}).file == file
    assert of(Desired, {"state": "absent", "mig_strategy": "mixed"}).present is False


SEEN = st.sampled_from((Seen(), Seen("file", MARKER + "\nold\n", 0o644), Seen("file", "mine\n", 0o600), Seen("other")))
STATES = st.builds(
    State,
    files=st.builds(Files, found=st.tuples(SEEN, SEEN).map(lambda both: tuple(zip(UNIT.paths, both)))),
    timer=st.builds(TimerState, st.just(True), st.booleans(), st.booleans(), st.booleans())
    | st.builds(TimerState, st.just(False), st.booleans()),
    file=st.sampled_from(("", FILE)),
    foreign=st.booleans(),
    left=st.sampled_from(((), (FILE,), ("/srv/old",))),
    gate=st.sampled_from(("", FILE, "/srv/gate")),
    gfd=st.sampled_from(("", GFD)),
)
DESIREDS = st.builds(Desired, present=st.booleans(), gfd=st.booleans(), interval_seconds=st.integers(30, 600))


@given(STATES, DESIREDS)
def test_whatever_is_found_a_second_plan_is_empty_and_what_is_of_others_stays(state, desired):
    first = plan(state, desired)
    assert not (first.refusals and first.actions)
    touched = {one.path for one in first.actions if isinstance(one, (WriteFile, RemoveFile))}
    assert all(not seen.foreign for path, seen in state.files.found if path in touched)
    assert GFD not in touched and "/srv/gate" not in touched
    after = applied(state, first)
    assert plan(after, desired).actions == () or first.refusals
    if not desired.present:
        assert ours(after) == set() and not after.declared
