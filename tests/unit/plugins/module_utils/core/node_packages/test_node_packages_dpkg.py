# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages by the real dpkg into a folder: installed, upgraded, removed; nothing on a wrong sum or a dead mirror."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import declaration, node_packages
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.node_packages import Package
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.node_packages.apply import install_packages
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Plan, Refused
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import converge
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.core.node_packages import debs

pytestmark = pytest.mark.skipif(
    shutil.which("dpkg-deb") is None or os.geteuid() != 0, reason="it needs dpkg, and root for dpkg --root"
)
SECTION = "enroot"


def bring(root, wanted, present=True, allow_downgrade=False):
    """The smallest resource there can be around the packages."""
    host = Host(str(root))

    def observe():
        return node_packages.observe(host, wanted, declaration.read(host).get(SECTION) or {})

    def plan(state):
        declared = declaration.read(host)
        if not present:
            actions = node_packages.remove(state)
            if SECTION in declared:
                actions.append(declaration.Declare(SECTION, None))
            return Plan(tuple(actions), notes=node_packages.kept_notes(state))
        refusals = node_packages.refusals(state, wanted, allow_downgrade)
        if refusals:
            return Plan(refusals=refusals)
        actions = node_packages.fetch(state, wanted)
        declare = declaration.plan(declared, SECTION, node_packages.remembered(state, wanted))
        actions += [declare] if declare is not None else []
        return Plan(tuple(actions + node_packages.install(state, wanted)))

    def apply(action):
        if isinstance(action, declaration.Declare):
            declaration.apply(host, action)
        else:
            node_packages.STEPS[type(action)](host, action, None)

    return converge(observe, plan, apply)


@pytest.fixture
def node(tmp_path, monkeypatch):
    monkeypatch.setenv("DPKG_FORCE", "unsafe-io")  # dpkg would wait for the disk after each file
    return debs.database(tmp_path / "node")


@pytest.fixture
def mirror(tmp_path):
    """Two versions of a program and of a package that needs exactly it; returns {(name, version): sha256}."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    sums = {}
    for version in ("4.1.1-1", "4.1.2-1"):
        for name, files, depends in (
            ("enroot", {"/usr/bin/enroot": ("#!/bin/sh\necho {0}\n".format(version), 0o755)}, ""),
            ("enroot+caps", {"/usr/share/doc/enroot+caps/x": (version, 0o644)}, "enroot (= {0})".format(version)),
        ):
            dummy, sums[name, version] = debs.build(folder, name, version, files, depends)
    return folder, sums


def packages(url, sums, version, names=("enroot", "enroot+caps")):
    return [
        Package(name, version, "{0}/{1}_{2}_all.deb".format(url, name, version), sums[name, version]) for name in names
    ]


def test_installed_upgraded_and_removed_and_each_time_only_once(node, mirror):
    folder, sums = mirror
    (node / "etc").mkdir()
    before = debs.tree(node)
    with debs.served(folder) as url:
        first = bring(node, packages(url, sums, "4.1.1-1"))
        assert [one.describe().split(" from ")[0] for one in first.plan.actions] == [
            "fetch enroot 4.1.1-1",
            "fetch enroot+caps 4.1.1-1",
            "declare section enroot in /etc/gpu_node/node.json",
            "install enroot 4.1.1-1 and enroot+caps 4.1.1-1 with dpkg",
        ]
        assert not bring(node, packages(url, sums, "4.1.1-1")).changed
        assert bring(node, packages(url, sums, "4.1.2-1")).changed
        assert (node / "usr/bin/enroot").read_text() == "#!/bin/sh\necho 4.1.2-1\n"
        assert debs.installed(node, "enroot+caps") == ("4.1.2-1", "ii")
        assert not bring(node, packages(url, sums, "4.1.2-1")).changed
    assert not os.path.exists(str(node / "var/lib/gpu_node/packages"))
    assert bring(node, [], present=False).changed
    assert not bring(node, [], present=False).changed
    assert debs.installed(node, "enroot") is None
    assert debs.tree(node) == before


def test_a_wrong_sum_installs_nothing_at_all(node, mirror):
    folder, sums = mirror
    with debs.served(folder) as url:
        wanted = packages(url, sums, "4.1.2-1")
        wrong = Package("enroot+caps", "4.1.2-1", wanted[1].source, "0" * 64)
        before = debs.tree(node)
        with pytest.raises(NodeError, match="its sha256 is .* not 0000"):
            bring(node, [wanted[0], wrong])
    assert debs.installed(node, "enroot") is None
    assert not (node / "etc/gpu_node/node.json").exists()
    assert set(debs.tree(node)) - set(before) <= {"etc"}


@pytest.mark.parametrize("cut_after", [0, 100])
def test_a_mirror_that_dies_half_way_leaves_the_old_version_working(node, mirror, cut_after):
    folder, sums = mirror
    with debs.served(folder) as url:
        bring(node, packages(url, sums, "4.1.1-1"))
    declared = (node / "etc/gpu_node/node.json").read_text()
    with debs.served(folder) as whole, debs.served(folder, cut_after) as dying:
        wanted = [*packages(whole, sums, "4.1.2-1", ["enroot"]), *packages(dying, sums, "4.1.2-1", ["enroot+caps"])]
        with pytest.raises(NodeError, match="the connection ended|cannot be downloaded"):
            bring(node, wanted)
    assert debs.installed(node, "enroot") == ("4.1.1-1", "ii") == debs.installed(node, "enroot+caps")
    assert subprocess.check_output([str(node / "usr/bin/enroot")], text=True) == "4.1.1-1\n"
    assert (node / "etc/gpu_node/node.json").read_text() == declared
    bring(node, [], present=False)
    assert debs.installed(node, "enroot") is None


def test_a_file_that_is_another_package_is_told_before_dpkg_is_called(node, mirror):
    folder, sums = mirror
    with debs.served(folder) as url:
        other = Package("enroot", "4.1.2-1", url + "/enroot_4.1.1-1_all.deb", sums["enroot", "4.1.1-1"])
        with pytest.raises(NodeError, match=r"it holds enroot 4\.1\.1-1, not enroot 4\.1\.2-1"):
            bring(node, [other])
        (folder / "x.deb").write_bytes(b"no package")
        digest = hashlib.sha256(b"no package").hexdigest()
        with pytest.raises(NodeError, match="x.deb: it is no package"):
            bring(node, [Package("enroot", "1", url + "/x.deb", digest)])
    assert debs.installed(node, "enroot") is None


def test_a_dependency_that_is_missing_is_named_and_nothing_is_left_over(node, tmp_path):
    path, digest = debs.build(tmp_path, "enroot", "1", {"/usr/bin/enroot": ("x", 0o755)}, "no-such-package")
    (node / str(path).lstrip("/")).parent.mkdir(parents=True)
    shutil.copy(str(path), str(node / str(path).lstrip("/")))
    with pytest.raises(
        NodeError, match="package enroot 1: it could not be installed, dpkg says: enroot depends on no-s"
    ):
        bring(node, [Package("enroot", "1", str(path), digest)])
    assert not (node / "var/lib/gpu_node").exists()


def test_a_newer_one_is_not_taken_back_unless_that_is_allowed(node, mirror):
    folder, sums = mirror
    with debs.served(folder) as url:
        bring(node, packages(url, sums, "4.1.2-1"))
        with pytest.raises(
            Refused, match=r"package enroot 4\.1\.1-1: the newer 4\.1\.2-1 is installed; allow the downg"
        ):
            bring(node, packages(url, sums, "4.1.1-1"))
        assert bring(node, packages(url, sums, "4.1.1-1"), allow_downgrade=True).changed
    assert debs.installed(node, "enroot") == ("4.1.1-1", "ii")


def test_what_somebody_else_installed_stays(node, mirror):
    folder, sums = mirror
    subprocess.run(
        ["dpkg", "--root=" + str(node), "-i", str(folder / "enroot_4.1.1-1_all.deb")], check=True, capture_output=True
    )
    with debs.served(folder) as url:
        bring(node, packages(url, sums, "4.1.1-1", ["enroot"]))
        bring(node, packages(url, sums, "4.1.2-1"))
    gone = bring(node, [], present=False)
    assert gone.plan.notes == ("package enroot was there before in version 4.1.1-1 and stays, now in version 4.1.2-1",)
    assert debs.installed(node, "enroot") == ("4.1.2-1", "ii")
    assert debs.installed(node, "enroot+caps") is None


def test_an_interrupted_installation_is_mended(node, mirror):
    folder, sums = mirror
    argv = ["dpkg", "--root=" + str(node), "--unpack", str(folder / "enroot_4.1.2-1_all.deb")]
    subprocess.run(argv, check=True, capture_output=True)
    assert debs.installed(node, "enroot") == ("4.1.2-1", "iU")
    with debs.served(folder) as url:
        assert bring(node, packages(url, sums, "4.1.2-1", ["enroot"])).changed
    assert debs.installed(node, "enroot") == ("4.1.2-1", "ii")


def test_a_changed_configuration_file_asks_nobody_and_stays(node, mirror, tmp_path):
    folder = tmp_path / "configured"
    folder.mkdir()
    sums = {}
    for version in ("1-1", "2-1"):
        files = {"/etc/enroot/enroot.conf": ("version {0}\n".format(version), 0o644)}
        dummy, sums["enroot", version] = debs.build(
            folder, "enroot", version, files, conffiles=["/etc/enroot/enroot.conf"]
        )
    with debs.served(folder) as url:
        bring(node, packages(url, sums, "1-1", ["enroot"]))
        (node / "etc/enroot/enroot.conf").write_text("the site's own\n")
        bring(node, packages(url, sums, "2-1", ["enroot"]))
    assert (node / "etc/enroot/enroot.conf").read_text() == "the site's own\n"


def test_another_package_manager_is_waited_for_and_then_named(node, mirror):
    folder, sums = mirror
    action = node_packages.InstallPackages(tuple(packages("http://127.0.0.1:1", sums, "4.1.1-1")), "dpkg")
    # fcntl's locks are a process's own, so another process has to hold it.
    holder = (
        "import fcntl, sys, time; stream = open(sys.argv[1], 'r+'); fcntl.lockf(stream, fcntl.LOCK_EX);"
        "print(1, flush=True); time.sleep(60)"
    )
    lock = str(node / "var/lib/dpkg/lock-frontend")
    process = subprocess.Popen([sys.executable, "-c", holder, lock], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        with pytest.raises(
            NodeError, match="another package manager has been working for 0.6 s; wait until it is done"
        ):
            install_packages(Host(str(node)), action, lock_seconds=0.6)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    with open(lock, "r+") as stream:
        fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_package_that_others_need_is_not_torn_out(node, mirror, tmp_path):
    folder, sums = mirror
    with debs.served(folder) as url:
        bring(node, packages(url, sums, "4.1.2-1", ["enroot"]))
    other, dummy = debs.build(tmp_path, "site-tool", "1", {"/usr/bin/site": ("x", 0o755)}, "enroot")
    subprocess.run(["dpkg", "--root=" + str(node), "-i", str(other)], check=True, capture_output=True)
    with pytest.raises(
        NodeError, match="package enroot: it could not be removed, dpkg says: site-tool depends on enroot; repair"
    ):
        bring(node, [], present=False)
    assert debs.installed(node, "enroot") == ("4.1.2-1", "ii") and debs.installed(node, "site-tool") == ("1", "ii")
