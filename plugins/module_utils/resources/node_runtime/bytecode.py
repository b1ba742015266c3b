# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The zipapp on a node: the controller's file plus bytecode for the node's Python.

A hook before each job pays for every import, and compiling the library and NVIDIA's binding is half of what a short
command costs. Python uses a ``.pyc`` of an archive only if its own version compiled it, and otherwise the source next
to it, so an upgrade of Python makes gpunode slower and never wrong; the next convergence recompiles it.

The archive's comment names the controller's file that it was built from and the Python that runs it, and contains a
checksum of all bytes before the comment.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import marshal
import os
import zipfile
from typing import Any, Dict, Optional

from .launcher import launcher

DATE = (1980, 1, 1, 0, 0, 0)
# PEP 552: a .pyc that is taken without a look at the time or the hash of its source.
_UNCHECKED_HASH = 0b01


def with_bytecode(source: bytes, python: str) -> bytes:
    """The file to install, for the interpreter ``python``. ``source``: the controller's zipapp, or an installed one.

    :raises zipfile.BadZipFile: ``source`` is not an intact zipapp.
    :raises SyntaxError: when this Python is too old for it.
    """
    buffer = io.BytesIO()
    buffer.write(launcher(python))
    with zipfile.ZipFile(io.BytesIO(source)) as given, zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        names = dict.fromkeys(given.namelist())
        for name in names:
            if name.endswith(".pyc") and name[:-1] in names:
                continue  # of the Python that installed the given one
            text = given.read(name)
            archive.writestr(entry(name), text)
            if name.endswith(".py"):
                # As it is: to inflate it would cost each start more than to read it.
                archive.writestr(entry(name + "c"), _pyc(text, name), zipfile.ZIP_STORED)
    content = buffer.getvalue()
    comment = json.dumps(
        {
            "content": hashlib.sha256(content).hexdigest(),
            "interpreter": python,
            "python": importlib.util.MAGIC_NUMBER.hex(),
            "source": identity(source),
        },
        sort_keys=True,
    ).encode("ascii")
    # The last two bytes of an archive without a comment are the comment's length.
    return content[:-2] + len(comment).to_bytes(2, "little") + comment


def identity(content: bytes) -> str:
    """SHA-256 of the controller's file: this file, or the file that an installed one was built from."""
    return str(_comment(content).get("source") or hashlib.sha256(content).hexdigest())


def interpreter_of(content: bytes) -> str:
    """The Python that runs an installed file; empty: it is damaged, or does not name one."""
    return str(_comment(content).get("interpreter") or "")


def source_sha256(content: bytes) -> Optional[str]:
    """SHA-256 of the file that this one was built from. None: it is damaged, foreign, built for another Python, or its
    interpreter is missing."""
    told = _comment(content)
    right = told.get("python") == importlib.util.MAGIC_NUMBER.hex()
    return str(told["source"]) if right and os.access(str(told.get("interpreter") or ""), os.X_OK) else None


def _comment(content: bytes) -> Dict[str, Any]:
    """The comment of an installed file; empty for any other file, and for a damaged one."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            comment = archive.comment
        told = json.loads(comment)
        before = content[: len(content) - len(comment) - 2] + b"\0\0"
        whole = hashlib.sha256(before).hexdigest() == told["content"] and isinstance(told["source"], str)
        return dict(told) if whole else {}
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError):
        return {}


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
