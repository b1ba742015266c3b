# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Around a run: who may change what root acts by, the unit of each boot, the journal, and what is refused."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import converge as command
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main as gpunode
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import converge_record as record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import trust
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host, LockHeld
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Misuse, NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import converge as whole
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import journal, own, wish
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.unit import UNIT, have
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.node.number_node import numbers


@pytest.fixture
def declared(tmp_path, monkeypatch):
    monkeypatch.delenv("SUDO_UID", raising=False)
    path = tmp_path / "folder" / "declaration.json"
    path.parent.mkdir(mode=0o755)
    path.write_text("{}\n")
    path.chmod(0o644)
    return path


def test_a_file_that_only_root_may_change_is_taken(declared):
    assert trust.of_root(str(declared)) == os.path.realpath(declared)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_may_write_is_refused_with_the_remedy(declared, mode):
    declared.chmod(mode)
    with pytest.raises(NodeError, match="other users can write to it .*, and root acts by it; run 'chown root:root"):
        trust.of_root(str(declared))


def test_a_folder_on_the_way_that_others_may_write_is_refused_but_not_a_sticky_one(declared):
    declared.parent.chmod(0o777)
    with pytest.raises(NodeError, match="folder: other users can write to it .*; put it where only root may write"):
        trust.of_root(str(declared))
    declared.parent.chmod(0o1777)
    trust.of_root(str(declared))


def belongs_to(monkeypatch, path, uid):
    real = os.stat

    def stat_of(one, *rest, **more):
        found = real(one, *rest, **more)
        if os.path.realpath(one) != os.path.realpath(path):
            return found
        return os.stat_result(found[:4] + (uid,) + found[5:])

    monkeypatch.setattr(os, "stat", stat_of)


def test_a_sticky_folder_of_a_stranger_is_refused_as_he_may_rename_what_lies_in_it(declared, monkeypatch):
    declared.parent.chmod(0o1777)
    belongs_to(monkeypatch, declared.parent, 12345)
    with pytest.raises(NodeError, match="folder: it belongs to user 12345; put it where only root may write"):
        trust.of_root(str(declared))


def test_a_file_of_somebody_else_is_refused_but_not_of_the_user_who_became_root(declared, monkeypatch):
    belongs_to(monkeypatch, declared, 12345)
    with pytest.raises(NodeError, match="it belongs to user 12345, and root acts by it"):
        trust.of_root(str(declared))
    monkeypatch.setenv("SUDO_UID", "12345")
    trust.of_root(str(declared))


def test_a_link_is_judged_by_where_it_leads(declared, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(declared)
    assert trust.of_root(str(link)) == os.path.realpath(declared)
    declared.chmod(0o666)
    with pytest.raises(NodeError, match="other users can write to it"):
        trust.of_root(str(link))


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(NodeError, match="it cannot be read"):
        trust.of_root(str(tmp_path / "none"))
    with pytest.raises(NodeError, match="it is no file"):
        trust.of_root(str(tmp_path))


def test_the_unit_waits_for_no_network_and_comes_before_those_who_start_jobs():
    lines = UNIT.text().splitlines()
    assert (
        "ExecStart=/opt/gpu_node/gpunode.pyz converge --boot" in lines
        and "Before=slurmd.service docker.service containerd.service kubelet.service" in lines
        and "TimeoutStartSec=1800" in lines
        and "Type=oneshot" in lines
    )
    assert not any("network.target" in line or "network-online.target" in line for line in lines)
    after = next(line for line in lines if line.startswith("After="))
    assert "local-fs.target" in after and "gpu-node-nvme_scratch.service" in after


def test_the_unit_is_installed_and_removed_without_a_trace(tmp_path):
    host = Host(str(tmp_path))
    assert have(host).changed and not have(host).changed
    link = tmp_path / "etc/systemd/system/multi-user.target.wants/gpu-node-converge.service"
    assert os.readlink(link) == "/etc/systemd/system/gpu-node-converge.service"
    guard = tmp_path / "etc/systemd/system/slurmd.service.d/50-gpu_node_converge.conf"
    assert "ExecStartPre=/opt/gpu_node/gpunode.pyz boot admit\n" in guard.read_text()
    assert have(host, wanted=False).changed
    assert not os.path.lexists(link) and not os.listdir(tmp_path / "etc/systemd/system/multi-user.target.wants")
    assert not guard.parent.exists()


def test_a_guard_of_somebody_else_is_refused_and_ours_goes_also_where_the_unit_is_masked(tmp_path):
    host = Host(str(tmp_path))
    guard = tmp_path / "etc/systemd/system/slurmd.service.d/50-gpu_node_converge.conf"
    guard.parent.mkdir(parents=True)
    guard.write_text("[Service]\n")
    with pytest.raises(NodeError, match="50-gpu_node_converge.conf: it is there and is not ours; move it away"):
        have(host)
    assert not have(host, wanted=False).changed and guard.exists()
    guard.unlink()
    have(host)
    unit = tmp_path / "etc/systemd/system/gpu-node-converge.service"
    unit.unlink()
    unit.symlink_to("/dev/null")
    assert have(host, wanted=False).changed
    assert not guard.parent.exists() and unit.is_symlink()


def test_a_line_goes_to_the_terminal_and_to_the_journal_under_its_identifier(tmp_path):
    path, got = str(tmp_path / "journal"), []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen(1)

        def receive():
            with server.accept()[0] as connection, connection.makefile() as stream:
                got.extend(stream.read().splitlines())

        thread = threading.Thread(target=receive)
        thread.start()
        terminal = io.StringIO()
        output = journal.Output(terminal, path)
        output.say("not ready: the verdict on it is fail.")
        output._journal.close()
        thread.join(10)
    assert terminal.getvalue() == "not ready: the verdict on it is fail.\n"
    assert got == ["gpu-node-converge", "", "6", "0", "0", "0", "0", "not ready: the verdict on it is fail."]


def test_output_that_is_the_journal_already_is_not_written_twice(tmp_path, monkeypatch):
    with open(tmp_path / "out", "w") as stream:
        found = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", "{0}:{1}".format(found.st_dev, found.st_ino))
        assert journal._is_journal(stream)
        # Whoever was started by a service and writes to a file has inherited the variable.
        monkeypatch.setenv("JOURNAL_STREAM", "{0}:{1}".format(found.st_dev, found.st_ino + 1))
        assert not journal._is_journal(stream)


def test_a_terminal_that_is_gone_does_not_end_a_converge(tmp_path):
    stream = io.StringIO()
    stream.close()
    journal.Output(stream, str(tmp_path / "none")).say("still here")


def at_work(pid):
    try:
        with open("/proc/{0}/stat".format(pid), encoding="ascii") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_run_that_is_ended_leaves_nobody_at_work(tmp_path, monkeypatch):
    node, told = numbers(tmp_path, monkeypatch), tmp_path / "pid"

    def during(dummy):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
        node.host.run(["sh", "-c", "echo $$ >{0}; exec sleep 1000".format(told)], timeout_seconds=1000)

    node.during = during
    report = own.run(node.host, whole.Request({"disks": {}, "rdma": {}}), "1.2.3")
    assert report.failures == ["converge: it was ended by signal SIGTERM"] and node.ran == ["disks"]
    deadline = time.monotonic() + 10
    while at_work(int(told.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_lock_and_a_record_that_cannot_be_are_sentences_and_nobody_else_s_run(tmp_path, monkeypatch):
    node = numbers(tmp_path, monkeypatch)
    (tmp_path / "run").write_text("a file")
    with pytest.raises(NodeError, match="it could not be opened") as raised:
        own.run(node.host, whole.Request({"disks": {}}), "1.2.3")
    assert not isinstance(raised.value, LockHeld)
    (tmp_path / "run").unlink()
    (tmp_path / "var/lib").mkdir(parents=True)
    (tmp_path / "var/lib/gpu_node").write_text("a file")
    with pytest.raises(NodeError, match=record.PATH):
        own.run(node.host, whole.Request({"disks": {}}, boot=True), "1.2.3")
    assert node.ran == []


def arguments(*words):
    return gpunode.parser(["converge"]).parse_args(["converge", *words])


MISTAKES = {
    '{"hpcx": {"source": "https://store/x?sig=SECRETKEY1", "x\n': (wish.PATH, "it is not valid JSON"),
    '{"nvme_scratch": {"mount_point": "relative"}}': ("nvme_scratch, option mount_point", "is not an absolute path"),
}


@pytest.mark.parametrize("text", MISTAKES)
@pytest.mark.parametrize("words", [["--boot"], [], ["--install"]])
def test_what_is_refused_at_boot_is_what_slurmd_is_told_and_a_refusal_by_hand_takes_nobody_out(tmp_path, words, text):
    host, at_boot = Host(str(tmp_path)), words == ["--boot"]
    host.write("/proc/sys/kernel/random/boot_id", "now\n")
    have(host)
    record.write(host, record.Record("ready", "", 1.0, 2.0, "now", "0.1.0", "pass"))
    host.write(wish.PATH, text)
    thing, reason = MISTAKES[text]
    with pytest.raises(NodeError, match=reason) as raised:
        command.run(host, arguments(*words))
    assert "SECRET" not in str(raised.value)
    standing, told = own.status(host)
    assert own.admitted(host) is (not at_boot) and (standing is record.Standing.READY) is (not at_boot)
    assert told.startswith("not ready: its converge was refused: " + thing if at_boot else "ready: ")
    assert "SECRET" not in host.read(record.PATH) and host.read(wish.PATH) == text


def test_what_every_boot_does_is_the_whole_of_it(tmp_path):
    host = Host(str(tmp_path))
    host.write(wish.PATH, "{}\n")
    with pytest.raises(Misuse, match="--only rdma: the declaration has no section rdma; add one"):
        command.run(host, arguments("--only", "rdma"))
    host.write(wish.PATH, '{"rdma": {}}\n')
    for words in (["--only", "rdma"], ["--without", "rdma"], ["--check"]):
        with pytest.raises(Misuse, match="each boot converges the whole node"):
            command.run(host, arguments("--install", *words))
    for words in (["--nonsense"], ["--declaration"], ["word"]):
        with pytest.raises(Misuse):
            arguments(*words)


FAILED = {"rdma": {"failed": True, "msg": "port 1: it is down; see to it."}}


@pytest.mark.parametrize(
    "words, parts, outcome, reason",
    [
        ([], {}, "pass", ""),
        ([], {}, "unknown", "the verdict on it is unknown; 'gpunode health' tells why"),
        ([], {}, "fail", "the verdict on it is fail; 'gpunode health' tells why"),
        ([], FAILED, "pass", "rdma: port 1: it is down; see to it."),
        # These promise nothing about the node.
        (["--check"], {}, "unknown", ""),
        (["--check"], {}, "fail", ""),
        (["--check"], FAILED, "pass", "rdma: port 1: it is down; see to it."),
        (["--only", "rdma"], {}, "unknown", ""),
        (["--only", "rdma"], FAILED, "pass", "rdma: port 1: it is down; see to it."),
        (["--without", "rdma"], {}, "fail", ""),
    ],
)
def test_text_json_and_exit_status_say_the_same(tmp_path, monkeypatch, capsys, words, parts, outcome, reason):
    host = Host(str(tmp_path))
    host.write(wish.PATH, '{"rdma": {}}\n')
    report = whole.Report(parts, {"outcome": outcome}, "--check" in words)
    monkeypatch.setattr(own, "run", lambda *dummy: report)
    status = command.run(host, arguments(*words))
    text = capsys.readouterr().out
    assert status == (1 if reason else 0)
    if not words:
        assert text.splitlines()[-1] == ("not ready: {0}.".format(reason.rstrip(".")) if reason else "ready")
    assert command.run(host, arguments("--json", *words)) == status
    told = json.loads(capsys.readouterr().out)
    assert (told["ready"], told["reason"]) == (not reason, reason)


def test_a_command_that_others_may_change_is_not_run_to_install_it(tmp_path, monkeypatch):
    path = tmp_path / "gpunode.pyz"
    path.write_bytes(b"PK")
    path.chmod(0o666)
    monkeypatch.setattr(command, "running_zipapp", lambda: str(path))
    monkeypatch.setattr(command, "os", SimpleNamespace(geteuid=lambda: 0))
    host = Host(str(tmp_path))
    host.write(wish.PATH, "{}\n")
    with pytest.raises(NodeError, match="gpunode.pyz: other users can write to it"):
        command.run(host, arguments())
    assert not host.exists(record.PATH)
