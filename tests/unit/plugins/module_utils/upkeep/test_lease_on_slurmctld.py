# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reservation of a lease, asked of a real slurmctld, where there is one.

It is the machine's own, or that of Debian packages which were unpacked (dpkg -x) into the folder that the variable
GPU_NODE_TEST_SLURM names: slurmctld, slurm-client, slurm-wlm-basic-plugins and libmunge2. 22.05.8 and 24.11.5 were
tried, and with a slurmd, by hand, that a job whose time limit passes the start stays pending; on 22.05.8, that it
starts when the reservation is moved.
"""

from __future__ import annotations

import glob
import os
import shutil
import socket
import subprocess
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.client import Slurm
from ansible_collections.trainyard.gpu_node.plugins.module_utils.upkeep.lease.follow import is_ours, starts

ROOT = os.environ.get("GPU_NODE_TEST_SLURM", "")
NAME = "gpu_node_lease_gpu01"
CONF = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmctldPort={port}
StateSaveLocation={folder}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
{plugins}
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SwitchType=switch/none
MpiDefault=none
NodeName=gpu[01-02] NodeHostName={host} NodeAddr=127.0.0.1 Port=[{port}1,{port}2] CPUs=2
PartitionName=gpu Nodes=ALL Default=YES State=UP
"""


def program():
    places = glob.glob(ROOT + "/usr/sbin/slurmctld-wlm") if ROOT else []
    return next(iter(places), None) or shutil.which("slurmctld", path=os.environ.get("PATH", "") + ":/usr/sbin")


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    found = program()
    if found is None:
        pytest.skip("no slurmctld is here")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    library = next(iter(glob.glob(ROOT + "/usr/lib/*/slurm-wlm")), "") if ROOT else ""
    host, user = os.uname().nodename.split(".")[0], os.environ.get("USER", "root")
    text = CONF.format(
        host=host, user=user, port=port, folder=tmp_path, plugins="PluginDir=" + library if library else ""
    )
    (tmp_path / "slurm.conf").write_text(text.replace("Port=[{0}1,{0}2]".format(port), "Port=[17918,17919]"))
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    # A tree of another release has a C library of its own, and programs that were told so (patchelf).
    if library and not os.path.exists(os.path.dirname(library) + "/libc.so.6"):
        monkeypatch.setenv("LD_LIBRARY_PATH", "{0}:{1}".format(os.path.dirname(library), library))
    scontrol = ROOT + "/usr/bin/scontrol" if ROOT else shutil.which("scontrol")
    # A name of its own: newer ones ask their own name what they are.
    (tmp_path / "slurmctld").symlink_to(found)
    daemon = subprocess.Popen(
        [str(tmp_path / "slurmctld"), "-D", "-i"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 20
        while subprocess.run([scontrol, "ping"], capture_output=True, check=False).returncode:
            if daemon.poll() is not None or time.monotonic() > deadline:
                pytest.skip("this slurmctld does not start here: " + (tmp_path / "slurmctld.log").read_text()[-300:])
            time.sleep(0.2)
        yield Slurm(Host(), "gpu01", scontrol)
    finally:
        daemon.terminate()
        daemon.wait(20)


def test_a_reservation_is_made_moved_seen_and_deleted(slurm):
    end = int(time.time()) + 86400
    assert slurm.reservation(NAME) is None
    slurm.unreserve(NAME)  # there is none: nothing is to be done
    slurm.reserve(NAME, end, True)
    told = slurm.reservation(NAME)
    assert is_ours(told, "gpu01") and not is_ours(told, "gpu02") and starts(told) == end
    with pytest.raises(NodeError, match="Duplicate reservation name"):
        slurm.reserve(NAME, end, True)
    slurm.reserve(NAME, end + 86400, False)
    assert starts(slurm.reservation(NAME)) == end + 86400
    # Another one of the site lies over it, as maintenance may.
    slurm.reserve("of_site", end + 3600, True)
    with pytest.raises(NodeError, match="Invalid time"):
        slurm.reserve(NAME, time.time() - 86400, False)
    slurm.unreserve(NAME)
    assert slurm.reservation(NAME) is None and slurm.reservation("of_site") is not None


def test_nobody_holds_a_node_without_jobs_and_one_that_is_not_there_is_an_error(slurm):
    assert slurm.holders() == ()
    with pytest.raises(NodeError, match="Invalid node name|Invalid node"):
        Slurm(Host(), "gpu09", slurm.program).holders()
