# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's files: every state that the folders can be in, the text of gres.conf, and what slurm.conf is told to lack."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import managed_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import MARKER, Files, Seen
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files.plan import named
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.gres import decide
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.plan import (
    features,
    plan,
    unread,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.trusted import Trust
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.types import (
    EPILOG,
    PROLOG,
    GresConf,
    Reconfigure,
    Slurmd,
    SlurmGpu,
    State,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import hooks_conf, places, slurm_conf, syntax
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.hooks_conf import Hooks
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.layout import Machine, Slurm

A100 = "NVIDIA A100-SXM4-40GB"
# ND96asr_v4: GPUs 0 and 1 hang on NUMA node 1, cores 24 to 47, and so on (Azure's vector 1 1 0 0 3 3 2 2).
NDV4 = tuple(
    SlurmGpu(gpu, tuple(range(24 * node, 24 * node + 24)), A100) for gpu, node in enumerate((1, 1, 0, 0, 3, 3, 2, 2))
)
REACHED = Hooks(("/etc/slurm/prolog.d/*",), ("/etc/slurm/epilog.d/*",))
# Nothing in it is worth a note.
CONF = syntax.of("PrologFlags=Alloc\nSchedulerParameters=nohold_on_prolog_fail\n")
READ = GresConf("/etc/slurm/gres.conf")
BLANK = State(
    files=Files(missing_folders=("/etc/slurm/prolog.d", "/etc/slurm/epilog.d")),
    gpus=NDV4,
    numa_nodes=4,
    scontrol="/usr/bin/scontrol",
    slurm_conf="/etc/slurm/slurm.conf",
    configured=REACHED,
    running=REACHED,
    conf=CONF,
    node_name="gpu01",
    machine=Machine(cores=96, cpus=96, packages=2, numa_nodes=4, l3_groups=24),
    slurm=Slurm((22, 5), (22, 5)),
    gres_conf=READ,
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
    files = managed_files.after(state.files, result.actions)
    return dataclasses.replace(state, files=files, declared=declared, trust=Trust())


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
    lambda seen, declared, gpus, absent, read, slurm, trust: State(
        files=Files(tuple(zip(DESIRED.paths(), seen)), (), *named(declared)),
        declared=declared,
        gpus=gpus,
        absent=absent,
        configured=REACHED,
        gres_conf=read,
        slurm=slurm,
        trust=trust,
    ),
    st.lists(SEEN, min_size=5, max_size=5),
    st.sampled_from(
        [{}, {"made_folders": ["/etc/slurm/prolog.d"], "files": ["/etc/slurm/old", "/etc/slurm/gres.conf", 7]}]
    ),
    st.sampled_from([None, (), NDV4, (dataclasses.replace(NDV4[0], instances=()),)]),
    st.sampled_from([None, "there is no Slurm"]),
    st.sampled_from([GresConf(), READ, GresConf("/run/slurm/conf/gres.conf", True, syntax.of("Name=gpu File=/dev/x"))]),
    st.sampled_from([Slurm(), Slurm((24, 11), (24, 11)), Slurm((23, 11), None), Slurm((22, 5), (22, 5))]),
    st.sampled_from([Trust(), Trust((("/etc/slurm/prolog.d/00-gpu_node", "it belongs to user 7"),))]),
)


@given(STATES, st.sampled_from([DESIRED, ABSENT]))
def test_every_state_has_a_plan_that_ends_and_touches_nothing_foreign(state, desired):
    result = plan(state, desired)
    for action in result.actions:
        path = getattr(action, "path", None)
        assert not state.files.seen(path).foreign
    if not result.refusals:
        assert plan(applied(state, result), desired).actions == ()


def test_a_file_of_ours_that_no_declaration_remembers_goes_in_one_run():
    ours = holding(BLANK, "/etc/slurm/gres.conf", Seen("file", MARKER + " old\n", 0o644))
    state = dataclasses.replace(ours, gpus=(dataclasses.replace(NDV4[0], instances=()),))
    result = plan(state, DESIRED)
    assert "/etc/slurm/gres.conf" in [getattr(one, "path", None) for one in result.actions]
    assert plan(applied(state, result), DESIRED).actions == ()
    shared = dataclasses.replace(state, files=dataclasses.replace(state.files, shared=(DESIRED.gres_file,)))
    assert "remove " + DESIRED.gres_file not in described(plan(shared, DESIRED))  # other nodes read it


def written(**more):
    """A node with our gres.conf, written after its slurmd had begun to run."""
    made = applied(BLANK, plan(BLANK, DESIRED))
    return dataclasses.replace(made, slurmd=Slurmd(started=1000.0, changed=2000.0), **more)


def test_what_slurmd_has_not_read_is_ours_and_of_this_node():
    assert unread(written(), DESIRED) == (DESIRED.gres_file,)
    for slurmd in (Slurmd(3000.0, 0.0, 2000.0), Slurmd(1000.0, 3000.0, 2000.0), Slurmd(None, 0.0, 2000.0)):
        assert unread(dataclasses.replace(written(), slurmd=slurmd), DESIRED) == ()
    # The time of a file that nodes share is that of another clock.
    shared = dataclasses.replace(written().files, shared=(DESIRED.gres_file,))
    assert unread(written(files=shared), DESIRED) == ()


@pytest.mark.parametrize("gres, told", [("gpu:8", True), ("gpu:4", True), ("gpu:9", False), ("gpu:8,shard:2", False)])
def test_slurm_is_not_told_to_read_files_by_which_it_drains_the_node(gres, told):
    """The restart at the end of the run, which asks the same and more, says why."""
    node = slurm_conf.node(syntax.of("NodeName=gpu01 Gres=" + gres), "gpu01")
    state = written(slurm=dataclasses.replace(BLANK.slurm, node=node))
    result = plan(state, dataclasses.replace(DESIRED, reconfigure=True))
    assert [type(one) for one in result.actions] == ([Reconfigure] if told else [])
    assert unread(state, DESIRED, result.actions) == (() if told else (DESIRED.gres_file,))
    assert plan(state, DESIRED).actions == ()


def test_a_script_of_somebody_else_stops_it():
    state = holding(BLANK, "/etc/slurm/prolog.d/00-gpu_node", Seen("file", "#!/bin/sh\n", 0o755))
    result = plan(state, DESIRED)
    assert not result.actions and "not ours" in str(result.refusals[0])


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
    text = decide(BLANK, Desired(gres_type="auto")).wanted.text
    lines = text.splitlines()
    assert lines[0].startswith(MARKER) and "NUMA node" in lines[1] and lines[3] == "AutoDetect=off"
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
    assert decide(state, DESIRED).wanted.text.splitlines()[-1] == "Name=gpu File=/dev/nvidia0"


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
        ('Prolog="/etc/slurm/prolog.d/*"\nEpilog = "/etc/slurm/epilog.d/*" # ours\n', REACHED),
        ("Prolog=/etc/slurm/\\\nprolog.d/*\n", Hooks(REACHED.prolog, ())),
        ("Epilog[0] = /a/one\nEpilog[1] = /b/two\n", Hooks((), ("/a/one", "/b/two"))),
        ("NodeName=x Prolog=/etc/slurm/prolog.d/*\n", Hooks()),
    ],
)
def test_prolog_and_epilog_are_read(text, expected):
    assert hooks_conf.hooks(syntax.of(text)) == expected


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
    assert hooks_conf.reaches((pattern,), "/etc/slurm/prolog.d/00-gpu_node") is expected


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
        assert "\n/usr/local/bin/gpunode hook {0}\n".format(event) in text


@pytest.mark.parametrize(
    "options, told",
    [
        ({"prolog_folder": "prolog.d"}, "no absolute path"),
        ({"prolog_folder": "/etc/slurm/pro log.d"}, "no absolute path"),
        ({"gres_file": "/etc/../gres.conf"}, "no absolute path"),
        ({"epilog_folder": "/etc/slurm/prolog.d/"}, "the folder of the prolog too"),
        ({"gres_type": "a 100"}, "no name for a type"),
        ({"grace_seconds": -1.0}, "out of range"),
    ],
)
def test_wrong_options_are_one_sentence(options, told):
    with pytest.raises(NodeError, match=told):
        Desired(**options)


@pytest.mark.parametrize("folder", ["/opt/slurm/sbin", "/usr/local/slurm/sbin", "/usr/sbin"])
def test_a_slurm_that_the_hooks_find_is_found_by_the_role(tmp_path, folder):
    program = tmp_path / folder.lstrip("/") / "slurmd"
    program.parent.mkdir(parents=True)
    program.write_text("")
    program.chmod(0o755)
    assert places.program(Host(str(tmp_path)), "slurmd") == folder + "/slurmd"
