# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle of a few small files, in the shape of a real one."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile

from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import sums
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.wheels import Interpreter

HERE = Interpreter((3, 11), "x86_64", (2, 36))
WHEEL = "thing-1.0-py3-none-any.whl"
SITE = "collections/ansible_collections/trainyard/gpu_node/playbooks/site.yml"


def make(folder, version="1.2.3", play="- hosts: all\n", wheel=None):
    """Write it; gives the folder."""
    files = {
        "converge": b"#!/bin/sh\n",
        "converge.pyz": b"PK",
        "version": version.encode() + b"\n",
        "wheels/index.json": json.dumps({HERE.tag: [WHEEL]}).encode(),
        "wheels/" + WHEEL: _wheel(wheel or {"thing/__init__.py": "x = 1\n", "ansible_test/y.py": "y = 1\n"}),
        "collection/trainyard-gpu_node-{0}.tar.gz".format(version): _tarball({"playbooks/site.yml": play}),
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o644)
    (folder / sums.NAME).write_text(sums.text(str(folder)))
    return folder


def _wheel(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return buffer.getvalue()


def _tarball(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()
