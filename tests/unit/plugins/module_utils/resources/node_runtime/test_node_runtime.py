# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node command: every state planned, and the steps carried out in a folder that stands for a node."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import io
import itertools
import json
import os
import subprocess
import sys
import zipfile

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import node_runtime
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_runtime.bytecode import with_bytecode
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_runtime.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_runtime.types import (
    Desired,
    InstallZipapp,
    LinkCommand,
    RemoveCommand,
    RemovePages,
    RemoveZipapp,
    State,
    WritePages,
)

ZIPAPP = "/opt/gpu_node/gpunode.pyz"


def states():
    pages = (((), ()), (("/man",), ()), (("/man",), ("/man",)), ((), ("/man",)))
    for sha256, mode, command, empty, (stale, ours) in itertools.product(
        (None, "a", "b"), (None, 0o755, 0o600), (None, "file", ZIPAPP, "/elsewhere"), (True, False), pages
    ):
        if sha256 is None or mode is not None:  # a file without a known source is damaged
            yield State(mode is not None or not empty, empty, sha256, mode, command, stale, ours)


def after(state, actions):
    """What the actions make of a state."""
    values = dict(state.__dict__)
    for action in actions:
        if isinstance(action, InstallZipapp):
            values.update(folder_exists=True, sha256=action.sha256, mode=0o755)
        elif isinstance(action, LinkCommand):
            values.update(command=ZIPAPP)
        elif isinstance(action, WritePages):
            values.update(stale_pages=(), our_pages=("/man",))
        elif isinstance(action, RemovePages):
            values.update(our_pages=())
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
        assert bool(sha256) or not end.our_pages
        assert not (sha256 and end.stale_pages)
        assert end.command == (state.command if foreign else ZIPAPP if sha256 else None)


def application(text, begun=""):
    """A small zipapp as a controller builds it, and its sha256. ``begun``: what it does before it imports."""
    buffer = io.BytesIO(b"#!/usr/bin/env python3\n")
    buffer.seek(0, io.SEEK_END)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("__main__.py", begun + "import part\n")
        archive.writestr("part.py", "print({0!r}, __spec__.cached or '')\n".format(text))
    return buffer.getvalue(), hashlib.sha256(buffer.getvalue()).hexdigest()


def test_it_is_installed_replaced_and_removed_and_leaves_nothing(tmp_path):
    host = Host(str(tmp_path))
    source = tmp_path / "source"
    installed = tmp_path / "opt/gpu_node/gpunode.pyz"
    for text in ("one", "two"):
        content, sha256 = application(text)
        source.write_bytes(content)
        outcome = node_runtime.run(host, Desired(sha256), str(source))
        assert outcome.changed and outcome.after.sha256 == sha256
        assert not node_runtime.run(host, Desired(sha256), str(source)).changed
        said, cached = subprocess.check_output([sys.executable, str(installed)], text=True).split()
        assert said == text and cached.endswith("gpunode.pyz/library.code")
    assert node_runtime.run(host, Desired(None)).changed
    assert not node_runtime.run(host, Desired(None)).changed
    assert not (tmp_path / "opt/gpu_node").exists()
    assert not os.path.lexists(str(tmp_path / "usr/local/bin/gpunode"))


@functools.lru_cache(maxsize=None)
def built():
    """The whole node command as a controller builds it."""
    pytest.importorskip("pynvml", reason="the controller part needs nvidia-ml-py")
    from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import zipapp

    return zipapp.build()


def test_man_page_and_completion_come_and_go_with_it_and_others_stay(tmp_path):
    host, source = Host(str(tmp_path)), tmp_path / "source"
    source.write_bytes(built())
    desired = Desired(hashlib.sha256(source.read_bytes()).hexdigest())
    man = tmp_path / "usr/local/share/man/man1/gpunode.1"
    completion = tmp_path / "usr/local/share/bash-completion/completions/gpunode"
    completion.parent.mkdir(parents=True)
    completion.write_text("the site's own")
    node_runtime.run(host, desired, str(source))
    assert ".TH GPUNODE 1" in man.read_text() and completion.read_text() == "the site's own"
    zsh, fish = tmp_path / "usr/local/share/zsh/site-functions/_gpunode", tmp_path / "etc/fish/completions/gpunode.fish"
    assert zsh.read_text().startswith("#compdef gpunode\n") and "complete -c gpunode" in fish.read_text()
    assert not node_runtime.run(host, desired).changed
    man.unlink()
    completion.write_text("# Generated from the argument parser of gpunode, an old one\n")
    assert node_runtime.run(host, desired).changed  # without the file being sent again
    assert man.exists() and "complete -F" in completion.read_text()
    completion.write_text("the site's own")
    node_runtime.run(host, Desired(None))
    assert not man.exists() and completion.read_text() == "the site's own"
    assert not zsh.exists() and not (tmp_path / "etc/fish").exists()


def test_the_bytecode_is_what_runs_and_another_python_takes_the_source(tmp_path, monkeypatch):
    content, dummy = application("text")
    path = tmp_path / "a.pyz"

    def told():
        return subprocess.check_output([sys.executable, "-I", str(path)], text=True).split()

    path.write_bytes(with_bytecode(content, sys.executable))
    assert told() == ["text", str(path) + "/library.code"]
    # From an installed file as from the controller's.
    assert with_bytecode(path.read_bytes(), sys.executable) == path.read_bytes()
    monkeypatch.setattr(importlib.util, "MAGIC_NUMBER", b"\0\0\r\n")
    path.write_bytes(with_bytecode(content, sys.executable))
    assert told()[0] == "text" and not told()[1].endswith("library.code")


def test_a_process_imports_from_the_file_that_it_began_with(tmp_path):
    """A release that is installed meanwhile has its modules at other places of the file."""
    path = tmp_path / "a.pyz"
    begun = "import os, sys; os.replace(sys.argv[0] + '.new', sys.argv[0])\n"
    path.write_bytes(with_bytecode(application("first", begun)[0], sys.executable))
    (tmp_path / "a.pyz.new").write_bytes(with_bytecode(application("second, with another size")[0], sys.executable))
    assert subprocess.check_output([sys.executable, "-I", str(path)], text=True).split()[0] == "first"


@pytest.mark.parametrize("damaged", [False, True])
def test_a_release_that_is_installed_while_python_starts_is_the_one_that_runs(tmp_path, damaged):
    """Python reads __main__ from one release, and the code would be read from the next, at the places of the first."""
    path, new = tmp_path / "a.pyz", tmp_path / "new"
    path.write_bytes(with_bytecode(application("first")[0], sys.executable))
    content = bytearray(with_bytecode(application("second, with another size")[0], sys.executable))
    if damaged:
        with zipfile.ZipFile(str(path)) as archive:
            info = archive.getinfo("library.code.build")
        content = bytearray(path.read_bytes())
        content[info.header_offset + len(info.FileHeader())] ^= 1
    new.write_bytes(bytes(content))
    start = (
        "import os, sys, zipimport\n"
        "path, new = sys.argv[1:]\n"
        "begin = zipimport.zipimporter(path)\n"
        "code = begin.get_code('__main__')\n"
        "os.replace(new, path)\n"
        "sys.argv = [path]\n"
        "exec(code, {'__name__': '__main__', '__loader__': begin})\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", start, str(path), str(new)], capture_output=True, text=True, check=False
    )
    if damaged:
        assert done.returncode == 1 and done.stderr == (
            "gpunode: {0} is damaged; run site.yml or 'gpunode converge' to install it again.\n".format(path)
        )
    else:
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("second")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", [30, 200, -5, -100])
def test_a_byte_that_changed_on_the_disk_is_noticed_and_mended(tmp_path, place):
    host, source = Host(str(tmp_path)), tmp_path / "source"
    content, sha256 = application("text")
    source.write_bytes(content)
    node_runtime.run(host, Desired(sha256), str(source))
    installed = tmp_path / "opt/gpu_node/gpunode.pyz"
    damaged = bytearray(installed.read_bytes())
    damaged[place] ^= 1
    installed.write_bytes(bytes(damaged))
    assert node_runtime.observe(host).sha256 != sha256
    assert node_runtime.run(host, Desired(sha256), str(source)).changed
    assert node_runtime.observe(host).sha256 == sha256


def test_what_is_not_a_zipapp_is_told_in_one_sentence(tmp_path):
    (tmp_path / "source").write_bytes(b"no archive")
    desired = Desired(hashlib.sha256(b"no archive").hexdigest())
    with pytest.raises(NodeError, match=r"the node command: this Python cannot use it \(.*\); have Python 3.8"):
        node_runtime.run(Host(str(tmp_path)), desired, str(tmp_path / "source"))
    assert not (tmp_path / "opt/gpu_node/gpunode.pyz").exists()


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

    content = built()
    assert content == zipapp.build()
    path = tmp_path / "gpunode.pyz"
    path.write_bytes(content)
    # -I: nothing but the zipapp and the standard library can be imported.
    done = subprocess.run(
        [sys.executable, "-I", str(path), "apply", "--check", "--json"], stdout=subprocess.PIPE, check=False
    )
    assert {result["resource"] for result in json.loads(done.stdout)["resources"]} == {
        "nvme_scratch",
        "mig_layout",
        "gpu_settings",
    }


def test_the_zipapp_holds_what_commands_use_and_nothing_that_only_modules_use():
    pytest.importorskip("pynvml", reason="the controller part needs nvidia-ml-py")

    names = zipfile.ZipFile(io.BytesIO(built())).namelist()
    assert "gpu_node/jobs/hooks/run.py" in names and "gpu_node/placement/render/hpl.py" in names
    assert not [name for name in names if name.startswith(("gpu_node/front/", "gpu_node/slurm/node/"))]
