# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of gres.conf: ours, somebody else's, one that slurmctld hands out, and GPUs in MIG mode."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import MARKER, Files, Seen
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks import compare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.compare import Line
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.gres import decide
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.layout import (
    Machine,
    Slurm,
    Sockets,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.types import (
    GresConf,
    SlurmGpu,
    State,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import gres_conf, slurm_conf, syntax
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.hooks_conf import Hooks

PATH, OWN = "/etc/slurm/gres.conf", "/etc/slurm/gpu_node_gres.conf"
GPUS = tuple(SlurmGpu(gpu, tuple(range(4 * gpu, 4 * gpu + 4)), "NVIDIA A100") for gpu in range(4))
NODE = slurm_conf.node(syntax.of("NodeName=gpu01 CPUs=16 Gres=gpu:4"), "gpu01")
CLOUD = dataclasses.replace(NODE, state="CLOUD")
STATE = State(
    gpus=GPUS,
    slurm_conf="/etc/slurm/slurm.conf",
    configured=Hooks(("/etc/slurm/prolog.d/*",), ("/etc/slurm/epilog.d/*",)),
    conf=syntax.of("PrologFlags=Alloc\nSchedulerParameters=nohold_on_prolog_fail"),
    node_name="gpu01",
    machine=Machine(16, 16, 2, 4, 0),
    slurm=Slurm((24, 11), (24, 11), NODE),
    gres_conf=GresConf(PATH),
)
LINES = tuple(Line(gpu.file, None, gpu.cores) for gpu in GPUS)


def found_there(text, node=NODE, kind="link", configless=False, includes=()):
    """The node with a gres.conf of somebody else."""
    path = "/run/slurm/conf/gres.conf" if configless else PATH
    files = Files() if configless else Files(found=((PATH, Seen(kind, text)),))
    parsed = dataclasses.replace(syntax.of(text), included=tuple(includes))
    read = GresConf(path, configless, parsed)
    return dataclasses.replace(STATE, files=files, gres_conf=read, slurm=dataclasses.replace(STATE.slurm, node=node))


# What azslurm writes for each node array (cyclecloud-slurm, cli.py: _generate_gres_conf).
AZSLURM = "Nodename=gpu[01-99] Name=gpu Count={0} File=/dev/nvidia[0-{1}]\n"


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_gres_conf_of_cyclecloud_that_fits_is_left_without_a_word(kind):
    found = decide(found_there(AZSLURM.format(4, 3), CLOUD, kind), Desired())
    assert found.wanted is None and not found.notes and not found.differences
    assert found.lines[0] == "NodeName=gpu01 Name=gpu File=/dev/nvidia0 Cores=0-3"


def test_one_that_does_not_fit_is_told_with_a_remedy_that_lasts():
    state = found_there(AZSLURM.format(8, 7), CLOUD)
    found = decide(state, Desired())
    assert found.differences == (
        "it lists /dev/nvidia4, /dev/nvidia5, /dev/nvidia6, /dev/nvidia7, which this machine does not have, and slurmd "
        "does not start then",
    )
    (note,) = found.notes
    assert note.startswith("/etc/slurm/gres.conf, which is not ours and stays as it is, does not fit this machine: it ")
    assert "as 'azslurm scale' writes it anew (File= is slurm.gpu_device_config of the node array)" in note
    assert note.endswith("'NodeName=gpu01 Name=gpu File=/dev/nvidia3 Cores=12-15'; then run 'scontrol reconfigure'")
    assert not any(getattr(action, "path", None) == PATH for action in plan(state, Desired()).actions)
    assert not any("Include" in one for one in plan(state, Desired()).notes)


def test_of_a_node_that_is_no_cloud_the_lines_are_replaced_or_the_file_moved_away():
    (note,) = decide(found_there("Name=gpu File=/dev/nvidia[0-2]", kind="file"), Desired()).notes
    assert "it does not list /dev/nvidia3, which no job gets; in place of its lines about this node put 'Node" in note
    assert "or move it away and run this again" in note


def test_a_configless_node_gets_no_file_that_nobody_reads():
    state = found_there("Name=gpu File=/dev/nvidia[0-3] Cores=0-3", configless=True)
    found = decide(state, Desired())
    assert found.wanted is None and len(found.differences) == 3
    assert found.notes[0].startswith("/run/slurm/conf/gres.conf, which slurmctld hands out (configless), does not fit")
    assert "; beside slurm.conf on the host of slurmctld put 'NodeName=gpu01 Name=gpu " in found.notes[0]
    # One that an earlier version wrote goes; the cache itself is never written, whatever is asked.
    ours = dataclasses.replace(
        state,
        files=Files(found=((PATH, Seen("file", MARKER + "\n", 0o644)),), former=(PATH,)),
        declared={"files": [PATH]},
    )
    assert "remove " + PATH in [action.describe() for action in plan(ours, Desired()).actions]
    assert decide(state, Desired(gres_file="/run/slurm/conf/gres.conf")).wanted is None
    nothing = dataclasses.replace(state, gres_conf=GresConf("/run/slurm/conf/gres.conf", True))
    assert decide(nothing, Desired()).differences == ("it has no line about the GPUs of this node",)


def test_a_file_of_another_name_is_written_and_told_when_nobody_reads_it():
    (note,) = decide(STATE, Desired(gres_file=OWN)).notes
    assert "Slurm reads /etc/slurm/gres.conf, and nothing in that includes " + OWN in note
    included = found_there("", kind="file", includes=(OWN,))
    assert decide(included, Desired(gres_file=OWN)).wanted.path == OWN
    assert decide(included, Desired(gres_file=OWN)).notes == ()


def test_an_include_of_our_file_on_a_cloud_is_told_to_end_slurmctld():
    (note,) = decide(found_there("", CLOUD, includes=(OWN,)), Desired(gres_file=OWN)).notes
    assert "slurmctld itself reads gres.conf for CLOUD nodes" in note and "take the Include out" in note


def test_the_note_about_the_cores_goes_with_the_file():
    whole = dataclasses.replace(STATE, slurm=Slurm((24, 11), (24, 11), dataclasses.replace(NODE, sockets=2, cores=8)))
    found = decide(whole, Desired())
    assert (
        "Name=gpu File=/dev/nvidia0 Cores=0-7\n" in found.wanted.text
        and "# Cores: those of the whole" in found.wanted.text
    )
    assert found.notes[0].startswith("gres.conf: Cores name the whole socket of each GPU")
    assert "Cores" not in decide(whole, Desired(gres_cores="none")).wanted.text.replace("# No Cores", "")


def test_while_slurmctld_is_away_an_older_file_is_not_rewritten():
    node = dataclasses.replace(NODE, sockets=2, cores=8)
    old = dataclasses.replace(STATE, slurm=Slurm((23, 11), (23, 11), node))
    text = decide(old, Desired()).wanted.text
    away = dataclasses.replace(old, slurm=Slurm((23, 11), None, node))
    assert decide(away, Desired()).wanted.text != text
    there = dataclasses.replace(away, files=Files(found=((PATH, Seen("file", text, 0o644)),)))
    assert decide(there, Desired()).wanted.text == text


def test_with_mig_on_no_whole_gpu_is_listed():
    mig = dataclasses.replace(STATE, gpus=(dataclasses.replace(GPUS[0], mig=True), *GPUS[1:]))
    found = decide(mig, Desired())
    assert found.wanted is None and "MIG is on at /dev/nvidia0, and a line about the whole GPU would" in found.notes[0]
    ours = dataclasses.replace(
        mig,
        files=Files(found=((PATH, Seen("file", MARKER + "\n", 0o644)),), former=(PATH,)),
        declared={"files": [PATH]},
    )
    assert "remove " + PATH in [action.describe() for action in plan(ours, Desired()).actions]
    theirs = dataclasses.replace(found_there(AZSLURM.format(4, 3), CLOUD), gpus=mig.gpus)
    assert decide(theirs, Desired()).differences == ("it lists /dev/nvidia0 as whole GPUs, and MIG is on there",)
    assert "which is not ours, lists /dev/nvidia0 so" in decide(theirs, Desired()).notes[0]
    instances = found_there("Name=gpu Type=1g.5gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap12")
    assert decide(dataclasses.replace(instances, gpus=mig.gpus), Desired()).differences == ()


@pytest.mark.parametrize(
    "text, told",
    [
        ("Name=gpu File=/dev/nvidia[0-3]", []),
        ("AutoDetect=nvml", []),
        ("AutoDetect=nvml\nName=gpu Type=a100 Count=4", []),
        ("", ["it has no line about the GPUs of this node"]),
        ("NodeName=gpu02 Name=gpu File=/dev/nvidia[0-3]", ["it has no line about the GPUs of this node"]),
        ("Name=gpu File=/dev/nvidia[0-3] Count=8", ["Count=8 beside 4 device files, at which slurmd ends"]),
        ("Name=gpu File=/dev/nvidia[0-", ["a File= in it is no list of names, at which slurmd ends"]),
        (
            "Name=gpu File=/dev/nvidia[0-3] Coores=1",
            ["the line 'Name=gpu File=/dev/nvidia[0-3] Coores=1' is not one that Slurm reads"],
        ),
        (
            "Name=gpu File=/dev/nvidia[0-2]\nName=gpu File=/dev/nvidia3 Cores=8-15",
            ["/dev/nvidia3 has Cores=8-15, and its own are 12-15"],
        ),
    ],
)
def test_differences(text, told):
    theirs = gres_conf.gpus(syntax.of(text), "gpu01")
    assert list(compare.differences(LINES, theirs)) == told


def test_part_of_a_socket_is_told_only_where_slurmctld_minds():
    theirs = gres_conf.gpus(syntax.of("Name=gpu File=/dev/nvidia[0-3] Cores=0-3"), "gpu01")
    told = compare.differences(LINES, theirs, Sockets(2, 8))
    assert len(told) == 4 and "part of a socket of 8 cores" in told[0] and "INVALID_REG" in told[0]
    assert len(compare.differences(LINES, theirs)) == 3


def test_types_are_compared_where_one_is_wanted():
    typed = tuple(dataclasses.replace(line, type="a100") for line in LINES)
    theirs = gres_conf.gpus(syntax.of("Name=gpu Type=v100 File=/dev/nvidia[0-3]"), "gpu01")
    assert compare.differences(typed, theirs) == ("it has Type=v100 where slurm_hooks_gres_type is a100",)
    assert compare.differences(LINES, theirs) == ()


def test_lines_for_a_shared_file_join_neighbours_that_agree():
    near = (Line("/dev/nvidia0", "a", (0, 1)), Line("/dev/nvidia1", "a", (0, 1)), Line("/dev/nvidia2", "a", (2,)))
    assert compare.lines(near, "n1") == (
        "NodeName=n1 Name=gpu Type=a File=/dev/nvidia0,/dev/nvidia1 Cores=0-1",
        "NodeName=n1 Name=gpu Type=a File=/dev/nvidia2 Cores=2",
    )
    assert len(compare.lines(near)) == 3
