# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of slurm.conf about a node, single options, and where slurmd has its files."""

from __future__ import annotations

import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import places, slurm_conf, syntax
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.slurm_conf import Node

CONF = syntax.of(
    """
nodename=DEFAULT CPUs=4 State=UNKNOWN
NodeName=login State=IDLE
NodeName=DEFAULT CPUs=96 Gres=gpu:8 # for those below
Nodename=hpc-[1-100] Feature=cloud STATE=CLOUD ThreadsPerCore=2 RealMemory=900000
NodeName=gpu[01-02] NodeHostname=host[7-8] Sockets=2 CoresPerSocket=24 ThreadsPerCore=2 Gres="gpu:a100:4,gpu:v100:4"
NodeName=odd CPUs=7 CoresPerSocket=4
SchedulerParameters=a,No_Hold
SchedulerParameters=nohold_on_prolog_fail,x=1
SuspendTime=300
SuspendProgram=/opt/suspend
"""
)


@pytest.mark.parametrize(
    "name, expected",
    [
        ("login", Node(4, 4, 1, 1, "", "IDLE")),
        ("hpc-100", Node(96, 48, 1, 2, "gpu:8", "CLOUD")),
        ("gpu02", Node(96, 2, 24, 2, "gpu:a100:4,gpu:v100:4", "UNKNOWN")),
        ("odd", Node(4, 1, 4, 1, "gpu:8", "UNKNOWN")),  # CPUs that match nothing are set anew
        ("hpc-101", None),
    ],
)
def test_the_line_of_a_node_is_completed_as_slurm_does_it(name, expected):
    assert slurm_conf.node(CONF, name) == expected
    assert expected is None or expected.cloud == (name == "hpc-100")


def test_the_name_of_a_node_by_that_of_its_host():
    assert [slurm_conf.node_name(CONF, name) for name in ("host8", "login", "gpu01", "x")] == [
        "gpu02",
        "login",
        None,
        None,
    ]


def test_the_last_value_of_an_option_holds_and_scontrol_tells_the_same():
    assert slurm_conf.words(CONF, "SchedulerParameters") == {"nohold_on_prolog_fail", "x=1"}
    running = syntax.of(
        "PrologFlags      = Alloc,Contain\nSuspendTime = INFINITE\nSlurmUser = slurm(64030)\nSuspendProgram = (null)"
    )
    assert slurm_conf.words(running, "PrologFlags") == {"alloc", "contain"}
    assert slurm_conf.option(running, "slurmuser") == "slurm(64030)"
    assert slurm_conf.power_saving(CONF, "gpu01") == 300 and slurm_conf.power_saving(running, "gpu01") is None
    assert slurm_conf.power_saving(syntax.of("SuspendTime = 300 sec\nSuspendProgram = /x"), "gpu01") == 300


@pytest.mark.parametrize(
    "lines, seconds",
    [
        ("PartitionName=gpu Nodes=gpu[01-04] SuspendTime=300", 300),
        ("PartitionName=all Nodes=ALL SuspendTime=300", 300),
        ("NodeSet=a Nodes=gpu01\nPartitionName=gpu Nodes=a SuspendTime=300", 300),
        ("NodeName=gpu01 Features=x,h100\nNodeSet=h Feature=h100\nPartitionName=gpu Nodes=h SuspendTime=300", 300),
        ("PartitionName=DEFAULT Nodes=gpu01\nPartitionName=gpu SuspendTime=300", 300),
        ("SuspendTime=60\nPartitionName=a Nodes=ALL SuspendTime=300\nPartitionName=b Nodes=gpu01 SuspendTime=900", 900),
        ("SuspendTime=60\nNodeName=gpu01 SuspendTime=120\nPartitionName=a Nodes=ALL SuspendTime=300", 120),
        ("SuspendTime=60\nPartitionName=gpu Nodes=gpu01", 60),
        # The time is that of other nodes, or means never.
        ("PartitionName=cpu Nodes=cpu[01-04] SuspendTime=300", None),
        ("NodeSet=c Feature=cpu\nPartitionName=cpu Nodes=c SuspendTime=300", None),
        ("SuspendTime=60\nPartitionName=gpu Nodes=ALL SuspendTime=INFINITE", None),
        ("PartitionName=DEFAULT SuspendTime=300\nPartitionName=gpu Nodes=ALL", None),
    ],
)
def test_the_suspend_time_of_a_node(lines, seconds):
    assert slurm_conf.power_saving(syntax.of("SuspendProgram=/x\n" + lines), "gpu01") == seconds
    assert slurm_conf.power_saving(syntax.of(lines), "gpu01") is None


def test_an_include_can_contain_the_name_of_the_cluster():
    files = {
        "/e/slurm.conf": "ClusterName=Hpc1\nInclude nodes-%c.conf\n",
        "/e/nodes-hpc1.conf": "NodeName=gpu01\n",
        "/e/late.conf": "Include nodes-%c.conf\nClusterName=hpc1\n",
    }
    assert syntax.read("/e/slurm.conf", files.get).lines == ("ClusterName=Hpc1", "NodeName=gpu01")
    late = syntax.read("/e/late.conf", files.get)
    assert (late.lines, late.missing) == (("ClusterName=hpc1",), ("/e/nodes-%c.conf",))


@pytest.mark.parametrize(
    "words, expected",
    [
        ("", (None, False, None, False)),
        ("-D -s -N hpc-1", (None, False, "hpc-1", False)),
        ("-Ngpu01 -f /x/slurm.conf", ("/x/slurm.conf", False, "gpu01", False)),
        ("--conf-server ctl:6817 -b", (None, True, None, False)),
        ("--conf-server=ctl:6817 -N gpu03", (None, True, "gpu03", False)),
        ("-Z --conf -Nothing -N gpu02", (None, False, "gpu02", True)),
        ("-DsN gpu04 -vvv", (None, False, "gpu04", False)),
        ("-bDf /x/slurm.conf", ("/x/slurm.conf", False, None, False)),
        ("-L -N -N gpu05", (None, False, "gpu05", False)),
        ("-FeatureNZ -D", (None, False, None, False, True)),
        ("-F -D -f /x/slurm.conf", ("/x/slurm.conf", False, None, False, True)),
        ("-DF", (None, False, None, False, True)),
        ("-f", (None, False, None, False)),
    ],
)
def test_options_of_slurmd(words, expected):
    assert places.options(words.split()) == places.Options(*expected)


def tree(tmp_path, *files, **texts):
    for name in files:
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts.get("options", "") if name.startswith("/etc/default") else "ClusterName=x\n")
    return Host(str(tmp_path))


LOCAL, CACHE = "/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"


@pytest.mark.parametrize(
    "files, options, path, configless",
    [
        ((LOCAL,), "", LOCAL, False),
        ((LOCAL, CACHE), "", LOCAL, False),
        ((LOCAL, CACHE), "--conf-server ctl", CACHE, True),
        ((LOCAL,), "--conf-server ctl", None, True),  # not fetched yet, and the local one is not read
        ((CACHE,), "", CACHE, True),
        ((LOCAL, "/opt/slurm.conf"), "-f /opt/slurm.conf", "/opt/slurm.conf", False),
        ((), "", None, False),
    ],
)
def test_which_slurm_conf_is_read(tmp_path, files, options, path, configless):
    host = tree(tmp_path, *files, "/etc/default/slurmd", options="SLURMD_OPTIONS='{0} -N gpu07'\n".format(options))
    assert places.find(host) == places.Place(path, configless, "gpu07")
    assert places.find(host).beside("gres.conf") == (path and path.replace("slurm.conf", "gres.conf"))


@pytest.mark.parametrize("real, uid", [("1000", None), ("0", 1000)])
def test_a_process_of_a_user_is_no_slurmd_by_its_name(tmp_path, real, uid):
    """``ln -s /usr/bin/su slurmd; ./slurmd -c --conf-server root`` has root as its effective user."""
    host = tree(tmp_path, LOCAL)
    process = tmp_path / "proc/77"
    process.mkdir(parents=True)
    (process / "comm").write_text("slurmd\n")
    (process / "cmdline").write_text("slurmd\0-c\0--conf-server\0-N\0gpu07\0")
    (process / "status").write_text("Name:\tslurmd\nUid:\t{0}\t0\t0\t0\n".format(real))
    if uid is not None and os.geteuid() == 0:
        os.chown(str(process), uid, uid)
    elif uid is not None:
        pytest.skip("needs another user")
    assert places.running(host) == [] and places.find(host) == places.Place(LOCAL)


def test_the_slurmd_that_runs_is_believed_first(tmp_path):
    host = tree(tmp_path, LOCAL, "/opt/slurm.conf", "/etc/default/slurmd", options="SLURMD_OPTIONS=-N wrong\n")
    process = tmp_path / "proc/77"
    process.mkdir(parents=True)
    (process / "comm").write_text("slurmd\n")
    (process / "cmdline").write_text("/usr/sbin/slurmd\0-D\0-N\0gpu07\0")
    (process / "environ").write_text("HOME=/\0SLURM_CONF=/opt/slurm.conf\0")
    assert places.find(host) == places.Place("/opt/slurm.conf", False, "gpu07")
    assert places.find(host, "/etc/slurm/slurm.conf").path == LOCAL
    assert places.find(host, "/nowhere/slurm.conf").path is None


def test_cyclecloud_writes_the_options_without_quotes(tmp_path):
    host = tree(tmp_path, LOCAL, "/etc/default/slurmd", options="SLURMD_OPTIONS=-b -N hpc-1")
    assert places.find(host).node_name == "hpc-1"
