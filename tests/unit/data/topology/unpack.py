# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unpack a machine's tree (``*.tree`` in this folder) into a folder that ``Host(root)`` can read.

One line an entry: ``PATH = CONTENT`` for a file, ``PATH -> TARGET`` for a link, ``PATH/`` for a folder. ``{0-23}`` in a
path or its target stands for each number in turn, ``\\n`` in a content for a line break.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))


def names():
    return sorted(name[: -len(".tree")] for name in os.listdir(FOLDER) if name.endswith(".tree"))


def unpack(name, root):
    """Write the tree below ``root`` and return ``root`` as text."""
    _write(_entries(name), str(root))
    return str(root)


def write(lines, root):
    """Write the lines of a tree below ``root``."""
    _write(_parsed(lines), str(root))


def _write(entries, root):
    folders, files, links = entries
    for path in folders:
        os.makedirs(os.path.join(root, path), exist_ok=True)
    for path, content in files:
        number = os.open(os.path.join(root, path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.write(number, content)
        os.close(number)
    for path, target in links:
        os.symlink(target, os.path.join(root, path))


def shared(name):
    """An unpacked tree for tests that only read it, as text. It is kept in the user's cache, by its content.

    ansible-test runs each test in a process of its own; there a fixture would unpack a thousand files for each.
    """
    with open(os.path.join(FOLDER, name + ".tree"), "rb") as stream:
        digest = hashlib.sha256(stream.read()).hexdigest()[:16]
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(base, "trainyard-gpu-node", "trees")
    root = os.path.join(folder, "{0}-{1}".format(name, digest))
    if not os.path.isdir(root):
        os.makedirs(folder, exist_ok=True)
        fresh = tempfile.mkdtemp(prefix=".new-", dir=folder)
        unpack(name, fresh)
        try:
            os.rename(fresh, root)
        except OSError:  # another process was quicker
            shutil.rmtree(fresh)
    return root


@functools.lru_cache(maxsize=None)
def _entries(name):
    with open(os.path.join(FOLDER, name + ".tree"), encoding="utf-8") as stream:
        return _parsed(line.rstrip("\n") for line in stream if not line.startswith("#"))


def _parsed(lines):
    """Folders that have no other below them, files with their content, and links with their targets."""
    folders, files, links = set(), [], []
    for one in (one for line in lines if line for one in _each_number(line)):
        if one.endswith("/"):
            folders.add(one.strip("/"))
            continue
        separator = " -> " if " -> " in one else " = "
        path, content = one.split(separator, 1)
        path = path.lstrip("/")
        folders.add(os.path.dirname(path))
        if separator == " -> ":
            links.append((path, content))
        else:
            files.append((path, (content.replace("\\n", "\n") + "\n").encode()))
    above = {path[:end] for path in folders for end in range(len(path)) if path[end] == "/"}
    return sorted(folders - above), files, links


def _each_number(line):
    found = re.search(r"\{(\d+)-(\d+)\}", line)
    if not found:
        return [line]
    numbers = range(int(found.group(1)), int(found.group(2)) + 1)
    return [one for number in numbers for one in _each_number(line.replace(found.group(0), str(number)))]
