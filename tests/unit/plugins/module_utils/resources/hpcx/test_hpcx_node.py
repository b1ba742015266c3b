# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HPC-X on a file system: installed, upgraded, adopted, removed, and its run killed at every single effect."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import declaration
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Refused
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import hpcx
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.hpcx import hpcx_tarball

DESIRED = hpcx.Desired(keep=0)
LUA, TCL = "etc/lmod/modules/mpi/", "etc/environment-modules/modules/mpi/"


@pytest.fixture(name="host")
def _host(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return hpcx_tarball.node(tmp_path / "node", environment_modules=True)


def wanted(host, version="2.24.1", **options):
    source = hpcx_tarball.source(host.root, version)
    return hpcx.Desired(**source, version=version, **options)


def whole(host, path="/opt/hpcx/current"):
    """Whether all files of a tree are there with their content."""
    return all(host.read("{0}/{1}".format(path, name)) for name in hpcx_tarball.FILES)


def settled(host, desired):
    assert not run(host, hpcx.RESOURCE, desired, check_mode=True).changed
    assert not run(host, hpcx.RESOURCE, desired).changed
    assert not [name for name in host.names(desired.prefix) if name.startswith(".")]


def test_check_real_check_real_and_absent_leaves_what_it_found(host):
    desired = wanted(host)
    before = hpcx_tarball.tree(host.root, ".")
    planned = run(host, hpcx.RESOURCE, desired, check_mode=True)
    assert planned.changed and hpcx_tarball.tree(host.root, ".") == before
    done = run(host, hpcx.RESOURCE, desired)
    assert done.plan.actions == planned.plan.actions and hpcx.RESOURCE.shown(
        done, desired, True
    ) == hpcx.RESOURCE.shown(planned, desired, True)
    settled(host, desired)
    assert whole(host) and os.readlink(host.path("/opt/hpcx/current")) == "2.24.1"
    assert os.readlink(host.path("/opt/hpcx/2.24.1/ompi/lib/libmpi.so")) == "libmpi.so.40"
    assert os.stat(host.path("/opt/hpcx/2.24.1/ompi/bin/oshrun")).st_nlink == 2
    assert os.stat(host.path("/opt/hpcx/2.24.1/hpcx-init.sh")).st_mode & 0o7777 == 0o644
    assert os.stat(host.path("/opt/hpcx/2.24.1/ompi/bin/mpirun")).st_mode & 0o7777 == 0o755
    for name in (LUA + "hpcx.lua", LUA + "hpcx-2.24.1.lua", TCL + "hpcx", TCL + "hpcx-2.24.1"):
        assert "/opt/hpcx/2.24.1" in host.read(name)
    assert hpcx.RESOURCE.facts(done, desired)["home"] == "/opt/hpcx/2.24.1"
    assert run(host, hpcx.RESOURCE, hpcx.Desired(present=False)).changed
    assert not run(host, hpcx.RESOURCE, hpcx.Desired(present=False)).changed
    after = hpcx_tarball.tree(host.root, ".")
    assert {path for path in set(after) - set(before) if not path.startswith("run")} == set()


def test_an_upgrade_keeps_as_many_old_versions_as_asked(host):
    for number, version in enumerate(("2.22", "2.23", "2.24.1")):
        assert run(host, hpcx.RESOURCE, wanted(host, version, keep=1)).changed
        mark = host.path("/opt/hpcx/{0}/.gpu_node.json".format(version))
        with open(mark, encoding="ascii") as stream:
            text = stream.read()
        with open(mark, "w", encoding="ascii") as stream:  # a day later
            stream.write(text.replace('"installed": ', '"installed": {0}'.format(number + 1)))
    assert host.names("/opt/hpcx") == ["2.23", "2.24.1", "current"]
    assert host.names(LUA) == ["hpcx-2.23.lua", "hpcx-2.24.1.lua", "hpcx.lua"]
    assert "/opt/hpcx/2.24.1" in host.read(LUA + "hpcx.lua")
    # And back to the one that was kept, with nothing to download.
    back = dataclasses.replace(wanted(host, "2.23", keep=1), source="/gone", sha256="0" * 64)
    with pytest.raises(Refused) as error:
        run(host, hpcx.RESOURCE, back)
    assert "it was installed from another file" in str(error.value)
    os.unlink(host.path("/srv/2.23.tbz"))
    run(host, hpcx.RESOURCE, hpcx.Desired(version="2.23"))
    assert os.readlink(host.path("/opt/hpcx/current")) == "2.23" and whole(host)
    settled(host, hpcx.Desired())


def test_a_version_that_somebody_runs_is_kept_until_it_ends(host):
    run(host, hpcx.RESOURCE, wanted(host, "2.23"))
    with open(host.path("/opt/hpcx/2.23/ompi/bin/sleep"), "wb") as stream, open(shutil.which("sleep"), "rb") as program:
        stream.write(program.read())
    os.chmod(host.path("/opt/hpcx/2.23/ompi/bin/sleep"), 0o755)
    os.makedirs(host.path("/proc"))
    with subprocess.Popen([host.path("/opt/hpcx/2.23/ompi/bin/sleep"), "60"]) as process:
        try:
            # A node's /proc tells paths from the node's root.
            own = host.path("/proc/{0}".format(process.pid))
            os.makedirs(own)
            os.symlink(os.readlink("/proc/{0}/exe".format(process.pid))[len(host.root) :], own + "/exe")
            shutil.copy("/proc/{0}/comm".format(process.pid), own + "/comm")
            done = run(host, hpcx.RESOURCE, wanted(host, keep=0))
            words = "/opt/hpcx/2.23 is kept while process {0} (sleep) runs from it".format(process.pid)
            assert words in done.plan.notes and whole(host, "/opt/hpcx/2.23")
            with pytest.raises(Refused):
                run(host, hpcx.RESOURCE, wanted(host, "2.23", present=False))
        finally:
            process.kill()
    shutil.rmtree(own)
    assert run(host, hpcx.RESOURCE, wanted(host, keep=0)).changed and host.names("/opt/hpcx") == ["2.24.1", "current"]


@pytest.mark.parametrize(
    "maps, used",
    [
        ("7f00-7f01 r-xp 00000000 08:01 42   /opt/hpcx/2.23/ucx/lib/libucp.so.0\n", True),
        ("7f00-7f01 r-xp 00000000 08:01 42   /opt/hpcx/2.23/ucx/lib/libucp.so.0 (deleted)\n", True),
        ("7f00-7f01 r-xp 00000000 08:01 42   /opt/hpcx/2.23.1/ucx/lib/libucp.so.0\n", False),
        ("7f00-7f01 rw-p 00000000 00:00 0 \n[heap]\n", False),
    ],
)
def test_a_loaded_library_counts(host, maps, used):
    run(host, hpcx.RESOURCE, wanted(host, "2.23"))
    os.makedirs(host.path("/proc/77"))
    with open(host.path("/proc/77/maps"), "w", encoding="ascii") as stream:
        stream.write(maps)
    run(host, hpcx.RESOURCE, wanted(host, keep=0))
    assert host.exists("/opt/hpcx/2.23") is used


def test_one_of_the_image_is_adopted_and_never_changed(host):
    hpcx_tarball.image_tree(host.root, "/opt/hpcx-v2.18-gcc-x86_64")
    before = hpcx_tarball.tree(host.root, "opt/hpcx-v2.18-gcc-x86_64")
    done = run(host, hpcx.RESOURCE, hpcx.Desired())
    facts = hpcx.RESOURCE.facts(done, hpcx.Desired())
    assert (facts["home"], facts["version"], facts["adopted"]) == ("/opt/hpcx-v2.18-gcc-x86_64", "2.18", True)
    assert os.readlink(host.path("/opt/hpcx/current")) == "/opt/hpcx-v2.18-gcc-x86_64"
    assert "/opt/hpcx-v2.18-gcc-x86_64" in host.read(LUA + "hpcx-2.18.lua")
    settled(host, hpcx.Desired())
    # A version of one's own goes beside it.
    run(host, hpcx.RESOURCE, wanted(host))
    assert os.readlink(host.path("/opt/hpcx/current")) == "2.24.1"
    run(host, hpcx.RESOURCE, hpcx.Desired(present=False))
    assert hpcx_tarball.tree(host.root, "opt/hpcx-v2.18-gcc-x86_64") == before
    assert host.names("/opt") == ["hpcx-v2.18-gcc-x86_64"] and host.names("/etc/lmod/modules") == []


def test_one_of_the_image_with_the_wanted_version_is_not_installed_again(host):
    hpcx_tarball.image_tree(host.root, "/opt/hpcx-v2.24.1-gcc-x86_64", "2.24.1")
    desired = hpcx.Desired(source="https://nowhere.invalid/x", sha256="0" * 64, version="2.24.1")
    assert hpcx.RESOURCE.facts(run(host, hpcx.RESOURCE, desired), desired)["adopted"]
    never = dataclasses.replace(desired, adopt="never")
    assert "install HPC-X 2.24.1" in str([one.describe() for one in run(host, hpcx.RESOURCE, never, True).plan.actions])


def test_any_of_the_image_is_used_when_asked_and_told(host):
    hpcx_tarball.image_tree(host.root, "/opt/hpcx-v2.18-gcc-x86_64")
    done = run(host, hpcx.RESOURCE, wanted(host, adopt="any"))
    assert hpcx.RESOURCE.facts(done, wanted(host, adopt="any"))["version"] == "2.18"
    assert "is used instead of 2.24.1" in done.plan.notes[0]


def test_a_prefix_that_is_a_tree_of_somebodys_gets_nothing_put_into_it(host):
    hpcx_tarball.image_tree(host.root, "/opt/hpcx")
    before = hpcx_tarball.tree(host.root)
    done = run(host, hpcx.RESOURCE, hpcx.Desired())
    facts = hpcx.RESOURCE.facts(done, hpcx.Desired())
    assert (facts["home"], facts["current"]) == ("/opt/hpcx", None) and hpcx_tarball.tree(host.root) == before
    settled(host, hpcx.Desired())
    with pytest.raises(Refused) as error:
        run(host, hpcx.RESOURCE, wanted(host))
    assert "/opt/hpcx: it is an HPC-X that is not ours; give another prefix." == str(error.value)
    run(host, hpcx.RESOURCE, wanted(host, prefix="/opt/site/hpcx"))
    assert whole(host, "/opt/site/hpcx/current")
    run(host, hpcx.RESOURCE, hpcx.Desired(present=False, prefix="/opt/site/hpcx"))
    assert hpcx_tarball.tree(host.root) == before


def test_an_adopted_tree_that_went_takes_its_modulefiles_along(host):
    hpcx_tarball.image_tree(host.root, "/opt/hpcx-v2.18-gcc-x86_64")
    run(host, hpcx.RESOURCE, hpcx.Desired())
    shutil.rmtree(host.path("/opt/hpcx-v2.18-gcc-x86_64"))
    assert run(host, hpcx.RESOURCE, hpcx.Desired()).changed and host.names("/etc/lmod/modules") == []
    done = run(host, hpcx.RESOURCE, hpcx.Desired())
    assert not done.changed and "no HPC-X" in done.plan.skipped and host.names("/opt") == []


def test_what_is_somebody_elses_stays(host):
    os.makedirs(host.path("/opt/hpcx/2.24.1"))
    with pytest.raises(Refused) as error:
        run(host, hpcx.RESOURCE, wanted(host))
    assert "/opt/hpcx/2.24.1: it is there and is not ours" in str(error.value)
    os.rmdir(host.path("/opt/hpcx/2.24.1"))
    os.symlink("/srv", host.path("/opt/hpcx/current"))
    with pytest.raises(Refused) as error:
        run(host, hpcx.RESOURCE, wanted(host))
    assert "/opt/hpcx/current" in str(error.value)
    os.unlink(host.path("/opt/hpcx/current"))
    host.write(LUA + "hpcx.lua", "-- the site's\n")
    done = run(host, hpcx.RESOURCE, wanted(host))
    assert "mpi/hpcx.lua is not ours" in done.plan.notes[0] and host.read(LUA + "hpcx.lua") == "-- the site's\n"
    run(host, hpcx.RESOURCE, hpcx.Desired(present=False))
    assert host.names("/opt") == ["hpcx"] and host.read(LUA + "hpcx.lua") == "-- the site's\n"


def test_a_copy_of_a_tree_of_ours_is_somebodys(host):
    run(host, hpcx.RESOURCE, wanted(host))
    shutil.copytree(host.path("/opt/hpcx/2.24.1"), host.path("/opt/hpcx/mine"), symlinks=True)
    run(host, hpcx.RESOURCE, hpcx.Desired(present=False))
    assert host.names("/opt/hpcx") == ["mine"] and whole(host, "/opt/hpcx/mine")


def test_a_wrong_sum_installs_nothing_and_leaves_the_old_version_working(host):
    run(host, hpcx.RESOURCE, wanted(host, "2.23"))
    before = hpcx_tarball.tree(host.root)
    wrong = dataclasses.replace(wanted(host), source="/srv/2.24.1.tbz", sha256="0" * 64)
    with pytest.raises(NodeError) as error:
        run(host, hpcx.RESOURCE, wrong)
    assert "/srv/2.24.1.tbz: its sha256 is" in str(error.value)
    assert hpcx_tarball.tree(host.root) == before and whole(host)
    run(host, hpcx.RESOURCE, hpcx.Desired())
    settled(host, hpcx.Desired())
    assert hpcx_tarball.tree(host.root) == before and os.readlink(host.path("/opt/hpcx/current")) == "2.23"


@pytest.mark.parametrize(
    "version, options, told",
    [
        ("2.24.1", {"without": ("ucx",)}, "it holds no HPC-X"),
        ("2.25", {}, "it holds HPC-X 2.24.1, not 2.25; give version: 2.24.1"),
        ("2.24.1", {"mode": "w"}, None),
        ("2.24.1-cuda12", {"mode": "w:gz"}, None),
        ("v2.24.1", {"mode": "w:xz"}, None),
    ],
)
def test_what_the_tarball_holds(host, version, options, told):
    desired = of(hpcx.Desired, dict(hpcx_tarball.source(host.root, **options), version=version))
    if told is None:
        run(host, hpcx.RESOURCE, desired)
        assert whole(host)
        settled(host, desired)
        return
    with pytest.raises(NodeError) as error:
        run(host, hpcx.RESOURCE, desired)
    assert told in str(error.value) and host.names("/opt/hpcx") == []


class Killed:
    """Ends the process right before its n-th effect on the file system, as a power cut would."""

    EFFECTS = ("os.mkdir", "os.rename", "os.symlink", "os.link", "os.remove", "os.rmdir", "os.chmod", "os.utime")

    def __init__(self, after):
        self.left, self.unpacked = after, 0

    def __call__(self, event, arguments):
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if writes or event in self.EFFECTS:
            if ".2.24.1.partial/" in str(arguments[0]):
                # One file after the other is unpacked: each eighth stands for those beside it.
                self.unpacked += 1
                if self.unpacked % 8:
                    return
            if self.left == 0:
                os._exit(9)
            self.left -= 1


def killed_run(host, desired, after):
    """Whether the run was killed before its end."""
    pid = os.fork()
    if pid == 0:
        try:
            sys.addaudithook(Killed(after))
            run(host, hpcx.RESOURCE, desired)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


@pytest.fixture(name="in_memory")
def _in_memory(tmp_path):
    """Where a file system is synchronised at no cost, which a hundred installations need."""
    if not os.path.isdir("/dev/shm"):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield pathlib.Path(folder)


@pytest.mark.parametrize("what", ["upgrade", pytest.param("absent", marks=pytest.mark.soak)])
def test_killed_anywhere_there_is_always_a_whole_one_and_the_next_run_ends_it(host, in_memory, what):
    run(host, hpcx.RESOURCE, wanted(host, "2.23"))
    desired = wanted(host, keep=0) if what == "upgrade" else hpcx.Desired(present=False)
    after, kills = 0, 0
    while True:
        copy = Host(str(in_memory / "copy"))
        shutil.copytree(host.root, copy.root, symlinks=True)
        killed = killed_run(copy, desired, after)
        if what == "upgrade":
            assert whole(copy), after
            for name in copy.names("/opt/hpcx"):
                assert name.startswith(".") or whole(copy, "/opt/hpcx/" + name), (after, name)
        if not killed:
            break
        kills += 1
        run(copy, hpcx.RESOURCE, desired)
        settled(copy, desired)
        if what == "upgrade":
            assert os.readlink(copy.path("/opt/hpcx/current")) == "2.24.1" and copy.names("/opt/hpcx")[0] == "2.24.1"
        else:
            assert copy.names("/opt") == [] and declaration.read(copy) == {} and copy.names("/etc/lmod/modules") == []
        shutil.rmtree(copy.root)
        after += 1
    assert kills > 15
