# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module takes for the installed node command is what the library takes for it."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import zipfile

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_runtime import bytecode


def zipapp() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", "print('a node command')\n")
    return buffer.getvalue()


def spoiled(content: bytes) -> bytes:
    """One byte of its code is another."""
    at = content.index(b"a node command")
    return content[:at] + b"A" + content[at + 1 :]


def of_another_python(content: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        comment = archive.comment
    return content[: -len(comment)] + comment.replace(json.loads(comment)["python"].encode(), b"00000000")


@pytest.mark.parametrize(
    "change, whole",
    [
        (lambda content: content, True),
        (spoiled, False),
        (of_another_python, False),
        (lambda content: content[:-1], False),
        (lambda content: b"", False),
        (lambda content: zipapp(), False),
    ],
)
def test_the_installed_command_is_told_by_what_it_was_made_of(tmp_path, change, whole):
    content = change(bytecode.with_bytecode(zipapp(), sys.executable))
    path = tmp_path / "gpunode.pyz"
    path.write_bytes(content)
    wanted = hashlib.sha256(zipapp()).hexdigest() if whole else None
    assert node_command.installed(str(path)) == bytecode.source_sha256(content) == wanted


def test_a_command_that_is_not_there_is_none(tmp_path):
    assert node_command.installed(str(tmp_path / "none")) is None
