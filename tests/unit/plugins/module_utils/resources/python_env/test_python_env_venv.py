# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real venvs from a folder of small packages: built, verified, switched, kept, removed; and killed at any moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import declaration
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Refused
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import python_env
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.python_env import env_node

LINK = env_node.FOLDER + "/ds"
LUA = "/etc/lmod/modules/env/ds.lua"


@pytest.fixture(name="python", scope="module")
def _python(tmp_path_factory):
    return env_node.fast_python(tmp_path_factory.mktemp("python"))


@pytest.fixture(name="host")
def _host(tmp_path, monkeypatch, python):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(env_node, "PYTHON", [python])
    monkeypatch.setenv("TEST_PYTHON", python)  # of the processes that tests start
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    host = env_node.node(tmp_path / "node")
    env_node.wheel(tmp_path / "node/wheels", "alpha", scripts={"alpha": "alpha:main"})
    return host


def converge(host, desired, check_mode=False):
    return run(host, python_env.RESOURCE, desired, check_mode=check_mode)


def said(host, words, program="python"):
    argv = [host.path(LINK) + "/bin/" + program, *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def trees(host):
    return [name for name in host.names(env_node.FOLDER) if name.startswith("ds-")]


def settled(host, desired):
    assert not converge(host, desired, check_mode=True).changed
    assert not converge(host, desired).changed
    assert not [name for name in host.names(env_node.FOLDER) if name.startswith(".")]


def test_built_verified_linked_and_undone(host, tmp_path):
    # tests/unit/plugins/modules/test_python_env.py builds one by the interpreter's own venv and pip.
    desired = env_node.wanted(
        {"packages": ["alpha"], "verify_imports": ["alpha"], "verify_commands": ["alpha | grep 1.0"]}
    )
    before = sorted(str(one) for one in tmp_path.rglob("*"))
    planned = converge(host, desired, check_mode=True)
    assert planned.changed and sorted(str(one) for one in tmp_path.rglob("*")) == before
    done = converge(host, desired)
    assert done.plan.actions == planned.plan.actions
    assert said(host, [], "alpha") == "alpha 1.0"
    (name,) = trees(host)
    facts = python_env.RESOURCE.facts(done, desired)["environments"][0]
    assert facts["path"] == env_node.FOLDER + "/" + name and facts["built"] and facts["sha256"].startswith(name[3:])
    assert facts["path"] + "/bin" in host.read(LUA)
    # What was installed, ready to be given as a lock.
    told = host.read(LINK + "/gpu_node.lock")
    if told is not None:
        assert told.startswith("alpha==1.0 --hash=sha256:")
    settled(host, desired)
    assert not os.listdir(os.environ["HOME"])
    converge(host, env_node.wanted(state="absent"))
    left = {os.path.relpath(str(one), host.root) for one in (tmp_path / "node").rglob("*")}
    assert not [one for one in left if "envs" in one or "env" in one.split("/")] and declaration.read(host) == {}


@pytest.mark.soak
def test_another_content_is_built_beside_and_the_former_one_is_kept_or_goes(host):
    first = env_node.wanted({"packages": ["alpha"]})
    converge(host, first)
    (old,) = trees(host)
    env_node.wheel(host.path("/wheels"), "beta")
    second = env_node.wanted({"packages": ["alpha", "beta"]})
    done = converge(host, second)
    assert len(trees(host)) == 2 and old in trees(host)
    assert os.readlink(host.path(LINK)) != old and said(host, ["-c", "import beta; print(beta.VERSION)"]) == "1.0"
    assert not [one for one in done.plan.actions if type(one).__name__ == "RemoveTree"]
    # Back: it is there already, so that nothing is built.
    back = converge(host, first)
    assert (
        not [one for one in back.plan.actions if type(one).__name__ == "BuildTree"]
        and os.readlink(host.path(LINK)) == old
    )
    converge(host, env_node.wanted({"packages": ["alpha"]}, keep=0))
    assert trees(host) == [old]
    settled(host, env_node.wanted({"packages": ["alpha"]}, keep=0))


def test_what_a_build_is_made_of_says_which_one_it_is(host):
    def digest(one=None, **rest):
        desired = env_node.wanted(dict({"packages": ["alpha"]}, **(one or {})), **rest)
        return converge(host, desired, check_mode=True).plan.actions

    def path(**options):
        return [one.path for one in digest(**options) if type(one).__name__ == "BuildTree"][0]

    plain = path()
    assert plain == path(one={"verify_imports": ["alpha"]}) == path(keep=3)
    assert len({plain, path(one={"packages": ["alpha==1.0"]}), path(cuda="12"), path(cuda="13")}) == 4
    # Build variables count where something is built.
    assert plain == path(one={"variables": {"X": "1"}}) == path(cuda_architectures=["8.0"])
    built = {"source_packages": ["alpha"]}
    assert (
        len({path(one=built), path(one=dict(built, variables={"X": "1"})), path(one=built, cuda_architectures=["8.0"])})
        == 3
    )


@pytest.mark.soak
def test_a_build_that_fails_leaves_the_link_where_it_was(host, tmp_path):
    good = env_node.wheel(tmp_path / "node/wheels", "alpha")
    sums = {"gamma": env_node.wheel(tmp_path / "node/wheels", "gamma", requires=["alpha"])}
    converge(host, env_node.wanted({"lock": env_node.lock(alpha=good)}))
    (first,) = trees(host)

    def failed(environment):
        with pytest.raises(NodeError) as error:
            converge(host, env_node.wanted(environment))
        assert trees(host) == [first] and os.readlink(host.path(LINK)) == first
        assert not [name for name in host.names(env_node.FOLDER) if name.startswith(".")]
        return str(error.value)

    # A lock demands the sum of every package, and what is needed and not listed is not fetched unseen.
    told = failed({"lock": env_node.lock(alpha="b" * 64)})
    assert "environment ds: pip install ended with status 1: ERROR: THESE PACKAGES DO NOT MATCH THE HASHES" in told
    assert "gamma 1.0 requires alpha, which is not installed" in failed({"lock": env_node.lock(**sums)})
    verify = "echo 'error: no NCCL at https://me:Zq7@host'; exit 3"
    told = failed({"packages": ["alpha>=1"], "verify_commands": [verify]})
    assert "ended with status 3: error: no NCCL at https://[hidden]@host; see /run/gpu_node/python_env-ds.log." in told
    assert "no NCCL at https://[hidden]@host" in host.read("/run/gpu_node/python_env-ds.log")


BACKEND = """
import os, sys, zipfile
import alpha  # built when all others are there
def build_wheel(folder, *dummy):
    told = [os.environ.get(name, "") for name in ("TORCH_CUDA_ARCH_LIST", "HOROVOD_GPU_OPERATIONS", "HOME", "ROOTS")]
    with zipfile.ZipFile(os.path.join(folder, "delta-1.0-py3-none-any.whl"), "w") as archive:
        info = "delta-1.0.dist-info/"
        archive.writestr("delta.py", "TOLD = " + repr(told))
        archive.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: delta\\nVersion: 1.0\\n")
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(info + "RECORD", "")
    return "delta-1.0-py3-none-any.whl"
"""


def sdist(folder, target):
    """A package that is built on the node, and tells what it was built with."""
    top = folder / "delta-1.0"
    top.mkdir()
    (top / "pyproject.toml").write_text(
        '[project]\nname = "delta"\nversion = "1.0"\n'
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (top / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: delta\nVersion: 1.0\n")
    (top / "backend.py").write_text(BACKEND)
    with tarfile.open(target + "/delta-1.0.tar.gz", "w:gz") as tar:
        tar.add(str(top), "delta-1.0")


def test_packages_are_built_last_with_their_variables_and_a_home_of_their_own(host, tmp_path, monkeypatch):
    monkeypatch.setenv("ROOTS", "secret")
    sdist(tmp_path, host.path("/wheels"))
    given = {
        "packages": ["alpha", "delta"],
        "source_packages": ["delta"],
        "variables": {"HOROVOD_GPU_OPERATIONS": "NCCL"},
    }
    converge(host, env_node.wanted(given, cuda_architectures=["8.0", "9.0"]))
    told = json.loads(said(host, ["-c", "import delta, json; print(json.dumps(delta.TOLD))"]))
    assert told[:2] == ["8.0;9.0", "NCCL"] and told[2].endswith(".work") and told[3] == ""
    # Of a package that is not named as such only a wheel is taken.
    with pytest.raises(NodeError) as error:
        converge(host, env_node.wanted({"packages": ["alpha", "delta"]}))
    assert "No matching distribution found for delta" in str(error.value)


KILLED = """
import os, sys
sys.path[:0] = {path!r}
os.geteuid = lambda: 0
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import python_env
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.python_env import env_node
desired = env_node.wanted({{"packages": ["alpha"], "verify_commands": [sys.argv[2]]}})
run(Host(sys.argv[1]), python_env.RESOURCE, desired)
"""


def started(host, check):
    code = KILLED.format(path=[one for one in sys.path if one])
    return subprocess.Popen([sys.executable, "-c", code, host.root, check], stderr=subprocess.PIPE, text=True)


def waited(path, process):
    deadline = time.monotonic() + 60
    while not os.path.exists(path):
        assert time.monotonic() < deadline and process.poll() is None, process.stderr.read()
        time.sleep(0.05)


@pytest.mark.soak
def test_killed_in_the_middle_the_old_one_stays_and_the_next_run_finishes(host, tmp_path):
    converge(host, env_node.wanted({"packages": ["alpha==1.0"]}))
    (old,) = trees(host)
    flag, go = str(tmp_path / "flag"), str(tmp_path / "go")
    # A helper that outlives the check, as compilers outlive a pip that was killed.
    check = "(while [ ! -e {1} ]; do sleep 0.1; done) & touch {0}; sleep 60".format(flag, go)
    with started(host, check) as process:
        waited(flag, process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert os.readlink(host.path(LINK)) == old and said(host, [], "alpha") == "alpha 1.0"
    desired = env_node.wanted({"packages": ["alpha"]})
    with pytest.raises(Refused) as error:
        converge(host, desired)
    assert "a program that an interrupted build started still works in it" in str(error.value)
    open(go, "w").close()
    deadline = time.monotonic() + 30
    while True:
        try:
            done = converge(host, desired)
            break
        except Refused:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert "RemoveHalf" in [type(one).__name__ for one in done.plan.actions]
    assert len(trees(host)) == 2 and os.readlink(host.path(LINK)) != old
    settled(host, desired)


@pytest.mark.soak
def test_two_builders_take_turns(host, tmp_path):
    flag, go = str(tmp_path / "flag"), str(tmp_path / "go")
    check = "echo x >> {0}; while [ ! -e {1} ]; do sleep 0.1; done".format(flag, go)
    with started(host, check) as one:
        waited(flag, one)
        with started(host, check) as two:
            time.sleep(1.0)
            assert two.poll() is None
            open(go, "w").close()
            assert (one.wait(60), two.wait(60)) == (0, 0)
    with open(flag) as stream:
        assert stream.read() == "x\n"  # the second had nothing to build
    assert len(trees(host)) == 1
