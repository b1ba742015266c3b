# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real environments of conda, made by py-rattler from a channel in a folder: locked, solved, cloned."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Refused
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import python_env
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.python_env import build
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.python_env import (
    conda_program,
    env_node,
)

pytest.importorskip("rattler", reason="run make setup to have py-rattler, which makes environments of conda")
LINK = env_node.FOLDER + "/ds"


@pytest.fixture(name="host")
def _host(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    host = env_node.node(tmp_path / "node")
    conda_program.program(host.path("/usr"))
    return host


def wanted(**environment):
    rest = {name: environment.pop(name) for name in ("channels", "keep", "state") if name in environment}
    return env_node.wanted(dict({"kind": "conda"}, **environment), conda="/usr/conda", find_links="", **rest)


def converge(host, desired):
    return run(host, python_env.RESOURCE, desired)


def locked(host, *packages):
    """Their paths as the node has them."""
    lines = ["file://{0}#sha256:{1}\n".format(path[len(host.root) :], digest) for path, digest in packages]
    return "# platform: linux-64\n@EXPLICIT\n" + "".join(lines)


def said(host, program):
    return subprocess.run([host.path(LINK) + "/bin/" + program], capture_output=True, text=True, check=True).stdout


def test_a_list_with_sums_makes_an_environment_without_a_network(host, tmp_path):
    tool = conda_program.package(tmp_path / "node/channel", "tool")
    library = conda_program.package(tmp_path / "node/channel", "library")
    desired = wanted(lock=locked(host, library, tool), verify_commands=["tool"])
    done = converge(host, desired)
    facts = python_env.RESOURCE.facts(done, desired)["environments"][0]
    # The prefix in its files is that of the tree: it was built where it stays.
    assert said(host, "tool") == "tool 1.0 in {0}\n".format(host.path(facts["path"]))
    assert {one.name for one in (tmp_path / "node" / facts["path"][1:] / "conda-meta").glob("*-1.0-0.json")} == {
        "tool-1.0-0.json",
        "library-1.0-0.json",
    }
    assert host.read(facts["path"] + "/gpu_node.lock").startswith("@EXPLICIT\nfile://")
    assert not converge(host, desired).changed and not os.listdir(os.environ["HOME"])
    assert not [name for name in host.names(env_node.FOLDER) if name.startswith(".")]


def test_the_list_that_all_users_read_has_no_token(host, tmp_path, monkeypatch):
    path, digest = conda_program.package(tmp_path / "mirror", "tool")
    asked = []

    def fetch(host, source, folder, dummy):
        asked.append(source.source)
        os.makedirs(host.path(folder), exist_ok=True)
        shutil.copy(path, host.path(folder + "/file"))
        return folder + "/file"

    monkeypatch.setattr(build.artefact, "fetch", fetch)
    url = "https://conda.example.com{0}/main/noarch/" + os.path.basename(path)
    desired = wanted(lock="@EXPLICIT\n{0}#sha256:{1}\n".format(url.format("/t/tk-1234-5678"), digest))
    done = converge(host, desired)
    facts = python_env.RESOURCE.facts(done, desired)["environments"][0]
    lock = host.read(facts["path"] + "/gpu_node.lock")
    assert lock == "@EXPLICIT\n{0}#sha256:{1}\n".format(url.format(""), digest)
    assert asked == [url.format("/t/tk-1234-5678")]
    assert not converge(host, wanted(lock=lock)).changed  # it is a lock of the same environment
    assert "tk-1234" not in host.read("/run/gpu_node/python_env-ds.log")


def test_a_package_that_is_not_the_one_of_the_list_leaves_the_former_environment(host, tmp_path):
    tool = conda_program.package(tmp_path / "node/channel", "tool")
    converge(host, wanted(lock=locked(host, tool)))
    first = os.readlink(host.path(LINK))
    other = conda_program.package(tmp_path / "node/channel", "other")
    with pytest.raises(NodeError) as error:
        converge(host, wanted(lock=locked(host, tool, (other[0], "c" * 64))))
    assert "its sha256 is {0}, not {1}".format(other[1], "c" * 64) in str(error.value)
    assert os.readlink(host.path(LINK)) == first and said(host, "tool")
    assert not [name for name in host.names(env_node.FOLDER) if name.startswith(".")]


def test_channels_are_solved_and_an_environment_of_the_site_is_cloned(host, tmp_path):
    conda_program.package(tmp_path / "node/channel", "library", "2.0")
    conda_program.package(tmp_path / "node/channel", "tool", depends=["library >=1"])
    conda_program.index(tmp_path / "node/channel")
    channel = "file://" + str(tmp_path / "node/channel")
    done = converge(host, wanted(packages=["tool"], channels=[channel]))
    assert said(host, "library").startswith("library 2.0 in ") and "not locked" in done.plan.notes[0]
    # What the site has, and what it gets later: another environment then.
    site = os.readlink(host.path(LINK))
    os.rename(host.path(env_node.FOLDER + "/" + site), host.path("/scratch/site"))
    os.unlink(host.path(LINK))
    clone = wanted(clone_of="/scratch/site")
    converge(host, clone)
    first = os.readlink(host.path(LINK))
    assert said(host, "tool").startswith("tool 1.0 in " + host.path(env_node.FOLDER + "/" + first))
    assert not converge(host, clone).changed
    metadata = tmp_path / "node/scratch/site/conda-meta"
    (metadata / "library-2.0-0.json").rename(metadata / "library-2.1-0.json")
    converge(host, clone)
    assert os.readlink(host.path(LINK)) != first


@pytest.mark.parametrize(
    "environment, told",
    [
        ({"lock": "tool\n"}, "its lock: it is no explicit list of conda (a line @EXPLICIT)"),
        ({"lock": "@EXPLICIT\nhttps://c/noarch/a-1-0.conda#" + "a" * 32}, "a-1-0.conda has an MD5 and no SHA-256"),
        ({"lock": "@EXPLICIT\nhttps://c/noarch/a-1-0.conda"}, "a-1-0.conda has no SHA-256"),
        ({"lock": "@EXPLICIT\nhttps://c/noarch/a.txt#" + "a" * 64}, "is no URL of a conda package"),
        ({"clone_of": "/nowhere"}, "/nowhere is no environment of conda"),
        ({"lock": "/nowhere"}, "its lock /nowhere cannot be read"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(host, environment, told):
    with pytest.raises(Refused) as error:
        converge(host, wanted(**environment))
    assert str(error.value).startswith("environment ds") and told in str(error.value)
    assert not host.names("/scratch")
    os.unlink(host.path("/usr/conda"))
    with pytest.raises(Refused) as error:
        converge(host, wanted(**environment))
    assert "neither conda, mamba nor micromamba is on the node" in str(error.value)
