# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may change what root acts by, the unit, the command of the run, and what its end means."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import socket
import sys
import threading
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import converge_record as record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import arguments, journal, main, redact, trust
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.play import Ended, Play, ended, prepare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.unit import ConvergeUnit, have

US = {0, os.geteuid()}


@pytest.fixture
def variables(tmp_path):
    path = tmp_path / "folder" / "site.yml"
    path.parent.mkdir(mode=0o755)
    path.write_text("a: 1\n")
    path.chmod(0o644)
    return path


def test_a_file_that_only_root_may_change_is_taken(variables):
    trust.check_file(str(variables), US)
    trust.check_tree(str(variables.parent), US)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_may_write_is_refused_with_the_remedy(variables, mode):
    variables.chmod(mode)
    with pytest.raises(NodeError, match="others may write to it, and root would act by it; run 'chown root:root"):
        trust.check_file(str(variables), US)
    with pytest.raises(NodeError, match="site.yml: others may write to it, and root would execute it"):
        trust.check_tree(str(variables.parent), US)


def test_a_folder_on_the_way_that_others_may_write_is_refused_but_not_a_sticky_one(variables):
    variables.parent.chmod(0o777)
    with pytest.raises(NodeError, match="folder: others may write to it; put it where only root may write"):
        trust.check_file(str(variables), US)
    variables.parent.chmod(0o1777)
    trust.check_file(str(variables), US)


def test_a_sticky_folder_of_a_stranger_is_refused_as_he_may_rename_what_lies_in_it(variables, monkeypatch):
    real = os.stat

    def stat_of(path, *rest, **more):
        found = real(path, *rest, **more)
        if os.path.realpath(path) != os.path.realpath(variables.parent):
            return found
        return os.stat_result(found[:4] + (12345,) + found[5:])

    variables.parent.chmod(0o1777)
    monkeypatch.setattr(os, "stat", stat_of)
    with pytest.raises(NodeError, match="folder: it belongs to user 12345; put it where only root may write"):
        trust.check_file(str(variables), US)


def test_a_file_of_somebody_else_is_refused(variables):
    with pytest.raises(NodeError, match="it belongs to user {0}".format(os.geteuid())):
        trust.check_file(str(variables), {12345})


def test_a_link_is_judged_by_where_it_leads(variables, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(variables)
    assert trust.check_file(str(link), US) == os.path.realpath(variables)
    variables.chmod(0o666)
    with pytest.raises(NodeError, match="others may write to it"):
        trust.check_file(str(link), US)


def test_a_vault_password_that_others_may_read_is_refused(variables):
    with pytest.raises(NodeError, match="others may read it; run 'chmod 0600"):
        trust.check_file(str(variables), US, private=True)
    variables.chmod(0o600)
    trust.check_file(str(variables), US, private=True)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(NodeError, match="it cannot be read"):
        trust.check_file(str(tmp_path / "none"), US)
    with pytest.raises(NodeError, match="it is no file"):
        trust.check_file(str(tmp_path), US)


def test_the_unit_waits_for_no_network_and_comes_before_those_who_start_jobs():
    lines = ConvergeUnit(variables=("/etc/a.yml",)).text().splitlines()
    assert (
        "ExecStart=/opt/gpu_node/bundle/current/converge --boot --variables /etc/a.yml" in lines
        and "Before=slurmd.service docker.service containerd.service kubelet.service" in lines
        and "TimeoutStartSec=1800" in lines
        and "Type=oneshot" in lines
    )
    assert not any("network.target" in line or "network-online.target" in line for line in lines)
    after = next(line for line in lines if line.startswith("After="))
    assert "local-fs.target" in after and "gpu-node-nvme_scratch.service" in after


def test_the_unit_is_installed_and_removed_without_a_trace(tmp_path):
    host = Host(str(tmp_path))
    assert have(host, ConvergeUnit()).changed and not have(host, ConvergeUnit()).changed
    link = tmp_path / "etc/systemd/system/multi-user.target.wants/gpu-node-converge.service"
    assert os.readlink(link) == "/etc/systemd/system/gpu-node-converge.service"
    guard = tmp_path / "etc/systemd/system/slurmd.service.d/50-gpu_node_converge.conf"
    assert "ExecStartPre=/opt/gpu_node/bundle/current/converge --admit\n" in guard.read_text()
    assert have(host, ConvergeUnit(), wanted=False).changed
    assert not os.path.lexists(link) and not os.listdir(tmp_path / "etc/systemd/system/multi-user.target.wants")
    assert not guard.parent.exists()


def test_a_guard_of_somebody_else_is_refused_and_ours_goes_also_where_the_unit_is_masked(tmp_path):
    host = Host(str(tmp_path))
    guard = tmp_path / "etc/systemd/system/slurmd.service.d/50-gpu_node_converge.conf"
    guard.parent.mkdir(parents=True)
    guard.write_text("[Service]\n")
    with pytest.raises(NodeError, match="50-gpu_node_converge.conf: it is there and is not ours; move it away"):
        have(host, ConvergeUnit())
    assert not have(host, ConvergeUnit(), wanted=False).changed and guard.exists()
    guard.unlink()
    have(host, ConvergeUnit())
    unit = tmp_path / "etc/systemd/system/gpu-node-converge.service"
    unit.unlink()
    unit.symlink_to("/dev/null")
    assert have(host, ConvergeUnit(), wanted=False).changed
    assert not guard.parent.exists() and unit.is_symlink()


@pytest.mark.parametrize("path", ["a.yml", "/etc/a b.yml", "/etc/%n.yml", "/etc/a\nExecStart=/bin/sh", "/etc/$HOME"])
def test_a_name_that_would_mean_something_in_a_unit_file_is_refused(path):
    with pytest.raises(NodeError, match="its name cannot stand in a unit file"):
        ConvergeUnit(variables=(path,))


def test_the_way_to_what_will_be_executed_is_root_s_before_it_is_there(tmp_path):
    trust.check_place(str(tmp_path / "opt" / "gpu_node"), US)
    (tmp_path / "opt").mkdir(mode=0o775)
    os.chmod(tmp_path / "opt", 0o775)
    with pytest.raises(NodeError, match="opt: others may write to it; put it where only root may write"):
        trust.check_place(str(tmp_path / "opt" / "gpu_node"), US)


def play(tmp_path, **fields):
    return Play(str(tmp_path / "tree"), str(tmp_path / "work"), **fields)


def test_nothing_of_whoever_starts_it_reaches_the_play(tmp_path, monkeypatch):
    for name in (
        "PYTHONPATH",
        "PYTHONHOME",
        "ANSIBLE_LIBRARY",
        "ANSIBLE_VAULT_PASSWORD_FILE",
        "LD_PRELOAD",
        "BASH_ENV",
    ):
        monkeypatch.setenv(name, "/home/evil")
    environment = play(tmp_path).environment()
    assert "/home/evil" not in environment.values()
    assert not [name for name in environment if name.startswith("PYTHON")]
    assert [name for name in environment if name.startswith("ANSIBLE")] == ["ANSIBLE_CONFIG"]
    assert environment["HOME"] == str(tmp_path / "work")


def test_the_command_has_files_of_variables_in_their_order_and_no_values_of_them(tmp_path):
    words = play(tmp_path, variables=("/etc/gpu_node/site.yml", "/b.yml"), boot=True, vault_password="/v").command()
    given = [words[at + 1] for at, word in enumerate(words) if word == "--extra-vars"]
    assert given[:2] == ["@/etc/gpu_node/site.yml", "@/b.yml"]
    ours = json.loads(given[2])
    assert ours["gpu_node_hosts"] == "all" and ours["ansible_connection"] == "local"
    assert ours["__gpu_node_health_without"] == ["converge", "service_running"]
    assert ours["__gpu_node_health_fail_on"] == "unknown"
    assert words[words.index("--vault-password-file") + 1] == "/v"
    assert "--check" not in words and words[-1] == "trainyard.gpu_node.site"


def test_a_run_by_hand_asks_for_services_and_a_plan_is_a_plan(tmp_path):
    words = play(tmp_path, check=True).command()
    assert "--check" in words and json.loads(words[-2])["__gpu_node_health_without"] == ["converge"]


def test_the_folder_of_a_run_is_empty_and_of_root_alone(tmp_path):
    one = play(tmp_path)
    prepare(one)
    (tmp_path / "work" / "left").write_text("secret")
    prepare(one)
    assert sorted(os.listdir(tmp_path / "work")) == ["ansible.cfg", "tmp"]
    assert os.stat(tmp_path / "work").st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (Ended(0, None, "pass"), ""),
        (Ended(0, "a failure that a role mended", "warn"), ""),
        (Ended(2, "GPU 3: lost; reboot", "fail"), "GPU 3: lost; reboot"),
        (Ended(0, None, "unknown"), ""),  # gpu_node_health_fail_on lets it be so
        (Ended(0, None, "fail"), "the verdict on it is fail; 'gpunode health' tells why"),  # whatever fail_on says
        (Ended(0), "no verdict was given on it"),
        (Ended(2, "disk nvme2: it has data", "pass"), "disk nvme2: it has data"),
        (Ended(-9), "ansible-playbook ended with status -9, its output tells why"),
    ],
)
def test_a_node_is_ready_when_the_play_ended_and_the_verdict_is_good(end, reason):
    assert end.reason == reason


def test_a_play_that_was_ended_has_left_no_outcome(tmp_path):
    path = tmp_path / "outcome.json"
    assert ended(1, str(path)) == Ended(1)
    path.write_text('{"fail')
    assert ended(0, str(path)) == Ended(0)
    path.write_text('{"failure": "x", "outcome": "fail", "finding": "y"}')
    assert ended(2, str(path)) == Ended(2, "x", "fail")


def test_lines_of_variables_are_not_shown_however_ansible_prints_them(tmp_path):
    path = tmp_path / "site.yml"
    key = 'hpcx_source: "https://store/hpcx.tgz?sig=SECRETKEY123' + "x" * 100 + '"'
    path.write_text("---\n" + key + "\nhpcx_version: 2: 24\n")
    shown = redact.without_lines_of([str(path), str(tmp_path / "gone")])
    cut = "2 " + key[:100]
    for line in ("2 " + key, "  " + key, cut + "...", cut + " \u2026", key[:60]):
        assert shown(line) == "  (a line of {0}, not shown)".format(path)
    for line in ("Origin: {0}:3:16".format(path), "TASK [hpcx : HPC-X] ****", "", "2", "---", "ok: [localhost]"):
        assert shown(line) == line


RUNAWAY = """
import subprocess, time
print(subprocess.Popen(["sleep", "1000"]).pid, flush=True)
time.sleep(1000)
"""


def at_work(pid):
    try:
        with open("/proc/{0}/stat".format(pid), encoding="ascii") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_play_that_is_ended_leaves_nobody_at_work(tmp_path, monkeypatch):
    """Also a task that its Ansible would leave to itself."""
    one = play(tmp_path)
    monkeypatch.setattr(Play, "command", lambda self: [sys.executable, "-c", RUNAWAY])
    tasks = []

    def say(line):
        tasks.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        one.run(say)
    deadline = time.monotonic() + 10
    while at_work(tasks[0]):
        assert time.monotonic() < deadline
        time.sleep(0.05)


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
        output.say("ready: verdict pass.")
        output._journal.close()
        thread.join(10)
    assert terminal.getvalue() == "ready: verdict pass.\n"
    assert got == ["gpu-node-converge", "", "6", "0", "0", "0", "0", "ready: verdict pass."]


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


def test_a_disk_that_refuses_and_a_lock_that_cannot_be_are_sentences(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(main, "Host", lambda: Host(str(tmp_path)))
    monkeypatch.setattr(main.os, "geteuid", lambda: 0)
    monkeypatch.setattr(main.os, "chdir", lambda path: None)

    def full(*dummy):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/opt/gpu_node/x")

    monkeypatch.setattr(main, "_converge", full)
    assert main.main([], str(tmp_path)) == main.WRONG
    assert "refused: /opt/gpu_node/x: No space left on device; mend that" in capsys.readouterr().out
    # Nobody else runs, so this is not the status of a busy node.
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").write_text("a file")
    assert main.main([], str(tmp_path)) == main.WRONG
    assert "refused: " in capsys.readouterr().out


@pytest.mark.parametrize("at_boot", [True, False])
def test_what_is_refused_at_boot_is_what_slurmd_is_told_and_a_refusal_by_hand_takes_nobody_out(
    tmp_path, monkeypatch, capsys, at_boot
):
    host = Host(str(tmp_path))
    host.write("/proc/sys/kernel/random/boot_id", "now\n")
    record.write(host, record.Record("ready", "", 1.0, 2.0, "now", "0.1.0", "pass"))
    monkeypatch.setattr(main, "Host", lambda: host)
    monkeypatch.setattr(main.os, "geteuid", lambda: 0)
    monkeypatch.setattr(main.os, "chdir", lambda path: None)
    # Of the unit, as none is given by hand.
    missing = str(tmp_path / "missing.yml")
    host.write("/etc/systemd/system/gpu-node-converge.service", ConvergeUnit(variables=(missing,)).text())
    assert main.main(["--boot", "--variables", missing] if at_boot else [], str(tmp_path)) == main.WRONG
    assert "refused: {0}: it cannot be read".format(missing) in capsys.readouterr().out
    assert main.status(host) == (main.NOT_READY if at_boot else main.READY)
    told = "not ready: its converge was refused: {0}: it cannot be read".format(missing)
    assert (told in capsys.readouterr().out) == at_boot


def test_paths_are_absolute_and_one_thing_is_done_at_a_time(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert arguments.parse(["--install", "--variables", "a.yml"]).variables == [str(tmp_path / "a.yml")]
    for words in (["--install", "--remove"], ["--nonsense"], ["--variables"], ["word"]):
        with pytest.raises(SystemExit) as raised:
            arguments.parse(words)
        assert raised.value.code == main.WRONG
    assert "usage: converge" in capsys.readouterr().err


def test_this_python_is_told():
    found = main.interpreter()
    assert found.tag.startswith("cp3") and (found.libc is None or found.libc > (2, 0))
