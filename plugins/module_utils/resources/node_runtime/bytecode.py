# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The zipapp as it lies on a node: the controller's file plus bytecode for the node's Python.

A hook before each job pays for every import, and compiling the library and NVIDIA's binding is half of what a short
command costs. Python takes a ``.pyc`` of an archive only when it was made by its own version, and else the source
beside it, so an upgrade of Python makes gpunode slower and never wrong; the next convergence compiles it anew.

The archive's comment tells which file of the controller it was made from, and a checksum of all that lies before it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import marshal
import zipfile
from typing import Optional

SHEBANG = b"#!/usr/bin/env python3\n"
DATE = (1980, 1, 1, 0, 0, 0)
# PEP 552: a .pyc that is taken without a look at the time or the hash of its source.
_UNCHECKED_HASH = 0b01


def with_bytecode(source: bytes) -> bytes:
    """What is to be installed of the controller's zipapp.

    :raises zipfile.BadZipFile: when it is none.
    :raises SyntaxError: when this Python is too old for it.
    """
    buffer = io.BytesIO()
    buffer.write(SHEBANG)
    with zipfile.ZipFile(io.BytesIO(source)) as given, zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for name in given.namelist():
            text = given.read(name)
            archive.writestr(entry(name), text)
            if name.endswith(".py"):
                # As it is: to inflate it would cost each start more than to read it.
                archive.writestr(entry(name + "c"), _pyc(text, name), zipfile.ZIP_STORED)
    content = buffer.getvalue()
    comment = json.dumps(
        {
            "content": hashlib.sha256(content).hexdigest(),
            "python": importlib.util.MAGIC_NUMBER.hex(),
            "source": hashlib.sha256(source).hexdigest(),
        },
        sort_keys=True,
    ).encode("ascii")
    # The last two bytes of an archive without a comment are the comment's length.
    return content[:-2] + len(comment).to_bytes(2, "little") + comment


def source_sha256(content: bytes) -> Optional[str]:
    """SHA-256 of the file that this one was made from; None when it is damaged, foreign, or made for another Python."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            comment = archive.comment
        told = json.loads(comment)
        before = content[: len(content) - len(comment) - 2] + b"\0\0"
        whole = hashlib.sha256(before).hexdigest() == told["content"]
        right = told["python"] == importlib.util.MAGIC_NUMBER.hex()
        return str(told["source"]) if whole and right else None
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError):
        return None


def entry(name: str) -> zipfile.ZipInfo:
    """The same for the same name, at any time and for any user."""
    info = zipfile.ZipInfo(name, DATE)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info


def _pyc(text: bytes, name: str) -> bytes:
    code = compile(text, name, "exec", dont_inherit=True)
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH.to_bytes(4, "little") + importlib.util.source_hash(text)
    return head + marshal.dumps(code)
