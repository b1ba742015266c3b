# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where environments lie, who uses them, nodes that share a folder, and what users get."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import shutil
import stat
import subprocess
import threading
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import declaration
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.environments import read_mark
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.module_systems import SUFFIXES
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Refused
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import python_env
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.python_env import build, user_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.python_env.apply import STEPS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.python_env.observe import inputs_of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.python_env.resolve import wishes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.python_env.types import MakeTop
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.hpcx.test_hpcx_modulefiles import (  # noqa: E501
    SHOW,
    module_command,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.python_env import env_node

LINK = env_node.FOLDER + "/ds"
MOUNT = "40 1 0:30 / {0} rw,relatime shared:1 - {1} server:/x rw\n"


@pytest.fixture(name="host")
def _host(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return env_node.node(tmp_path / "node")


@pytest.fixture(name="quick")
def _quick(monkeypatch):
    """A build that only makes the folder: what is decided around it is the same."""

    def fake(bench, dummy):
        os.makedirs(bench.tree + "/bin")
        with open(bench.tree + "/bin/python", "w", encoding="utf-8") as stream:
            stream.write("#!/bin/sh\n")
        return ""

    monkeypatch.setattr(build, "_of_venv", fake)


def converge(host, desired, **rest):
    return run(host, python_env.RESOURCE, desired, **rest)


def alpha(*packages, **rest):
    return env_node.wanted({"packages": list(packages or ["alpha"])}, **rest)


def trees(host):
    return [name for name in host.names(env_node.FOLDER) if name.startswith("ds-")]


def process_on(host, process):
    """Have a process in the node's /proc, which tells paths from the node's root."""
    own = host.path("/proc/{0}".format(process.pid))
    os.makedirs(own)
    deadline = time.monotonic() + 30
    while not pathlib.Path("/proc/{0}/cmdline".format(process.pid)).read_bytes():
        assert time.monotonic() < deadline  # for a moment after it was started it has none
    for name in ("cmdline", "environ", "comm"):
        with open("/proc/{0}/{1}".format(process.pid, name), "rb") as stream:
            content = stream.read().replace(host.root.encode(), b"")
        with open(own + "/" + name, "wb") as stream:
            stream.write(content)
    return own


@pytest.mark.parametrize("through", ["link", "tree", "environment"])
def test_one_that_a_process_uses_is_never_removed(host, quick, through):
    """An interpreter of a venv is the system's: nothing of the tree is loaded, and it loads from it later."""
    converge(host, alpha())
    (old,) = trees(host)
    words = {"link": [LINK + "/bin/python"], "tree": ["/scratch/envs/" + old + "/bin/python"]}.get(through, ["sleep"])
    environment = {"PATH": "/usr/bin:/bin", "VIRTUAL_ENV": LINK} if through == "environment" else {"PATH": "/usr/bin"}
    program = words[0] if through == "environment" else host.root + words[0]
    with subprocess.Popen([program, "60"], executable="/bin/sleep", env=environment) as process:
        try:
            own = process_on(host, process)
            done = converge(host, alpha("alpha", "beta", keep=0))
            assert old in trees(host) and len(trees(host)) == 2
            words = "/scratch/envs/{0} is kept while process {1} (sleep) uses it".format(old, process.pid)
            assert words in done.plan.notes
            with pytest.raises(Refused):
                converge(host, env_node.wanted(state="absent"))
        finally:
            process.kill()
    shutil.rmtree(own)
    converge(host, alpha("alpha", "beta", keep=0))
    assert len(trees(host)) == 1 and old not in trees(host)


def test_a_folder_that_others_could_change_is_refused(host, quick):
    folder = host.path(env_node.FOLDER)
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    with pytest.raises(Refused) as error:
        converge(host, alpha())
    assert "/scratch/envs: others than root may write to it" in str(error.value)
    os.chmod(folder, 0o755)
    # On the way a folder where each may only remove his own will do; another will not.
    os.chmod(host.path("/scratch"), 0o1777)
    assert converge(host, alpha(), check_mode=True).changed
    os.chmod(host.path("/scratch"), 0o777)
    with pytest.raises(Refused) as error:
        converge(host, alpha())
    assert "/scratch: others than root may write to it" in str(error.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of somebody else's")
def test_a_folder_that_a_user_took_is_refused_also_in_the_last_moment(host, quick):
    os.chmod(host.path("/scratch"), 0o1777)
    os.mkdir(host.path(env_node.FOLDER))
    os.chown(host.path(env_node.FOLDER), 1000, 1000)
    with pytest.raises(Refused) as error:
        converge(host, alpha())
    assert "it belongs to user 1000, who could change what all jobs run" in str(error.value)
    with pytest.raises(NodeError) as error:
        STEPS[MakeTop](host, MakeTop(env_node.FOLDER), alpha())
    assert "somebody has made it in the meantime" in str(error.value)


def test_what_is_not_ours_is_left_alone(host, quick):
    desired = alpha()
    path = wishes(inputs_of(host, desired), desired)[0][0].path(env_node.FOLDER)
    os.makedirs(host.path(path))
    with pytest.raises(Refused) as error:
        converge(host, desired)
    assert path + ": it is there and is not ours" in str(error.value)
    os.rmdir(host.path(path))
    os.symlink("/srv/theirs", host.path(LINK))
    with pytest.raises(Refused) as error:
        converge(host, desired)
    assert LINK + ": it is there and is not ours" in str(error.value)
    os.unlink(host.path(LINK))
    converge(host, desired)
    # A copy of ours runs from where it came from, and is nobody's but who made it.
    shutil.copytree(host.path(env_node.FOLDER), host.path("/scratch/copy"), symlinks=True)
    assert read_mark(host, path) is not None and read_mark(host, path.replace("/envs/", "/copy/")) is None
    shutil.copytree(host.path(path), host.path("/scratch/envs/copy-000000000000"))
    converge(host, env_node.wanted(state="absent"))
    assert host.names("/scratch/envs") == ["copy-000000000000"] and declaration.read(host) == {}


def test_the_scratch_of_the_node_is_the_place_where_none_is_given(host, quick):
    desired = alpha(folder="")
    with pytest.raises(Refused) as error:
        converge(host, desired)
    assert "the scratch: it is not declared, and no folder is given" in str(error.value)
    host.write(declaration.PATH, '{"nvme_scratch": {"mount_point": "/mnt/fast", "adopt": false}}')
    with pytest.raises(Refused) as error:
        converge(host, desired)
    assert "the scratch: it is not mounted, and no folder is given" in str(error.value)
    # Nothing is put under the mount point of a scratch that is not there.
    with pytest.raises(Refused) as error:
        converge(host, alpha(folder="/mnt/fast/envs"))
    assert "it is to lie on the scratch, which is not mounted; mount /mnt/fast" in str(error.value)
    os.makedirs(host.path("/mnt/fast"))
    host.write("/proc/self/mountinfo", MOUNT.format("/mnt/fast", "xfs"))
    converge(host, desired)
    assert [name[:3] for name in host.names("/mnt/fast/envs")] == ["ds", "ds-"]
    # A scratch that was made anew has none of them.
    shutil.rmtree(host.path("/mnt/fast/envs"))
    assert converge(host, desired).changed and not converge(host, desired).changed


def nodes_with_one_folder(tmp_path):
    """Two nodes, each with its own locks and the folder of one server."""
    common = tmp_path / "common"
    common.mkdir()
    hosts = []
    for name in ("one", "two"):
        host = env_node.node(tmp_path / name)
        os.rmdir(host.path("/scratch"))
        os.symlink(str(common), host.path("/scratch"))
        host.write("/proc/self/mountinfo", MOUNT.format(common, "nfs4"))
        hosts.append(host)
    return hosts


def test_nodes_that_share_a_folder_take_turns_and_one_builds_for_all(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    hosts = nodes_with_one_folder(tmp_path)
    built, meanwhile = [], threading.Event()

    def fake(bench, dummy):
        built.append(bench.tree)
        assert os.path.exists(str(tmp_path / "common/envs/.gpu_node.turn"))
        meanwhile.wait(1.0)
        os.makedirs(bench.tree + "/bin")
        return ""

    monkeypatch.setattr(build, "_of_venv", fake)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda host: converge(host, alpha()), hosts))
    assert len(built) == 1
    for host in hosts:
        assert not converge(host, alpha()).changed
        assert "/scratch/envs/ds-" in host.read("/etc/lmod/modules/env/ds.lua")
    # What other nodes may use stays, of a former content and when one node is taken out.
    (old,) = trees(hosts[0])
    done = converge(hosts[0], alpha("beta", keep=0))
    assert old in trees(hosts[0]) and any(old in one and "on a network file system" in one for one in done.plan.notes)
    converge(hosts[0], env_node.wanted(state="absent"))
    assert len(trees(hosts[1])) == 2 and os.path.exists(hosts[1].path(LINK))
    assert not hosts[0].names("/etc/lmod/modules/env") and declaration.read(hosts[0]) == {}


USERS = {"user_folder": "/scratch/$USER", "find_links": ""}
ECHO = """
for name in XDG_CACHE_HOME PIP_CACHE_DIR HF_HOME TORCH_HOME TORCH_EXTENSIONS_DIR CONDA_ENVS_PATH; do
  eval "echo $name=\\${$name-}"
done
"""


def logged_in(host, shell="sh", uid=1000, **environment):
    """What a login shell of a user has after the file in profile.d."""
    programs = host.path("/programs")
    os.makedirs(programs, exist_ok=True)
    with open(programs + "/id", "w", encoding="utf-8") as stream:
        stream.write("#!/bin/sh\necho {0}\n".format(uid))
    os.chmod(programs + "/id", 0o755)
    text = (
        host.read(user_files.PROFILE)
        .replace("/scratch/", host.path("/scratch/"))
        .replace("/fast/", host.path("/fast/"))
    )
    own = {"PATH": programs + ":/usr/bin:/bin", "USER": "ada", "CONDA_ENVS_PATH": "/sites"}
    done = subprocess.run(
        [shell, "-euc", text + ECHO], env=dict(own, **environment), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_caches_of_users_go_to_scratch_and_homes_stay_empty(host, shell):
    if shutil.which(shell) is None:
        pytest.skip("{0} is not installed".format(shell))
    os.chmod(host.path("/scratch"), 0o1777)
    converge(host, env_node.wanted(**USERS))
    found = logged_in(host, shell, HF_HOME="/mine")
    own = host.path("/scratch/ada")
    assert found["XDG_CACHE_HOME"] == own + "/cache" and found["PIP_CACHE_DIR"] == own + "/cache/pip"
    assert (found["HF_HOME"], found["TORCH_EXTENSIONS_DIR"]) == ("/mine", own + "/cache/torch_extensions")
    assert found["CONDA_ENVS_PATH"] == "/sites" and stat.S_IMODE(os.stat(own).st_mode) == 0o700
    # Not for the system's users, and not into what is no folder of the user's own.
    assert not logged_in(host, shell, uid=0)["XDG_CACHE_HOME"]
    os.rmdir(own)
    os.symlink(host.path("/etc"), own)
    assert not logged_in(host, shell)["XDG_CACHE_HOME"]
    os.unlink(own)
    if os.geteuid() == 0 and os.getuid() == 0:
        os.mkdir(own)
        os.chown(own, 1234, 1234)
        assert not logged_in(host, shell)["XDG_CACHE_HOME"]
        os.rmdir(own)
    os.mkdir(host.path("/fast"))
    converge(host, env_node.wanted(extensions_folder="/fast/$USER", unset_conda_paths=True, **USERS))
    found = logged_in(host, shell)
    assert found["TORCH_EXTENSIONS_DIR"] == host.path("/fast/ada/torch_extensions") and not found["CONDA_ENVS_PATH"]


def test_condas_settings_and_their_undo(host):
    before = sorted(host.names("/etc"))
    converge(host, env_node.wanted(**USERS))
    assert host.read(user_files.CONDARC).splitlines()[2:] == [
        "auto_update_conda: false",
        "pkgs_dirs:",
        "  - /scratch/$USER/conda/pkgs",
        "envs_dirs:",
        "  - /scratch/$USER/conda/envs",
    ]
    converge(host, env_node.wanted(find_links=""))  # no longer asked for
    assert not host.exists(user_files.CONDARC) and not host.exists(user_files.PROFILE)
    converge(host, env_node.wanted(**USERS))
    host.write(user_files.PROFILE, "# theirs\n")
    done = converge(host, env_node.wanted(**USERS))
    assert "/etc/profile.d/gpu_node_python.sh is not ours, so it is left as it is" in done.plan.notes
    converge(host, env_node.wanted(state="absent"))
    assert host.read(user_files.PROFILE) == "# theirs\n"
    os.unlink(host.path(user_files.PROFILE))
    shutil.rmtree(host.path("/etc/profile.d"))
    assert [name for name in host.names("/etc") if name != "gpu_node"] == [
        name for name in before if name != "gpu_node"
    ]


def test_extensions_on_a_network_file_system_are_a_note(host):
    host.write("/proc/self/mountinfo", MOUNT.format("/scratch", "lustre"))
    done = converge(host, env_node.wanted(**USERS))
    assert any(
        "the ranks of a job wait for each other's locks; give extensions_folder" in one for one in done.plan.notes
    )
    done = converge(host, env_node.wanted(extensions_folder="/fast/$USER", **USERS))
    assert not done.plan.notes


@pytest.mark.parametrize("kind", sorted(SUFFIXES))
def test_the_modulefile_under_its_module_system(host, tmp_path, kind):
    command = module_command(kind)
    if command is None:
        pytest.skip("run make setup, or install {0}, to see its modules load".format(kind.replace("_", "-")))
    desired = alpha(unset_conda_paths=True)
    (wish,) = wishes(inputs_of(host, desired), desired)[0]
    folder = tmp_path / "modules/env"
    folder.mkdir(parents=True)
    (folder / ("ds" + SUFFIXES[kind])).write_text(user_files.modulefile(kind, wish, "/envs/ds-1", desired))
    module = 'module() { eval "$(' + command + ' "$@")"; }\n'
    environment = {
        "PATH": "/usr/bin:/bin",
        "MODULEPATH": str(folder.parent),
        "HOME": str(tmp_path),
        "USER": "x",
        "CONDA_ENVS_PATH": "/sites",
        "PYTHONPATH": "/home/x/lib",
        "LMOD_IGNORE_CACHE": "1",
    }
    lines = "show before; module load env/ds; show loaded; module unload env/ds; show after"
    done = subprocess.run(
        ["bash", "-c", module + SHOW + lines], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    seen = {
        word: dict(one.split(" ", 1)[1].split("=", 1) for one in done.stdout.splitlines() if one.startswith(word + " "))
        for word in ("loaded", "after")
    }
    loaded = seen["loaded"]
    assert loaded["PATH"].startswith("/envs/ds-1/bin:/usr/bin") and loaded["VIRTUAL_ENV"] == "/envs/ds-1", done.stderr
    assert "CONDA_ENVS_PATH" not in loaded and "PYTHONPATH" not in loaded and loaded["PYTHONNOUSERSITE"] == "1"
    assert "VIRTUAL_ENV" not in seen["after"] and seen["after"]["PATH"] == "/usr/bin:/bin"


def test_a_python_that_is_none_is_told(host):
    with pytest.raises(Refused) as error:
        converge(host, env_node.wanted({"packages": ["alpha"], "python": "/usr/bin/false"}))
    assert "environment ds: /usr/bin/false is no Python 3 that can be run" in str(error.value)
