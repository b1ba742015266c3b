# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode board`` with a stand-in that takes TensorBoard's options, and with TensorBoard itself."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import board
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Misuse, NodeError
from ansible_collections.trainyard.gpu_node.tools.setup import cached

GPUNODE = Path(__file__).resolve().parent / "gpunode_on.py"
# As TensorBoard 2.x: --host, --port and --logdir; one that gets other arguments, or whose port is taken, ends with 1.
STAND_IN = """#!{python} -IS
import argparse, os, socket, sys, time
parser = argparse.ArgumentParser(allow_abbrev=False)
for name in ("--logdir", "--host", "--port"):
    parser.add_argument(name, required=True)
given = parser.parse_args()
with open({told!r}, "a") as stream:
    stream.write("{{0}} {{1}} {{2}} {{3}}\\n".format(os.getpid(), given.host, given.port, given.logdir))
time.sleep(0.4)
one = socket.socket()
try:
    one.bind((given.host, int(given.port)))
except OSError:
    sys.exit("port is in use")
one.listen()
while True:
    time.sleep(1)
"""


@pytest.fixture
def stand_in(tmp_path):
    path = tmp_path / "programs" / "tensorboard"
    path.parent.mkdir()
    path.write_text(STAND_IN.format(python=sys.executable, told=str(tmp_path / "told")))
    path.chmod(0o755)
    (tmp_path / "logs").mkdir()
    return path


def started(tmp_path, *words, programs=None):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    environment["PATH"] = "{0}:{1}".format(programs or tmp_path / "programs", environment["PATH"])
    return subprocess.Popen(
        [sys.executable, str(GPUNODE), "/", "--", "board", "--logdir", str(tmp_path / "logs"), *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told(tmp_path):
    """(pid, host, port, logdir) of each start."""
    return [line.split() for line in (tmp_path / "told").read_text().splitlines()]


def gone(pid):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(int(pid), 0)
            with open("/proc/{0}/stat".format(pid)) as stream:
                if stream.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_it_is_on_loopback_only_and_ends_with_the_command(stand_in, tmp_path, how):
    process = started(tmp_path, "--jump", "alice@login.example.org:2222", "--local-port", "7007")
    lines = [process.stdout.readline() for dummy in range(5)]
    ((pid, address, port, logdir),) = told(tmp_path)
    assert (address, logdir) == ("127.0.0.1", str(tmp_path / "logs"))
    assert " -L 7007:127.0.0.1:{0} -J alice@login.example.org:2222 ".format(port) in lines[2], lines
    assert "http://localhost:7007/" in lines[3] and "every user of" in lines[4]
    process.send_signal(how)
    out, errors = process.communicate(timeout=30)
    assert gone(pid)
    if how != signal.SIGKILL:
        assert (process.returncode, out, errors) == (0, "", "")


def test_json_is_one_document(stand_in, tmp_path):
    process = started(tmp_path, "--json")
    text = process.stdout.readline()
    while not text.rstrip().endswith("}"):
        text += process.stdout.readline()
    found = json.loads(text)
    assert (found["address"], str(found["port"])) == ("127.0.0.1", told(tmp_path)[0][2])
    assert "-J" not in found["ssh"] and found["url"] == "http://localhost:6006/"
    process.terminate()
    assert process.communicate(timeout=30)[0] == "" and process.returncode == 0


def test_a_port_that_somebody_took_meanwhile_is_not_told(stand_in, tmp_path, monkeypatch):
    listener = board.listener
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        ports = [taken, board._free_port()]
        monkeypatch.setattr(board, "_free_port", lambda: ports.pop(0))
        monkeypatch.setattr(board, "listener", lambda table, port: 4294001 if port == taken else listener(table, port))
        process, port = board._started(str(stand_in), str(tmp_path / "logs"))
        board._end(process)
    assert [one[2] for one in told(tmp_path)] == [str(taken), str(port)]


def test_one_that_ends_at_once_is_told(stand_in, tmp_path):
    stand_in.write_text("#!/bin/sh\necho its own words >&2; exit 3\n")
    out, errors = started(tmp_path).communicate(timeout=30)
    assert out == "" and "its own words" in errors and "it ended with status 3" in errors


def test_one_that_breaks_off_is_told(stand_in, tmp_path):
    process = started(tmp_path)
    process.stdout.readline()
    os.kill(int(told(tmp_path)[0][0]), signal.SIGKILL)
    assert "it ended with status -9" in process.communicate(timeout=30)[1] and process.returncode == 1


def test_one_that_does_not_answer_is_ended(stand_in, tmp_path, monkeypatch):
    stand_in.write_text("#!/bin/sh\necho $$ > {0}/told\nexec sleep 100\n".format(tmp_path))
    monkeypatch.setattr(board, "_START_SECONDS", 1.0)
    with pytest.raises(NodeError, match="did not answer within 1 s"):
        board._started(str(stand_in), str(tmp_path / "logs"))
    assert gone((tmp_path / "told").read_text().strip())


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"local_port": 0}, Misuse, "give 1 to 65535"),
        ({"jump": "-oProxyCommand=x"}, Misuse, "it is no host"),
        ({"jump": "a b"}, Misuse, "it is no host"),
        ({"jump": "$(x)"}, Misuse, "it is no host"),
        ({"logdir": "none"}, NodeError, "it is no folder that you can read"),
        ({"program": "/none/such"}, NodeError, "there is no such program"),
        ({}, NodeError, "it is not installed in the environment that is active"),
    ],
)
def test_what_cannot_be_is_told_before_anything_starts(tmp_path, monkeypatch, options, error, words):
    monkeypatch.setenv("PATH", str(tmp_path))
    given = dict({"logdir": str(tmp_path), "jump": None, "local_port": 6006, "program": None}, **options)
    arguments = argparse.Namespace(**given)
    with pytest.raises(error) as caught:
        board.checked(Host(), arguments, os.path.join(str(tmp_path), given["logdir"]))
    assert words in str(caught.value)


def test_the_line_is_safe_for_a_shell():
    line = board.ssh_line("a;b", "gpu07", 41873, 6006, "u@h,v@i:22")
    assert line == "ssh -N -L 6006:127.0.0.1:41873 -J u@h,v@i:22 'a;b@gpu07'"


def test_who_listens_is_read_from_the_table_of_the_kernel(tmp_path):
    table = tmp_path / "tcp"
    table.write_text(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:1F90 00000000:0000 01 00000000:00000000 00:00000000 00000000  1001        0 1 1\n"
        "   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1002        0 1 1\n"
        "   2: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1003        0 1 1\n"
    )
    assert board.listener(str(table), 8080) == 1003 and board.listener(str(table), 8081) is None
    assert board.listener(str(tmp_path / "none"), 8080) is None


@pytest.mark.soak
def test_tensorboard_itself_answers(tmp_path):
    try:
        program = str(cached.programs("tensorboard") / "tensorboard")
    except cached.CachedError as error:
        pytest.skip(str(error))
    (tmp_path / "logs").mkdir()
    process = started(tmp_path, "--json", "--program", program, programs=tmp_path)
    text = process.stdout.readline()
    while text and not text.rstrip().endswith("}"):
        text += process.stdout.readline()
    found = json.loads(text)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open("http://127.0.0.1:{0}/data/environment".format(found["port"]), timeout=30) as answer:
        assert json.load(answer)["data_location"] == str(tmp_path / "logs")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0 and board.listener("/proc/net/tcp", found["port"]) is None
