# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module checkpoint as Ansible runs it; the node is a folder."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.core.node_packages import debs
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

ENV = "etc/gpu_node/checkpoint.env"
PROGRAM = "usr/local/bin/azcopy"
URL = "https://a.blob.core.windows.net/c"


@pytest.fixture
def run(tmp_path):
    root = tmp_path / "root"
    for folder in ("etc", "usr/local/bin"):
        (root / folder).mkdir(parents=True)

    def call(check=False, **arguments):
        return run_module("checkpoint", arguments, root, check)

    call.root = root
    return call


def tarball(root, members):
    """In the folder that stands for the node; its path there, and its checksum."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    (root / "mirror").mkdir(exist_ok=True)
    (root / "mirror/azcopy.tar.gz").write_bytes(stream.getvalue())
    return {"source": "/mirror/azcopy.tar.gz", "sha256": hashlib.sha256(stream.getvalue()).hexdigest()}


def elf():
    with open("/bin/true", "rb") as stream:
        return stream.read()


def tree(root):
    return debs.tree(root, ("run", "mirror"))


def test_check_real_check_real_and_absent_leaves_what_it_found(run):
    before = tree(run.root)
    arguments = dict(
        destination=URL, nodes=4, **tarball(run.root, {"azcopy_10/NOTICE.txt": b"x", "azcopy_10/azcopy": elf()})
    )
    planned = run(check=True, **arguments)
    assert planned["changed"] and tree(run.root) == before
    made = run(**arguments)
    assert [one["description"] for one in made["actions"]] == [one["description"] for one in planned["actions"]]
    assert made["file"] == "/" + ENV and made["azcopy"] == "/" + PROGRAM
    assert (run.root / PROGRAM).read_bytes() == elf() and os.access(run.root / PROGRAM, os.X_OK)
    # It does not start as azcopy, which is a note and no failure.
    assert "azcopy ended with status 0" in run(check=True, **arguments)["notes"][0]
    assert not run(check=True, **arguments)["changed"] and not run(**arguments)["changed"]
    assert set(tree(run.root)) - set(before) == {"etc/gpu_node", "etc/gpu_node/node.json", ENV, PROGRAM}
    assert run(check=True, state="absent")["changed"] and (run.root / PROGRAM).exists()
    assert run(state="absent")["changed"] and not run(state="absent")["changed"]
    assert set(tree(run.root)) == set(before)


@pytest.mark.parametrize("members", [{}, {"azcopy_10/azcopy": b"#!/bin/sh\n"}, {"x/other": b"\x7fELF"}])
def test_a_file_without_azcopy_leaves_nothing(run, members):
    failed = run(destination=URL, **tarball(run.root, members))
    assert (
        failed["failed"] and "/mirror/azcopy.tar.gz: it holds no azcopy for Linux; give azcopy's own" in failed["msg"]
    )
    assert not (run.root / PROGRAM).exists() and not (run.root / "var/lib/gpu_node/azcopy").exists()


def test_the_file_for_scripts_does_what_it_says(run, tmp_path):
    work = tmp_path / "work dir"
    work.mkdir()
    run(destination=URL, work_folder=str(tmp_path / "work"), auth="msi")
    (tmp_path / "work").mkdir()
    script = '. "{0}"; env | grep -E "^(AZCOPY|CHECKPOINT)_" | sort'.format(run.root / ENV)
    done = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=True)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert (found["CHECKPOINT_CAP_MBPS"], found["CHECKPOINT_DESTINATION"]) == ("2300", URL)
    folder = tmp_path / "work" / "gpu_node-checkpoint-{0}".format(os.geteuid())
    assert found["AZCOPY_LOG_LOCATION"] == str(folder / "logs") and (folder / "plans").is_dir()
    assert folder.stat().st_mode & 0o77 == 0
    # A folder of somebody else's in its place is not used.
    (folder / "plans").rmdir()
    (folder / "logs").rmdir()
    folder.rmdir()
    folder.symlink_to("/")
    done = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=True)
    assert "AZCOPY_LOG_LOCATION" not in done.stdout


def test_no_secret_is_declared(run):
    run(destination=URL, auth="sas_file", sas_file="~/.sas")
    section = json.loads((run.root / "etc/gpu_node/node.json").read_text())["checkpoint"]
    assert section["sas_file"] == "~/.sas" and "AZCOPY_AUTO_LOGIN_TYPE" not in (run.root / ENV).read_text()
