# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node command: every state planned, and the steps carried out in a folder that stands for a node."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils import node_runtime
from ansible_collections.trainyard.gpu_node.plugins.module_utils.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node_runtime.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node_runtime.types import (
    Desired,
    InstallZipapp,
    LinkCommand,
    RemoveCommand,
    RemoveZipapp,
    State,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resource import NodeError

ZIPAPP = "/opt/gpu_node/gpunode.pyz"


def states():
    for sha256, mode, command, empty in itertools.product(
        (None, "a", "b"), (None, 0o755, 0o600), (None, "file", ZIPAPP, "/elsewhere"), (True, False)
    ):
        if (sha256 is None) == (mode is None):
            yield State(sha256 is not None or not empty, empty, sha256, mode, command)


def after(state, actions):
    """What the actions make of a state."""
    values = dict(state.__dict__)
    for action in actions:
        if isinstance(action, InstallZipapp):
            values.update(folder_exists=True, sha256=action.sha256, mode=0o755)
        elif isinstance(action, LinkCommand):
            values.update(command=ZIPAPP)
        elif isinstance(action, RemoveCommand):
            values.update(command=None)
        elif isinstance(action, RemoveZipapp):
            values.update(sha256=None, mode=None, folder_exists=not state.folder_empty_otherwise)
    return State(**values)


@pytest.mark.parametrize("state", list(states()))
@pytest.mark.parametrize("sha256", [None, "a"])
def test_every_state_ends_as_wanted_or_is_refused_for_a_foreign_command(state, sha256):
    result = plan(state, Desired(sha256))
    foreign = state.command not in (None, ZIPAPP)
    assert bool(result.refusals) == (foreign and sha256 is not None)
    if not result.refusals:
        end = after(state, result.actions)
        assert not plan(end, Desired(sha256)).actions
        assert end.sha256 == sha256
        assert end.command == (state.command if foreign else ZIPAPP if sha256 else None)


def test_it_is_installed_replaced_and_removed_and_leaves_nothing(tmp_path):
    host = Host(str(tmp_path))
    source = tmp_path / "source"
    for content in (b"one", b"two"):
        source.write_bytes(content)
        desired = Desired(hashlib.sha256(content).hexdigest())
        assert node_runtime.run(host, desired, str(source)).changed
        assert not node_runtime.run(host, desired, str(source)).changed
        assert (tmp_path / "opt/gpu_node/gpunode.pyz").read_bytes() == content
    assert node_runtime.run(host, Desired(None)).changed
    assert not node_runtime.run(host, Desired(None)).changed
    assert not (tmp_path / "opt/gpu_node").exists()
    assert not os.path.lexists(str(tmp_path / "usr/local/bin/gpunode"))


def test_a_file_damaged_on_the_way_is_not_installed(tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"damaged")
    with pytest.raises(NodeError, match="damaged on the way"):
        node_runtime.run(Host(str(tmp_path)), Desired(hashlib.sha256(b"whole").hexdigest()), str(source))
    assert not (tmp_path / "opt/gpu_node/gpunode.pyz").exists()


def test_somebody_elses_command_is_left_alone(tmp_path):
    (tmp_path / "usr/local/bin").mkdir(parents=True)
    (tmp_path / "usr/local/bin/gpunode").write_text("theirs")
    with pytest.raises(NodeError, match="/usr/local/bin/gpunode: it exists and is not our link"):
        node_runtime.run(Host(str(tmp_path)), Desired("a" * 64), None)


def test_the_zipapp_is_reproducible_and_runs(tmp_path):
    pytest.importorskip("pynvml", reason="the controller part needs nvidia-ml-py")
    from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import zipapp

    content = zipapp.build()
    assert content == zipapp.build()
    path = tmp_path / "gpunode.pyz"
    path.write_bytes(content)
    # -I: nothing but the zipapp and the standard library can be imported.
    done = subprocess.run(
        [sys.executable, "-I", str(path), "apply", "--check", "--json"], stdout=subprocess.PIPE, check=False
    )
    assert {result["resource"] for result in json.loads(done.stdout)["resources"]} == {"scratch", "settings"}
