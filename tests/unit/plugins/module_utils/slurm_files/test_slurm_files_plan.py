# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's files: every state that the folders can be in, the text of gres.conf, and what slurm.conf is told to lack."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils import managed_files, slurm_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.managed_files import MARKER, Files, Seen
from ansible_collections.trainyard.gpu_node.plugins.module_utils.managed_files.plan import named
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm_files import conf
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm_files.plan import features, gres_text, plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm_files.types import (
    EPILOG,
    PROLOG,
    Desired,
    Hooks,
    SlurmGpu,
    State,
)

A100 = "NVIDIA A100-SXM4-40GB"
# ND96asr_v4: GPUs 0 and 1 hang on NUMA node 1, cores 24 to 47, and so on (Azure's vector 1 1 0 0 3 3 2 2).
NDV4 = tuple(
    SlurmGpu(gpu, tuple(range(24 * node, 24 * node + 24)), A100) for gpu, node in enumerate((1, 1, 0, 0, 3, 3, 2, 2))
)
REACHED = Hooks(("/etc/slurm/prolog.d/*",), ("/etc/slurm/epilog.d/*",))
BLANK = State(
    files=Files(missing_folders=("/etc/slurm/prolog.d", "/etc/slurm/epilog.d")),
    gpus=NDV4,
    numa_nodes=4,
    scontrol="/usr/bin/scontrol",
    slurm_conf="/etc/slurm/slurm.conf",
    configured=REACHED,
    running=REACHED,
)
DESIRED = Desired()
ABSENT = Desired(present=False)


def described(result):
    return [action.describe() for action in result.actions]


def applied(state, result):
    """The state after the actions of a plan, as the disk would be."""
    declared = dict(state.declared)
    for action in result.actions:
        if isinstance(action, Declare):
            declared = dict(action.content or {})
    return dataclasses.replace(state, files=managed_files.after(state.files, result.actions), declared=declared)


def holding(state, path, seen):
    """The same node with this at a path."""
    found = dict(state.files.found, **{path: seen})
    return dataclasses.replace(state, files=dataclasses.replace(state.files, found=tuple(found.items())))


def test_a_blank_node_gets_all_of_it_and_then_nothing():
    first = plan(BLANK, DESIRED)
    assert described(first) == [
        "declare section slurm_hooks in /etc/gpu_node/node.json",
        "make the folder /etc/slurm/prolog.d",
        "make the folder /etc/slurm/epilog.d",
        "write /etc/slurm/prolog.d/00-gpu_node",
        "write /etc/slurm/prolog.d/zz-gpu_node",
        "write /etc/slurm/epilog.d/50-gpu_node",
        "write /etc/slurm/gres.conf",
        "write /etc/slurm/gpu_node_features",
    ]
    assert plan(applied(BLANK, first), DESIRED).actions == ()


def test_absent_takes_back_what_was_made_and_no_more():
    made = applied(BLANK, plan(BLANK, DESIRED))
    result = plan(holding(made, "/etc/slurm/gres.conf", Seen("file", "Name=gpu File=/dev/nvidia0\n", 0o644)), ABSENT)
    assert described(result) == [
        "remove /etc/slurm/prolog.d/00-gpu_node",
        "remove /etc/slurm/prolog.d/zz-gpu_node",
        "remove /etc/slurm/epilog.d/50-gpu_node",
        "remove /etc/slurm/gpu_node_features",
        "remove the folder /etc/slurm/epilog.d, if it is empty",
        "remove the folder /etc/slurm/prolog.d, if it is empty",
        "take section slurm_hooks out of /etc/gpu_node/node.json",
    ]
    assert plan(applied(made, plan(made, ABSENT)), ABSENT).actions == ()


def test_folders_that_were_there_stay():
    state = dataclasses.replace(BLANK, files=Files())
    made = applied(state, plan(state, DESIRED))
    assert not any("folder" in text for text in described(plan(made, ABSENT)))


def test_other_paths_later_leave_nothing_at_the_former_ones():
    made = applied(BLANK, plan(BLANK, DESIRED))
    moved = plan(made, Desired(gres_file="/etc/slurm/gpu_node_gres.conf"))
    assert "remove /etc/slurm/gres.conf" in described(moved)
    assert "write /etc/slurm/gpu_node_gres.conf" in described(moved)


SEEN = st.sampled_from(
    [
        Seen(),
        Seen("file", PROLOG, 0o755),
        Seen("file", PROLOG, 0o644),
        Seen("file", MARKER + " old\n", 0o644),
        Seen("file", "#!/bin/sh\nour own\n", 0o755),
        Seen("link", PROLOG),
        Seen("other"),
    ]
)
STATES = st.builds(
    lambda seen, declared, gpus, absent: State(
        files=Files(tuple(zip(DESIRED.paths(), seen)), (), *named(declared)),
        declared=declared,
        gpus=gpus,
        absent=absent,
        configured=REACHED,
    ),
    st.lists(SEEN, min_size=5, max_size=5),
    st.sampled_from([{}, {"made_folders": ["/etc/slurm/prolog.d"], "files": ["/etc/slurm/old", 7]}]),
    st.sampled_from([None, (), NDV4]),
    st.sampled_from([None, "there is no Slurm"]),
)


@given(STATES, st.sampled_from([DESIRED, ABSENT]))
def test_every_state_has_a_plan_that_ends_and_touches_nothing_foreign(state, desired):
    result = plan(state, desired)
    for action in result.actions:
        path = getattr(action, "path", None)
        assert not state.files.seen(path).foreign
    if not result.refusals:
        assert plan(applied(state, result), desired).actions == ()


def test_a_script_of_somebody_else_stops_it():
    state = holding(BLANK, "/etc/slurm/prolog.d/00-gpu_node", Seen("file", "#!/bin/sh\n", 0o755))
    result = plan(state, DESIRED)
    assert not result.actions and "not ours" in str(result.refusals[0])


def test_a_gres_conf_of_somebody_else_is_left_and_told():
    for seen, told in (
        (Seen("file", "Name=gpu\n", 0o644), "is not ours"),
        (Seen("link", MARKER), "is a symbolic link"),
    ):
        state = holding(BLANK, "/etc/slurm/gres.conf", seen)
        result = plan(state, DESIRED)
        assert "write /etc/slurm/gres.conf" not in described(result)
        assert any("/etc/slurm/gres.conf " + told in note and "Include" in note for note in result.notes)


def test_without_slurm_it_is_skipped_and_without_gpus_the_hooks_come_alone():
    assert plan(dataclasses.replace(BLANK, absent="no slurmd"), DESIRED).skipped == "no slurmd"
    result = plan(dataclasses.replace(BLANK, gpus=()), DESIRED)
    assert "write /etc/slurm/prolog.d/00-gpu_node" in described(result)
    assert "write /etc/slurm/gres.conf" not in described(result)
    assert "this machine has no GPU, so gres.conf and the node features are left as they are" in result.notes


def test_a_sick_gpu_does_not_change_gres_conf():
    made = applied(BLANK, plan(BLANK, DESIRED))
    sick = dataclasses.replace(made, gpus=None, gpus_reason="GPU 0003:00:00.0: it is lost")
    result = plan(sick, DESIRED)
    assert result.actions == () and "it is lost" in result.notes[0]


# gres.conf and features -------------------------------------------------------------------------------


def test_gres_conf_of_ndv4():
    lines = gres_text(BLANK, Desired(gres_type="auto")).splitlines()
    assert lines[0].startswith(MARKER) and lines[3] == "AutoDetect=off"
    assert lines[4:] == [
        "Name=gpu Type=a100 File=/dev/nvidia0 Cores=24-47",
        "Name=gpu Type=a100 File=/dev/nvidia1 Cores=24-47",
        "Name=gpu Type=a100 File=/dev/nvidia2 Cores=0-23",
        "Name=gpu Type=a100 File=/dev/nvidia3 Cores=0-23",
        "Name=gpu Type=a100 File=/dev/nvidia4 Cores=72-95",
        "Name=gpu Type=a100 File=/dev/nvidia5 Cores=72-95",
        "Name=gpu Type=a100 File=/dev/nvidia6 Cores=48-71",
        "Name=gpu Type=a100 File=/dev/nvidia7 Cores=48-71",
    ]


def test_a_gpu_without_a_known_numa_node_may_use_any_core():
    state = dataclasses.replace(BLANK, gpus=(SlurmGpu(0, (), None),))
    assert gres_text(state, DESIRED).splitlines()[-1] == "Name=gpu File=/dev/nvidia0"


@pytest.mark.parametrize(
    "product, expected",
    [
        (A100, ("a100", "a100-sxm4-40gb")),
        ("NVIDIA H100 80GB HBM3", ("h100", "h100_80gb_hbm3")),
        ("Tesla V100-SXM2-32GB", ("v100", "tesla_v100-sxm2-32gb")),
        ("NVIDIA GeForce RTX 4090", ("rtx4090", "geforce_rtx_4090")),
    ],
)
def test_features_name_the_product(product, expected):
    state = dataclasses.replace(BLANK, gpus=(SlurmGpu(0, (0,), product),))
    assert features(state) == ("gpu_node", "numa4", "gpus1", *expected)


# slurm.conf -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Prolog=/etc/slurm/prolog.d/*\nEpilog=/etc/slurm/epilog.d/*\n", REACHED),
        ("prolog = /etc/slurm/prolog.d/*  # ours\nPrologFlags=Alloc\nPrologSlurmctld=/x\n", Hooks(REACHED.prolog, ())),
        ("Prolog                  = (null)\nEpilog[0]   = /etc/slurm/epilog.d/*\n", Hooks((), REACHED.epilog)),
        ("#Prolog=/etc/slurm/prolog.d/*\n", Hooks()),
        ("Prolog=/a/one,/b/two\n", Hooks(("/a/one", "/b/two"), ())),
    ],
)
def test_prolog_and_epilog_are_read(text, expected):
    assert conf.hooks(text) == expected


def test_includes_are_followed_but_not_for_ever():
    files = {
        "/etc/slurm/slurm.conf": "Include site.conf\ninclude /etc/slurm/gone.conf\n",
        "/etc/slurm/site.conf": "Prolog=/etc/slurm/prolog.d/*\nInclude slurm.conf\n",
    }
    assert conf.hooks(conf.with_includes("/etc/slurm/slurm.conf", files.get)) == Hooks(REACHED.prolog, ())
    assert conf.with_includes("/nowhere", files.get) is None


@pytest.mark.parametrize(
    "pattern, expected",
    [
        ("/etc/slurm/prolog.d/*", True),
        ("/etc/slurm/prolog.d/*.sh", False),
        ("/etc/slurm/prolog.d/00-gpu_node", True),
        ("/etc/slurm/*", False),
        ("/etc/slurm/prolog.sh", False),
    ],
)
def test_whether_a_pattern_reaches_the_hook(pattern, expected):
    assert conf.reaches((pattern,), "/etc/slurm/prolog.d/00-gpu_node") is expected


def test_a_line_that_slurm_conf_lacks_is_told():
    result = plan(dataclasses.replace(BLANK, configured=Hooks(("/etc/slurm/prolog.d/*.sh",), REACHED.epilog)), DESIRED)
    told = [note for note in result.notes if "add the line" in note]
    assert len(told) == 1
    assert "add the line 'Prolog=/etc/slurm/prolog.d/*', then run 'scontrol reconfigure'" in told[0]


def test_what_slurm_has_not_read_yet_is_told():
    made = applied(BLANK, plan(BLANK, DESIRED))
    result = plan(dataclasses.replace(made, running=Hooks()), DESIRED)
    assert result.actions == ()
    assert len(result.notes) == 1
    assert result.notes[0].startswith("Slurm reads /etc/slurm/slurm.conf at 'scontrol reconfigure' or when slurmd")


# The hooks --------------------------------------------------------------------------------------------


def test_the_scripts_are_ours_and_call_the_node_command():
    for text, event in ((PROLOG, "prolog"), (EPILOG, "epilog")):
        assert Seen("file", text).ours and text.startswith("#!/bin/sh\n")
        assert text.rstrip().endswith("exec /usr/local/bin/gpunode hook " + event)


@pytest.mark.parametrize(
    "options, told",
    [
        ({"prolog_folder": "prolog.d"}, "no absolute path"),
        ({"prolog_folder": "/etc/slurm/pro log.d"}, "no absolute path"),
        ({"gres_file": "/etc/../gres.conf"}, "no absolute path"),
        ({"epilog_folder": "/etc/slurm/prolog.d/"}, "the folder of the prolog too"),
        ({"gres_type": "a 100"}, "no name for a type"),
        ({"hooks": slurm_files.Settings(grace_seconds=-1.0)}, "out of range"),
    ],
)
def test_wrong_options_are_one_sentence(options, told):
    with pytest.raises(NodeError, match=told):
        Desired(**options)
