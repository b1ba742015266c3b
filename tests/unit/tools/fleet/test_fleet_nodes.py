# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real fleet of a few nodes: what they are, that the machine stays as it was, and that nothing is left of them."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from loopback_fleet import layer
from loopback_fleet.settings import FleetError, Settings, numbers

TOOL = Path(__file__).resolve().parents[4] / "tools" / "fleet" / "fleet"
RUN = "unit-{0}".format(os.getpid())
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the fleet makes namespaces and mounts, which root may")


def fleet(*words, check=True):
    done = subprocess.run(
        [sys.executable, str(TOOL), "--run", RUN, *words], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done


def test_nodes_have_names_and_addresses_of_their_own():
    nodes = Settings(10000).nodes
    assert (nodes[0].name, nodes[0].address) == ("gpu0001", "127.1.0.1")
    assert (nodes[250].name, nodes[250].address) == ("gpu0251", "127.1.1.1")
    assert len({node.address for node in nodes}) == 10000 and nodes[-1].address == "127.1.39.250"
    assert numbers("1-3,7") == {1, 2, 3, 7} and numbers("") == frozenset()


@pytest.mark.parametrize(
    "wrong",
    [lambda: Settings(0), lambda: Settings(10001), lambda: Settings(3, failing=frozenset({4})), lambda: numbers("a-b")],
)
def test_what_cannot_be_is_a_sentence(wrong):
    with pytest.raises(FleetError) as told:
        wrong()
    assert str(told.value).endswith(".") and ";" in str(told.value)


def test_who_is_not_root_gets_a_sentence():
    if os.geteuid() == 0:
        words = ["setpriv", "--reuid=65534", "--clear-groups", "--", "/usr/bin/python3", "-c"]
        code = "import sys; sys.path.insert(0, sys.argv[1]); sys.argv = ['fleet', 'serve', '1']; "
        if not os.access("/usr/bin/setpriv", os.X_OK):
            pytest.skip("setpriv is not installed")
        # The clone may lie where others may not read.
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(str(TOOL.parent), folder + "/fleet")
            subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
            code += "from loopback_fleet.cli import main; sys.exit(main())"
            done = subprocess.run([*words, code, folder + "/fleet"], capture_output=True, text=True, check=False)
    else:
        done = fleet("serve", "1", check=False)
    assert done.returncode == 1 and done.stderr.endswith("run it as root.\n"), done.stderr


def listing():
    """Owner, mode and content of what a converge would write, and what is mounted."""
    found = {"mounts": Path("/proc/self/mounts").read_text(), "name": os.uname().nodename}
    for top in ("/etc", "/opt", "/usr/local/bin", "/usr/local/share", "/var/lib/gpu_node"):
        for folder, files in [(one[0], one[2]) for one in os.walk(top)]:
            for name in files:
                path = os.path.join(folder, name)
                told = os.lstat(path)
                content = ""
                if os.path.isfile(path) and not os.path.islink(path) and told.st_size < 1 << 20:
                    content = hashlib.sha256(Path(path).read_bytes()).hexdigest()
                found[path] = (told.st_uid, told.st_mode, told.st_size, content)
    return found


@pytest.fixture
def started():
    try:
        layer.sshd()
    except FleetError as error:
        pytest.skip(str(error))
    processes = []

    def start(*words):
        process = subprocess.Popen(
            [sys.executable, str(TOOL), "--run", RUN, "serve", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout.readline().strip().endswith("inventory.json")
        return process

    yield start
    for process in processes:
        process.stdin.close()
        process.stdout.close()
        process.wait(60)


def inside():
    """The processes of this fleet, by the command line of the one that all others live under."""
    found = subprocess.run(
        ["pgrep", "-f", "--", "--run {0} serve".format(RUN)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in found.stdout.split()]


@needs_root
def test_a_machine_that_there_is_not_is_a_sentence(started):
    told = fleet("up", "1", "--machine", "nonesuch", check=False)
    assert told.returncode == 1 and told.stderr.startswith("--machine nonesuch: there is no such one; see "), told
    assert not inside()


@needs_root
def test_what_a_node_does_stays_in_it_and_nothing_is_left(started):
    before = listing()
    process = started("3", "--failing", "2", "--unreachable", "3")
    told = fleet("ssh", "1", "hostname; cat /etc/hostname; ls -A /root /home /opt; nvml-simulator get gpu.count").stdout
    assert told.split()[:2] == ["gpu0001", "gpu0001"] and told.split()[-1] == "8", told
    write = "for one in /etc/x /opt/x /usr/local/bin/x; do echo 1 >$one; done; rm /etc/passwd; hostname other; ls /opt"
    assert fleet("ssh", "1", write).stdout.split() == ["x"]
    assert "Read-only" in fleet("ssh", "2", "touch /opt/x", check=False).stderr
    assert fleet("ssh", "2", "ls /etc/x", check=False).returncode == 2, "nodes see each other's files"
    assert "refused" in fleet("ssh", "3", "true", check=False).stderr
    for forbidden in (
        "echo 1 >/proc/sys/vm/swappiness",
        "mknod /dev/disk b 254 0",
        "mount -o remount,rw /sys",
        "cat /dev/kmsg",
    ):
        assert fleet("ssh", "1", forbidden, check=False).returncode != 0, forbidden
    assert listing() == before
    process.stdin.close()
    assert process.wait(60) == 0
    assert listing() == before and not inside()
    assert not list(Path(tempfile.gettempdir()).glob("gpu-node-fleet-*-" + RUN))


@needs_root
def test_a_fleet_that_is_killed_takes_everything_with_it(started):
    before = Path("/proc/self/mounts").read_text()
    process = started("2")
    command = "exec sleep 4242"
    sleeper = subprocess.Popen(
        [sys.executable, str(TOOL), "--run", RUN, "ssh", "1", command], stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 60
    while not subprocess.run(["pgrep", "-fx", "sleep 4242"], capture_output=True, check=False).stdout:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert len(inside()) >= 3
    process.send_signal(signal.SIGKILL)
    assert sleeper.wait(60) == 255
    while inside() or subprocess.run(["pgrep", "-fx", "sleep 4242"], capture_output=True, check=False).stdout:
        assert time.monotonic() < until, inside()
        time.sleep(0.1)
    assert Path("/proc/self/mounts").read_text() == before
    assert "none of the name" in fleet("inventory", check=False).stderr
    fleet("down")
