# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client of systemd: what it asks and tells systemctl, and that nothing else does."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import systemd
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.timer import Timer, TimerState

LIBRARY = Path(__file__).resolve().parents[6] / "plugins"
PROGRAMS = re.compile(r"(.*/)?systemctl|(.*/)?systemd-(run|escape|analyze)")
FILES = re.compile(r"/etc/systemd|/run/systemd|/lib/systemd/system")
#: The paths under /run/systemd that are no units: by module, what it reads there.
OTHERS = {
    "core/system_processes.py": "/run/systemd/dynamic-uid",  # numbers of users that systemd has given to services
    "health/container.py": "/run/systemd/container",  # what a container's systemd was told of it
    "node/journal.py": "/run/systemd/journal/stdout",  # the socket of journald
}


def strays(library):
    """Texts in code, and not in a docstring, that name a program or a directory of systemd outside its client."""
    found = []
    for path in sorted(library.rglob("*.py")):
        name = path.relative_to(library).as_posix().replace("module_utils/", "", 1)
        if name.startswith(("core/systemd/", "modules/")):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                text = node.value
                if PROGRAMS.fullmatch(text) or (FILES.search(text) and OTHERS.get(name) != text):
                    found.append("{0}: {1}".format(name, text))
    return found


def test_nothing_else_runs_systemctl_or_names_the_directories_of_units():
    assert strays(LIBRARY) == []


@pytest.mark.parametrize(
    "code, stray",
    [
        ('host.run(["systemctl", "stop", unit])', True),
        ('host.run(["/usr/bin/systemctl", "stop", unit])', True),
        ('host.run(["systemd-run", "--unit=x", "true"])', True),
        ('UNITS = "/etc/systemd/system/" + name', True),
        ('RUNS = "/run/systemd/system"', True),
        ('text = f"/usr/lib/systemd/system/{name}"', True),
        ('SOCKET = "/run/systemd/journal/stdout"', True),
        ("remedy = \"run 'systemctl restart slurmd'\"", False),
        ('"""It reads /etc/systemd/system."""', False),
    ],
)
def test_each_way_around_the_client_is_seen(tmp_path, code, stray):
    (tmp_path / "module_utils/health").mkdir(parents=True)
    (tmp_path / "module_utils/health/x.py").write_text(code + "\n")
    assert bool(strays(tmp_path)) is stray


@pytest.fixture
def node(tmp_path):
    """A tree with a systemctl that writes down its words, answers with the file ``answer`` and may fail."""
    for folder in ("usr/bin", "run/systemd/system"):
        (tmp_path / folder).mkdir(parents=True)
    program = tmp_path / "usr/bin/systemctl"
    program.write_text(
        '#!/bin/sh\necho "$*" >> {0}/log\n[ -e {0}/fails ] && {{ echo "Job failed." >&2; exit 1; }}\n'
        "[ -e {0}/answer ] && cat {0}/answer\ntrue\n".format(tmp_path)
    )
    program.chmod(0o755)
    host = Host(str(tmp_path))
    host.log = lambda: (tmp_path / "log").read_text().splitlines() if (tmp_path / "log").exists() else []
    return host


def test_one_call_asks_for_all_units_and_each_has_an_answer(node, tmp_path):
    (tmp_path / "answer").write_text("Id=a.service\nExecStart={ path=/bin/x }\n\nId=b.timer\nActiveState=active\n")
    shown = systemd.show(node, ("a.service", "b.timer", "c.mount"), ("Id", "ActiveState"))
    assert shown == (
        {"Id": "a.service", "ExecStart": "{ path=/bin/x }"},
        {"Id": "b.timer", "ActiveState": "active"},
        {},
    )
    assert node.log() == ["show --property=Id,ActiveState -- a.service b.timer c.mount"]


def test_what_systemd_is_told(node):
    systemd.start(node, ("a.service", "b.service"))
    systemd.start(node, ("a.service",), wait=False)
    systemd.restart(node, "a.service")
    systemd.stop(node, ("a.service",))
    systemd.enable_installed(node, "a.service")
    systemd.daemon_reload(node)
    assert node.log() == [
        "start -- a.service b.service",
        "start --no-block -- a.service",
        "restart -- a.service",
        "stop -- a.service",
        "enable -- a.service",
        "daemon-reload",
    ]


def test_an_error_names_the_unit_the_reason_and_where_to_look(node, tmp_path):
    (tmp_path / "fails").write_text("")
    with pytest.raises(NodeError) as raised:
        systemd.restart(node, "a.service")
    assert str(raised.value) == (
        "a.service: 'systemctl restart' failed (ended with status 1: Job failed.); see 'systemctl status a.service' "
        "and 'journalctl -b -u a.service'."
    )
    with pytest.raises(NodeError, match="Job failed"):
        systemd.show(node, ("a.service",), ("Id",))


def test_without_a_running_systemd_nothing_is_asked_and_units_are_enabled_all_the_same(node, tmp_path):
    (tmp_path / "run/systemd/system").rmdir()
    timer = Timer("x")
    systemd.daemon_reload(node)
    systemd.enable(node, timer.timer, systemd.TIMERS)
    assert timer.look(node) == TimerState(enabled=True) and node.log() == []
    link = tmp_path / "etc/systemd/system/timers.target.wants/gpu-node-x.timer"
    assert os.readlink(link) == "/etc/systemd/system/gpu-node-x.timer"
    systemd.disable(node, timer.timer, systemd.TIMERS)
    assert timer.look(node) == TimerState()


def test_a_container_with_the_run_of_its_host_has_nothing_to_reload(node, tmp_path, monkeypatch):
    (tmp_path / "usr/bin/systemctl").unlink()
    monkeypatch.setattr(node, "which", lambda name: None)
    systemd.daemon_reload(node)
    assert node.log() == []


def test_a_timer_that_systemd_does_not_answer_for_is_not_started(node, tmp_path):
    (tmp_path / "answer").write_text(
        "ActiveState=active\nNeedDaemonReload=no\n\nActiveState=failed\nNeedDaemonReload=yes\n"
    )
    assert Timer("x").look(node) == TimerState(True, False, True, True)
    assert node.log() == ["show --property=ActiveState,NeedDaemonReload -- gpu-node-x.timer gpu-node-x.service"]
    (tmp_path / "fails").write_text("")
    assert Timer("x").look(node) == TimerState(running=True)


def test_the_first_file_of_a_unit_counts_and_all_its_drop_ins(node):
    node.write("/usr/lib/systemd/system/a.service", "[Service]\nExecStart=/old\n")
    node.write("/lib/systemd/system/a.service", "[Service]\nExecStart=/oldest\n")
    node.write("/etc/systemd/system/a.service", "[Service]\n# ExecStart=/not\nExecStart=/new \\\n -x\n")
    node.write("/usr/lib/systemd/system/a.service.d/20-b.conf", "[Service]\nNice=1\n")
    node.write("/etc/systemd/system/a.service.d/20-b.conf", "[Service]\nNice = 2\n")
    node.write("/run/systemd/system/a.service.d/10-a.conf", "[Service]\nType=simple\n")
    node.write("/run/systemd/system/a.service.d/readme", "Nice=3\n")
    assert next(systemd.files(node, "a.service")) == "/etc/systemd/system/a.service"
    assert list(systemd.settings(node, "a.service")) == [
        ("ExecStart", "/new   -x"),
        ("Type", "simple"),
        ("Nice", "2"),
    ]
    assert not any(systemd.files(node, "b.service")) and not any(systemd.settings(node, "b.service"))


def test_our_units_and_a_masked_one(node, tmp_path):
    node.write("/etc/systemd/system/gpu-node-x.service", "")
    node.write("/etc/systemd/system/gpu-node-x.service.d/y.conf", "")
    node.write("/etc/systemd/system/other.service", "")
    os.symlink("/dev/null", tmp_path / "etc/systemd/system/gpu-node-y.timer")
    assert sorted(systemd.ours(node)) == ["gpu-node-x.service", "gpu-node-y.timer"]
    assert [systemd.link(node, one) for one in ("gpu-node-y.timer", "gpu-node-x.service", "z")] == ["/dev/null", "", ""]


@pytest.mark.parametrize(
    "path", ["/", "/a", "//a//b/", "/mnt/resource_nvme", "/mnt/a-b/c d", "/.hidden/x", "/ä/@%\\x2d", "/a/.b", "/a;b\n"]
)
def test_units_of_mount_points_are_named_as_systemd_names_them(path):
    tool = shutil.which("systemd-escape")
    if tool is None:
        pytest.skip("needs systemd-escape on this machine")
    done = subprocess.run([tool, "--path", "--suffix=mount", path], stdout=subprocess.PIPE, check=True)
    assert systemd.mount_unit(path) == done.stdout.decode()[:-1]
