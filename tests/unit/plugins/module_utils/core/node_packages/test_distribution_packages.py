# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages by name: the real apt-get with a repository and a dpkg of its own, and what is asked of dnf and yum."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import threading
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.node_packages import distribution
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.node_packages.distribution import (
    InstallDistribution,
    install_distribution,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.core.node_packages import debs

needs_apt = pytest.mark.skipif(
    shutil.which("apt-get") is None or shutil.which("dpkg-scanpackages") is None or os.geteuid() != 0,
    reason="it needs apt-get, dpkg-scanpackages, and root for dpkg --root",
)
CONFIGURATION = """\
Dir "{0}";
Dir::State "{0}/var/lib/apt";
Dir::State::status "{0}/var/lib/dpkg/status";
Dir::Cache "{0}/var/cache/apt";
Dir::Etc "{0}/etc/apt";
Dir::Log "{0}/var/log/apt";
Dir::Bin::dpkg "{1}";
DPkg::Options {{ "--root={0}"; "--log=/dev/null"; }}
APT::Sandbox::User "root";
Acquire::http::Proxy "DIRECT";
APT::Architecture "{2}";
"""


def packed(mirror, version):
    """A repository with the tool in this version, which recommends another package."""
    for old in mirror.glob("*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    files = {"/usr/bin/tool": (version, 0o755)}
    debs.build(mirror, "tool", version, files, recommends="mailer")
    debs.build(mirror, "mailer", "1", {"/usr/bin/mailer": ("", 0o755)})
    done = subprocess.run(["dpkg-scanpackages", "."], cwd=str(mirror), check=True, capture_output=True, timeout=60)
    (mirror / "Packages").write_bytes(done.stdout)
    # Servers and apt-get tell two versions of an index apart by the second.
    os.utime(str(mirror / "Packages"), (10**9, 10**9 + int(float(version) * 100)))


@pytest.fixture
def node(tmp_path, monkeypatch):
    root = debs.database(tmp_path / "node")
    for folder in ("etc/apt/apt.conf.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/log/apt"):
        (root / folder).mkdir(parents=True)
    (tmp_path / "mirror").mkdir()
    machine = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True, timeout=60)
    configuration = tmp_path / "apt.conf"
    configuration.write_text(CONFIGURATION.format(root, shutil.which("dpkg"), machine.stdout.strip()))
    monkeypatch.setenv("APT_CONFIG", str(configuration))
    monkeypatch.setenv("DPKG_FORCE", "unsafe-io")
    with debs.served(tmp_path / "mirror") as url:
        (root / "etc/apt/sources.list").write_text("deb [trusted=yes] {0} ./\n".format(url))
        yield root


@needs_apt
def test_a_node_whose_index_is_empty_or_old_gets_its_package_without_what_is_recommended(node, tmp_path):
    packed(tmp_path / "mirror", "1.0")
    install_distribution(Host(str(node)), InstallDistribution(("tool",)))
    assert debs.installed(node, "tool") == ("1.0", "ii") and debs.installed(node, "mailer") != ("1", "ii")
    # The mirror has moved on: the file that the index names is gone.
    subprocess.run(["dpkg", "--root={0}".format(node), "--purge", "tool"], check=True, capture_output=True, timeout=60)
    subprocess.run(["apt-get", "clean"], check=True, capture_output=True, timeout=60)
    packed(tmp_path / "mirror", "1.1")
    install_distribution(Host(str(node)), InstallDistribution(("tool",)))
    assert debs.installed(node, "tool") == ("1.1", "ii")


@needs_apt
def test_a_package_that_no_source_has_is_one_sentence(node, tmp_path):
    packed(tmp_path / "mirror", "1.0")
    message = (
        r"^package\(s\) tool and nothing-like-it: it could not be installed, apt-get says: "
        r"E: Unable to locate package nothing-like-it; "
        r"see that the package sources of this node can be reached \(apt-get update\), then run it again\.$"
    )
    with pytest.raises(NodeError, match=message):
        install_distribution(Host(str(node)), InstallDistribution(("tool", "nothing-like-it")))
    assert debs.installed(node, "tool") is None


@needs_apt
@pytest.mark.sampled(1)
@pytest.mark.parametrize("path", ["lib/apt/lists/lock", "cache/apt/archives/lock", "lib/dpkg/lock-frontend"])
def test_it_waits_for_whoever_works_with_packages(node, tmp_path, path):
    packed(tmp_path / "mirror", "1.0")
    # Another process, as locks of this kind are one process's own.
    code = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, 2); print(flush=True); input()"
    holder = subprocess.Popen(
        ["python3", "-c", code, str(node / "var" / path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        holder.stdout.readline()
        threading.Timer(2.5, holder.stdin.close).start()
        began = time.monotonic()
        install_distribution(Host(str(node)), InstallDistribution(("tool",)))
        assert time.monotonic() - began > 2 and debs.installed(node, "tool") == ("1.0", "ii")
    finally:
        holder.kill()
        holder.wait()


@needs_apt
def test_who_works_for_ever_is_told(node, tmp_path, monkeypatch):
    packed(tmp_path / "mirror", "1.0")
    monkeypatch.setattr(distribution, "LOCK_SECONDS", 1.0)
    with open(str(node / "var/lib/apt/lists/lock"), "w", encoding="utf-8") as handle:
        fcntl.lockf(handle, fcntl.LOCK_EX)
        with pytest.raises(NodeError, match=r"apt-get says: E: Could not get lock .*/var/lib/apt/lists/lock"):
            install_distribution(Host(str(node)), InstallDistribution(("tool",)))


FAKE = """#!/bin/sh
echo $0 $* >> {0}/asked
[ $4 != none ] && exit 0
echo 'No match for argument: none'
echo 'Error: Unable to find a match: none' >&2
exit 1
"""


@pytest.mark.parametrize("manager", ["dnf", "yum"])
def test_dnf_and_yum_are_asked_for_the_same(tmp_path, monkeypatch, manager):
    programs = tmp_path / "bin"
    programs.mkdir()
    fake = programs / manager
    fake.write_text(FAKE.format(tmp_path))
    fake.chmod(0o755)
    (programs / "env").symlink_to(shutil.which("env"))
    monkeypatch.setattr(Host, "which", lambda dummy, name: shutil.which(name, path=str(programs)))
    install_distribution(Host(str(tmp_path)), InstallDistribution(("mdadm", "xfsprogs")))
    words = "{0}/{1} -y --setopt=install_weak_deps=False install mdadm xfsprogs\n"
    assert (tmp_path / "asked").read_text() == words.format(programs, manager)
    with pytest.raises(NodeError, match=r"says: Error: Unable to find a match: none; .*{0} makecache".format(manager)):
        install_distribution(Host(str(tmp_path)), InstallDistribution(("none",)))


def test_a_node_without_a_package_manager_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(Host, "which", lambda dummy, dummy_name: None)
    with pytest.raises(NodeError, match=r"package\(s\) mdadm: this node has no apt-get, dnf or yum; install what it"):
        install_distribution(Host(str(tmp_path)), InstallDistribution(("mdadm",)))
