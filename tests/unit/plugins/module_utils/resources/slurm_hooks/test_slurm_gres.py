# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of gres.conf: ours, somebody else's, one that slurmctld hands out, and GPUs in MIG mode."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import MARKER, Files, Seen
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks import gres
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.gres import configured, decide
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.types import (
    GresConf,
    InstanceFiles,
    SlurmGpu,
    State,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import gres_compare as compare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import gres_conf, slurm_conf, syntax
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.gres_compare import Line
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.hooks_conf import Hooks
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.layout import (
    Machine,
    Slurm,
    Sockets,
)

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


CYCLECLOUD = dataclasses.replace(STATE.conf, included=("/etc/slurm/azure.conf",))
# What azslurm writes for each node array (cyclecloud-slurm, cli.py: _generate_gres_conf).
AZSLURM = "Nodename=gpu[01-99] Name=gpu Count={0} File=/dev/nvidia[0-{1}]\n"


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_gres_conf_of_cyclecloud_that_fits_is_left_without_a_word(kind):
    found = decide(found_there(AZSLURM.format(4, 3), CLOUD, kind), Desired())
    assert found.wanted is None and not found.notes and not found.differences
    assert found.lines[0] == "NodeName=gpu01 Name=gpu File=/dev/nvidia0 Cores=0-3"


def test_one_that_does_not_fit_is_told_with_a_remedy_that_lasts():
    state = dataclasses.replace(found_there(AZSLURM.format(8, 7), CLOUD), conf=CYCLECLOUD)
    found = decide(state, Desired())
    assert found.differences == (
        "it lists /dev/nvidia4, /dev/nvidia5, /dev/nvidia6, /dev/nvidia7, which this machine does not have, and slurmd "
        "does not start then",
    )
    (note,) = found.notes
    assert note.startswith("/etc/slurm/gres.conf, which is not ours and stays as it is, does not fit this machine: it ")
    assert note.endswith(
        "; 'azslurm scale' writes it anew: set slurm.gpu_device_config of the node array, its File=, to "
        "/dev/nvidia0,/dev/nvidia1,/dev/nvidia2,/dev/nvidia3, let the resource slurm_gpus, its Count=, be 4, and run "
        "that; then run 'scontrol reconfigure'"
    )
    assert not any(getattr(action, "path", None) == PATH for action in plan(state, Desired()).actions)
    assert not any("Include" in one for one in plan(state, Desired()).notes)


def test_of_mig_azslurm_is_said_to_know_nothing_and_another_cloud_is_told_nothing_of_azslurm():
    state = dataclasses.replace(found_there(AZSLURM.format(4, 3), CLOUD), gpus=MIG.gpus)
    (note,) = decide(dataclasses.replace(state, conf=CYCLECLOUD), Desired()).notes
    assert "'azslurm scale' writes it anew and knows neither MIG instances nor shards, so do without them in " in note
    assert "MultipleFiles=" in note and "their Gres= into azure.conf by hand" in note
    assert "gpu_device_config" not in note
    (note,) = decide(state, Desired()).notes
    assert "azslurm" not in note and "change it where it is made, to 'NodeName=gpu01 Name=gpu Type=" in note


def test_of_a_node_that_is_no_cloud_the_lines_are_replaced_or_the_file_moved_away():
    (note,) = decide(found_there("Name=gpu File=/dev/nvidia[0-2]", kind="file"), Desired()).notes
    assert "it does not list /dev/nvidia3, which no job gets; in place of its lines about this node put 'Node" in note
    assert "or move it away and run this again" in note


@pytest.mark.parametrize("own", [False, True])
def test_nodes_that_share_a_folder_are_not_overwritten_by_each_other(own):
    """Lines without NodeName= count for every node that reads the file."""
    features = Desired().features_file
    text = MARKER + "\nName=gpu File=/dev/nvidia[0-1]\n"  # what another node wrote, of two GPUs
    read = dataclasses.replace(STATE.gres_conf, text=syntax.of(text) if own else None)
    found = ((PATH, Seen("file", text, 0o644)), (features, Seen("file", MARKER + "\ngpus2\n", 0o644)))
    state = dataclasses.replace(STATE, files=Files(found if own else (), shared=(PATH, features)), gres_conf=read)
    result = plan(state, Desired())
    assert not {PATH, features} & {getattr(action, "path", None) for action in result.actions}
    note, other = result.notes[:2]
    assert note.startswith(
        "/etc/slurm/gres.conf, which nodes share, so that lines of ours without NodeName= would count for all of them "
        "and are not written, does not fit this machine: it "
    )
    assert "put 'NodeName=gpu01 Name=gpu File=/dev/nvidia0 Cores=0-3'; 'NodeName=gpu01 " in note
    assert note.endswith("then run 'scontrol reconfigure'")
    assert other.startswith(features + ": nodes share that folder") and "put Feature=gpu_node,numa" in other
    # Lines that name the node are what it waits for, and then it says nothing more of them.
    good = "\n".join(decide(state, Desired()).lines)
    state = dataclasses.replace(state, gres_conf=dataclasses.replace(read, text=syntax.of(good)))
    assert decide(state, Desired()).differences == () and len(plan(state, Desired(features_file="")).notes) == 0


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


def test_a_gres_conf_elsewhere_that_does_not_exist_is_told_as_that():
    """Slurm in /opt/slurm: the default path of our file is one that slurmd does not read."""
    state = dataclasses.replace(STATE, gres_conf=GresConf("/opt/slurm/etc/gres.conf"))
    found = decide(state, Desired())
    (note,) = found.notes
    assert note.startswith(
        "slurmd reads /opt/slurm/etc/gres.conf, which does not exist: set slurm_hooks_gres_file: "
        "/opt/slurm/etc/gres.conf, or write 'NodeName=gpu01 Name=gpu "
    )
    assert note.endswith("; then run 'scontrol reconfigure'") and "not ours" not in note
    assert found.wanted is None
    after = decide(state, Desired(gres_file="/opt/slurm/etc/gres.conf"))
    assert after.wanted.path == "/opt/slurm/etc/gres.conf" and not after.notes
    theirs = dataclasses.replace(state, gres_conf=GresConf("/opt/slurm/etc/gres.conf", False, syntax.of("")))
    assert "which is not ours and stays as it is" in decide(theirs, Desired()).notes[0]


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


CAP = "/dev/nvidia-caps/nvidia-cap{0}"
# GPU 0 as two 3g.20gb, the second with two compute instances.
DIVIDED = (
    InstanceFiles("3g.20gb", (CAP.format(12), CAP.format(13))),
    InstanceFiles("1c.3g.20gb", (CAP.format(21), CAP.format(22))),
    InstanceFiles("2c.3g.20gb", (CAP.format(21), CAP.format(23))),
)
MIG = dataclasses.replace(STATE, gpus=(dataclasses.replace(GPUS[0], instances=DIVIDED), *GPUS[1:]))


def test_each_mig_instance_has_a_line_with_its_type_and_so_has_each_gpu_beside_it():
    text = decide(MIG, Desired()).wanted.text
    assert [line for line in text.splitlines() if line.startswith("Name")] == [
        "Name=gpu Type=a100_3g.20gb MultipleFiles=/dev/nvidia0,{0},{1} Cores=0-3".format(
            CAP.format(12), CAP.format(13)
        ),
        "Name=gpu Type=a100_1c.3g.20gb MultipleFiles=/dev/nvidia0,{0},{1} Cores=0-3".format(
            CAP.format(21), CAP.format(22)
        ),
        "Name=gpu Type=a100_2c.3g.20gb MultipleFiles=/dev/nvidia0,{0},{1} Cores=0-3".format(
            CAP.format(21), CAP.format(23)
        ),
        "Name=gpu Type=a100 File=/dev/nvidia1 Cores=4-7",
        "Name=gpu Type=a100 File=/dev/nvidia2 Cores=8-11",
        "Name=gpu Type=a100 File=/dev/nvidia3 Cores=12-15",
    ]
    assert "Type=big_3g.20gb " in decide(MIG, Desired(gres_type="big")).wanted.text
    media = (InstanceFiles("1g.5gb+me", (CAP.format(12), CAP.format(13))),)
    alone = dataclasses.replace(MIG, gpus=(dataclasses.replace(GPUS[0], instances=media, product=None),))
    assert "Name=gpu Type=1g.5gb.me MultipleFiles=" in decide(alone, Desired()).wanted.text
    empty = dataclasses.replace(MIG, gpus=(dataclasses.replace(GPUS[0], instances=()),))
    assert "Name=" not in decide(empty, Desired()).wanted.text


def test_what_we_write_of_mig_is_read_back_alike():
    text = decide(MIG, Desired()).wanted.text
    read = gres_conf.gpus(syntax.of(text), "gpu01")
    assert (
        compare.differences(gres._lines(MIG, Desired(), gres._choice(MIG, Desired())), read, None, ["/dev/nvidia0"])
        == ()
    )
    positions = gres_conf.devices(read, "gpu:a100:3,gpu:a100_3g.20gb:1").positions
    assert positions == (
        ("/dev/nvidia1",), ("/dev/nvidia2",), ("/dev/nvidia3",), ("/dev/nvidia0", CAP.format(12), CAP.format(13))
    )  # fmt: skip


def test_a_slurmd_without_mig_gets_no_lines_and_ours_of_before_goes():
    old = dataclasses.replace(MIG, slurm=dataclasses.replace(STATE.slurm, slurmd=(20, 11)))
    found = decide(old, Desired())
    assert found.wanted is None and found.take_away and "upgrade it to 21.08 or newer" in found.notes[0]
    ours = dataclasses.replace(
        old,
        files=Files(found=((PATH, Seen("file", MARKER + "\n", 0o644)),), former=(PATH,)),
        declared={"files": [PATH]},
    )
    assert "remove " + PATH in [action.describe() for action in plan(ours, Desired()).actions]
    assert decide(dataclasses.replace(MIG, slurm=Slurm((21, 8), (21, 8), NODE)), Desired()).wanted is not None


@pytest.mark.parametrize(
    "slurmd, types, refused",
    [
        ((22, 5), "gpu,shard", True),
        ((23, 2), "GPU,MPS", True),
        ((22, 5), "gpu", False),
        ((23, 11), "gpu,shard", False),
        (None, "gpu,shard", False),
    ],
)
def test_a_plugin_that_shares_gpus_takes_instances_apart_in_an_older_slurmd(slurmd, types, refused):
    """Seen with 22.05.8: gres/shard splits each MultipleFiles= line, whether a node has shards or not."""
    slurm = dataclasses.replace(STATE.slurm, slurmd=slurmd)
    state = dataclasses.replace(MIG, slurm=slurm, conf=syntax.of("GresTypes={0}\n".format(types)))
    found = decide(state, Desired())
    assert (found.wanted is None) == found.take_away == refused
    assert any("takes each device file of a MIG instance for a GPU" in note for note in found.notes) == refused
    assert not (refused and configured(state, Desired()))
    whole = dataclasses.replace(state, gpus=GPUS)
    assert decide(whole, Desired()).wanted is not None


def test_a_foreign_file_is_compared_instance_by_instance():
    def told(text):
        return decide(dataclasses.replace(found_there(text, CLOUD), gpus=MIG.gpus), Desired()).differences

    whole, missing = told(AZSLURM.format(4, 3))[:2]
    assert whole == "it lists /dev/nvidia0 as whole GPUs, and MIG is on there"
    assert missing.startswith("it does not list /dev/nvidia0+{0}+{1}, ".format(CAP.format(12), CAP.format(13)))
    right = decide(MIG, Desired()).wanted.text
    assert told(right) == ()
    other = right.replace("nvidia-cap13", "nvidia-cap14")
    assert told(other)[0].startswith("it lists /dev/nvidia0+{0}+{1}, which".format(CAP.format(12), CAP.format(14)))
    assert "it does not list /dev/nvidia0+{0}+{1}, which no".format(CAP.format(12), CAP.format(13)) in told(other)[1]
    assert told("AutoDetect=nvml\n") == ()
    off = decide(found_there("Name=gpu MultipleFiles=/dev/nvidia0,{0},{1}\n".format(*DIVIDED[0].files)), Desired())
    assert off.differences[0] == "it lists MultipleFiles, the devices of a MIG instance, and MIG is off"


def test_shards_are_of_whole_gpus():
    shared = Desired(shards_per_gpu=4)
    assert decide(STATE, shared).wanted.text.splitlines()[-4:] == [
        "Name=shard Count=4 File=/dev/nvidia{0}".format(gpu) for gpu in range(4)
    ]
    lines = decide(MIG, shared).wanted.text.splitlines()
    assert [line for line in lines if "shard" in line] == [
        "Name=shard Count=4 File=/dev/nvidia{0}".format(gpu) for gpu in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    "slurmd, state, shards, told",
    [
        ((21, 8), STATE, 0, "upgrade it to 22.05"),
        ((22, 5), STATE, 4, None),
        ((22, 5), MIG, 0, "upgrade it to 23.11"),
        ((23, 2), MIG, 0, "upgrade it to 23.11"),
        ((23, 11), MIG, 4, None),
    ],
)
def test_a_slurmd_that_shards_would_mislead_gets_none(slurmd, state, shards, told):
    slurm = Slurm(slurmd, slurmd, NODE, frozenset(), "select/cons_tres")
    found = decide(dataclasses.replace(state, slurm=slurm), Desired(shards_per_gpu=4))
    assert found.wanted.text.count("Name=shard") == (0 if not shards else 4 if state is STATE else 3)
    assert [note for note in found.notes if "upgrade" in note] == [
        note for note in found.notes if told and told in note
    ]
    assert bool(told) == any("upgrade" in note for note in found.notes)


@pytest.mark.parametrize(
    "state, shards, gres, told",
    [
        (STATE, 0, "gpu:2", None),  # whole GPUs may be kept from jobs
        (MIG, 0, "gpu:a100_3g.20gb:1,gpu:a100_1c.3g.20gb:1,gpu:a100_2c.3g.20gb:1,gpu:a100:3", None),
        (MIG, 0, "gpu:A100:3,gpu:a100_3g.20gb:1,gpu:a100_2c.3g.20gb:1,gpu:a100_1c.3g.20gb:1", None),
        (MIG, 0, "gpu:6", None),
        (MIG, 0, "gpu:4", "has Gres=gpu:4 for gpu01, which is Gres=gpu:a100_3g.20gb:1,gpu:a100_1c.3g.20gb:1,"),
        (MIG, 0, "", "has Gres=(none) for gpu01"),
        (STATE, 4, "gpu:4", "which is Gres=gpu:4,shard:16: write that there"),
        (STATE, 4, "gpu:4,shard:16", None),
    ],
)
def test_gres_of_slurm_conf_has_to_be_what_is_there(state, shards, gres, told):
    slurm = dataclasses.replace(STATE.slurm, node=dataclasses.replace(NODE, gres=gres), select="select/cons_tres")
    conf = syntax.of("GresTypes=gpu,shard\n")
    found = configured(dataclasses.replace(state, slurm=slurm, conf=conf), Desired(shards_per_gpu=shards))
    assert bool(found) == bool(told) and (not told or told in found[0])


def test_what_else_slurm_conf_needs_is_told():
    slurm = dataclasses.replace(STATE.slurm, node=None, select="select/linear")
    conf = syntax.of("GresTypes=gpu\n")
    shared = configured(dataclasses.replace(STATE, slurm=slurm, conf=conf), Desired(shards_per_gpu=2))
    assert "has no shard in GresTypes=" in shared[0] and "no SelectType=select/cons_tres" in shared[1]
    mig = dataclasses.replace(MIG, slurm=slurm, conf=conf, constrains_devices=False)
    (open_to_all,) = configured(mig, Desired())
    assert "a job can open all MIG instances and takes the first one" in open_to_all
    assert configured(dataclasses.replace(mig, constrains_devices=True), Desired()) == ()
    assert configured(mig, Desired(gres_file="")) == ()


@pytest.mark.parametrize(
    "slurmd, select, told",
    [
        ((22, 5), "", True),
        ((23, 2), "", True),
        ((23, 11), "", False),
        ((24, 11), "select/linear", True),
        ((22, 5), "select/cons_tres", False),
    ],
)
def test_a_default_of_a_newer_slurm_is_no_lack(slurmd, select, told):
    slurm = dataclasses.replace(STATE.slurm, node=None, select=select, slurmd=slurmd)
    state = dataclasses.replace(STATE, slurm=slurm, conf=syntax.of("GresTypes=gpu,shard\n"))
    assert any("SelectType" in note for note in configured(state, Desired(shards_per_gpu=2))) == told


def test_types_of_a_file_that_is_not_ours_are_theirs():
    """A gres.conf of a site, or AutoDetect=nvml, names instances in its own way."""
    node = dataclasses.replace(NODE, gres="gpu:3g.20gb:1,gpu:other:5")
    conf = syntax.of("GresTypes=gpu\n")
    state = dataclasses.replace(
        found_there("AutoDetect=nvml\n"), gpus=MIG.gpus, conf=conf, slurm=dataclasses.replace(STATE.slurm, node=node)
    )
    assert not any("which is Gres=" in note for note in configured(state, Desired()))
    assert any(
        "which is Gres=" in note
        for note in configured(dataclasses.replace(MIG, conf=conf, slurm=state.slurm), Desired())
    )


def test_a_foreign_file_without_shards_is_told():
    state = found_there("".join("Name=gpu File=/dev/nvidia{0}\n".format(gpu) for gpu in range(4)))
    assert decide(state, Desired(shards_per_gpu=2)).differences == ("it has no line with Name=shard",)
    assert "'NodeName=gpu01 Name=shard Count=2 File=/dev/nvidia3'" in decide(state, Desired(shards_per_gpu=2)).notes[0]
    some = found_there("Name=gpu File=/dev/nvidia[0-3]\nName=shard Count=8\n")
    assert decide(some, Desired(shards_per_gpu=2)).differences == ()


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
