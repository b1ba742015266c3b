# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner of beeond."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import Files, MakeFolder, Seen
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import as_section
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.beeond.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.beeond.plan import plan, wanted
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.beeond.types import (
    PATHS,
    BuildClient,
    RemoveAuth,
    State,
    WriteAuth,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.beeond import rules

KEY = "0123456789abcdef"
WISH = Desired(auth_secret=KEY)
FRESH = State(slurm=True, release=7, kernel="6.1", headers=True, hooks=True)
FILES = Files(tuple((one.path, Seen("file", one.text, one.mode)) for one in wanted()))


def done(**more):
    content = dict(
        as_section(rules.Settings, WISH),
        files=sorted(PATHS),
        made_folders=["/beeond"],
        built={"kernel": "6.1", "ofed": ""},
    )
    made = {"module": True, "point_there": True, "auth": "same", "files": replaced(FILES, made_folders=("/beeond",))}
    return replaced(FRESH, declared=content, **dict(made, **more))


def kinds(made):
    return [type(one) for one in made.actions]


def test_from_nothing_to_done_and_nothing_to_do_then():
    found = plan(FRESH, WISH)
    assert {Declare, MakeFolder, WriteAuth, BuildClient} <= set(kinds(found)) and kinds(found)[0] is Declare
    assert found.actions[0].content["made_folders"] == ["/beeond"]
    assert KEY not in str(found) and KEY not in str([one.describe() for one in found.actions])
    assert plan(done(), WISH) == plan(done(), Desired())
    assert not plan(done(), WISH).actions and not plan(done(), WISH).notes


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, False),
        ({"kernel": "6.2", "module": False}, True),
        ({"kernel": "6.2"}, True),  # a module that somebody else built
        ({"ofed": "/usr/src/ofa_kernel/x@1"}, True),
        ({"forced": True}, True),
        ({"module": False}, True),
    ],
)
def test_the_client_is_built_once_for_each_kernel_and_ofed(change, expected):
    assert (BuildClient in kinds(plan(done(**change), WISH))) is expected


def test_what_is_refused_and_why():
    def told(state, desired=WISH):
        return " ".join(str(one) for one in plan(state, desired).refusals)

    assert "package beeond and beegfs-client: it is not installed" in told(
        replaced(FRESH, missing=("beeond", "beegfs-client"))
    )
    assert told(replaced(FRESH, release=8)) == (
        "package beegfs-client: BeeGFS 8 is installed, and only 7 is supported; "
        "install beeond and beegfs-client of BeeGFS 7, see docs/beeond.md."
    )
    assert "release of BeeGFS is not known" in told(replaced(FRESH, release=None))
    assert "headers are not installed" in told(replaced(FRESH, headers=False))
    assert not told(done(headers=False))  # nothing is to be built
    assert "beeond_mount_point /beeond: it is foreign" in told(replaced(FRESH, point_wrong="it is foreign"))
    assert "auth_secret" in told(FRESH, Desired())
    assert "not ours" in told(replaced(FRESH, files=Files(((PATHS[0], Seen("file", "x", 0o644)),))))
    assert "job 7" in told(done(jobs=(7,)), Desired(mount_point="/other", auth_secret=KEY))
    assert not told(done(jobs=(7,)))
    assert plan(State(), WISH).skipped == "Slurm is not installed on this node"


def test_a_limit_of_slurm_that_ends_a_prolog_in_the_middle_is_told():
    assert not plan(done(timeout_seconds=1000), WISH).notes and not plan(done(timeout_seconds=0), WISH).notes
    assert "PrologEpilogTimeout of slurm.conf is 300 s" in plan(done(timeout_seconds=300), WISH).notes[0]
    assert "slurm_hooks" in plan(done(hooks=False), WISH).notes[0]


def test_absent_takes_back_what_was_made_and_waits_for_jobs():
    found = plan(done(), Desired(present=False))
    assert kinds(found)[0] is RemoveAuth and found.actions[-1] == Declare("beeond", None)
    assert [one.path for one in found.actions[:-1]] == [found.actions[0].path, *PATHS, "/beeond"]
    assert not plan(FRESH, Desired(present=False)).actions
    (refusal,) = plan(done(jobs=(7,)), Desired(present=False)).refusals
    assert "job 7" in str(refusal)


@pytest.mark.parametrize(
    "given",
    [
        {"mount_point": "/"},
        {"mount_point": "/a/b"},
        {"mount_point": "/.."},
        {"word": "a b"},
        {"word": ""},
        {"start_seconds": 5},
        {"auth_secret": "short"},
        {"auth_secret": KEY + "\n" + KEY},
    ],
)
def test_bad_options_are_told_without_the_key(given):
    with pytest.raises(NodeError) as told:
        Desired(**given)
    assert KEY not in str(told.value)
