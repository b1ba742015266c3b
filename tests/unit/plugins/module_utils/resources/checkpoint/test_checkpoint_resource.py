# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner of the resource checkpoint: when azcopy comes and goes, and what is never touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.checkpoints.settings import Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import options
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import Files, Seen
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.node_packages import Packages
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of_section
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.checkpoint import (
    Desired,
    State,
    types,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.checkpoint.plan import after, plan

URL = "https://a.blob.core.windows.net/c"
A, B = "a" * 64, "b" * 64
SOURCE = {"source": "https://mirror.example/azcopy.tar.gz"}


def names(found):
    return [type(one).__name__ for one in found.actions]


def desired(**given_options):
    return options.of(Desired, given_options)


def state(**changes):
    return replaced(State(packages=Packages("dpkg"), work="/mnt/scratch", cores=96, machine="x86_64"), **changes)


def test_without_azcopy_the_file_is_written_and_the_lack_is_told():
    found = plan(state(), desired(destination=URL, nodes=4))
    assert names(found) == ["Declare", "WriteFile"]
    assert found.notes == (
        "azcopy: this node has none, so nothing can be copied; give checkpoint_packages, checkpoint_source or "
        "checkpoint_distribution.",
    )
    text = found.actions[1].text
    assert "CHECKPOINT_CAP_MBPS=575\n" in text and "CHECKPOINT_DESTINATION=" + URL in text
    assert "/mnt/scratch/gpu_node-checkpoint-$(id -u)" in text and "AZCOPY_AUTO_LOGIN_TYPE=MSI" in text
    settings = of_section(Settings, found.actions[0].content)
    assert (settings.destination, settings.nodes, settings.egress_gbps) == (URL, 4, 20.0)


def test_azcopy_of_a_file_comes_with_its_library():
    wanted = desired(destination=URL, sha256=A, **SOURCE)
    found = plan(state(), wanted)
    assert names(found) == ["FetchProgram", "Declare", "WriteFile", "InstallProgram"] and found.notes == ()
    record = {"source": A, "program": B, "former": ""}
    there = state(declared={"azcopy": record}, installed=B, program=types.PROGRAM, fault="a library (libsecret-1.so.0)")
    assert names(plan(there, wanted))[1:] == ["WriteFile", "InstallDistribution"]
    assert plan(there, wanted).actions[2].names == ("libsecret-1-0",)
    # Another file, and one that was cut off between its record and its place.
    assert "InstallProgram" in names(plan(there, desired(sha256="c" * 64, **SOURCE)))
    cut = replaced(there, declared={"azcopy": {"source": A, "program": "new", "former": B}})
    assert "InstallProgram" in names(plan(cut, wanted))


def test_what_is_there_and_not_ours_is_never_replaced_or_removed():
    foreign = state(installed="e" * 64, program=types.PROGRAM)
    found = plan(foreign, desired(sha256=A, **SOURCE))
    assert [str(one) for one in found.refusals] == [
        "/usr/local/bin/azcopy: it is there and is not ours; move it away, or leave source out, and it is used."
    ]
    assert names(plan(foreign, desired())) == ["Declare", "WriteFile"]
    assert "RemoveProgram" not in names(plan(foreign, desired(state="absent")))
    replaced_since = replaced(foreign, declared={"azcopy": {"source": A, "program": B}})
    gone = plan(replaced_since, desired(state="absent"))
    assert names(gone) == ["Declare"] and "somebody replaced what was installed here" in gone.notes[0]
    theirs = state(files=Files(found=((types.ENV_FILE, Seen("file", "X=1\n", 0o644)),)))
    assert "it is there and is not ours" in str(plan(theirs, desired()).refusals[0])


def test_the_package_sources_are_asked_only_where_there_is_no_azcopy():
    assert "InstallDistribution" in names(plan(state(), desired(distribution=True)))
    assert "InstallDistribution" not in names(plan(state(program="/usr/bin/azcopy"), desired(distribution=True)))


@given(
    st.sampled_from([{}, {"distribution": True}, dict(SOURCE, sha256=A), {"nodes": 7, "keep": 2}]),
    st.sampled_from([None, A, B]),
    st.sampled_from([{}, {"azcopy": {"source": A, "program": B, "former": ""}}]),
)
def test_after_its_steps_nothing_is_left_to_do_and_absent_takes_back_all(given_options, installed, declared):
    now = state(installed=installed, declared=declared, program=types.PROGRAM if installed else "")
    wanted = desired(**given_options)
    found = plan(now, wanted)
    if found.refusals:
        assert installed is not None and not now.ours
        return
    then = after(now, found.actions)
    again = plan(then, wanted)
    assert again.actions == () and again.refusals == ()
    gone = plan(then, desired(state="absent"))
    rest = after(then, gone.actions)
    assert rest.declared == {} and not rest.files.seen(types.ENV_FILE).ours
    assert (rest.installed is None) == (installed is None or then.ours)
    assert isinstance(gone.actions[-1], Declare) and plan(rest, desired(state="absent")).actions == ()


@pytest.mark.parametrize(
    "given_options, told",
    [
        ({"destination": URL + "?sig=SECRET"}, "option destination " + URL + ": it carries an access key"),
        ({"auth": "sas_file"}, "option sas_file: auth sas_file needs it; give it."),
        ({"auth": "spn", "tenant_id": "x"}, "option tenant_id: 'x' is no identifier; write it as in 0000"),
        ({"sas_file": "/root/sas"}, "option sas_file: auth sas_file has no use for it"),
        ({"sas_file": "sas", "auth": "sas_file"}, "option sas_file: 'sas' is no path of a file"),
        ({"distribution": True, "sha256": A, **SOURCE}, "option source: azcopy would come twice, by distribution too"),
        ({"nodes": 0}, "option nodes: 0 is out of range; give 1 to 100000."),
        ({"sha256": A}, "option sha256: it is nothing without option source; give both."),
        ({"work_folder": "/a/../b"}, "option work_folder: '/a/../b' is no absolute path of a folder"),
    ],
)
def test_what_cannot_be_is_one_sentence(given_options, told):
    with pytest.raises(NodeError) as error:
        desired(**given_options)
    expected = told.replace("auth sas_file has no use for it", "auth msi has no use for it")
    assert expected in str(error.value) and "SECRET" not in str(error.value)


def test_too_many_for_the_limit_is_a_refusal():
    found = plan(state(), desired(account_ingress_gbps=0.001))
    assert "8 files at once: less than 1 Mb/s of 0.001 Gb/s is left for each" in str(found.refusals[0])
