# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with a folder of small packages, and what tests ask of it."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import python_env

FOLDER = "/scratch/envs"
PYTHON = [os.environ.get("TEST_PYTHON", sys.executable)]


def wheel(folder, name, version="1.0", requires=(), scripts=None, code=None):
    """Write a wheel of one module, and return its SHA-256. ``scripts``: names with a function of the module."""
    files = {
        name + ".py": code or "VERSION = {0!r}\n\n\ndef main():\n    print({1!r}, VERSION)\n".format(version, name),
    }
    info = "{0}-{1}.dist-info/".format(name, version)
    metadata = "Metadata-Version: 2.1\nName: {0}\nVersion: {1}\n".format(name, version)
    files[info + "METADATA"] = metadata + "".join("Requires-Dist: {0}\n".format(one) for one in requires)
    files[info + "WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if scripts:
        lines = "".join("{0} = {1}\n".format(one, target) for one, target in scripts.items())
        files[info + "entry_points.txt"] = "[console_scripts]\n" + lines
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += "{0},sha256={1},{2}\n".format(path, digest, len(text))
    files[info + "RECORD"] = record + info + "RECORD,,\n"
    path = os.path.join(str(folder), "{0}-{1}-py3-none-any.whl".format(name, version))
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in files.items():
            archive.writestr(zipfile.ZipInfo(member, (2026, 1, 1, 0, 0, 0)), text)
    with open(path, "rb") as stream:
        return hashlib.sha256(stream.read()).hexdigest()


def node(root, lmod=True):
    for folder in ("etc", "scratch", "wheels", "proc", "run", *(("usr/share/lmod/lmod", "etc/lmod/modules") * lmod)):
        os.makedirs(os.path.join(str(root), folder))
    return Host(str(root))


def fast_python(folder):
    """A Python that makes real venvs, and has pip in them from one that it made before: its own way takes seconds."""
    first = os.path.join(str(folder), "first")
    made = _kept_venv()
    version = "lib/python{0}.{1}".format(*sys.version_info[:2])  # another Python has another folder
    shutil.copytree(os.path.join(made, version), os.path.join(first, version), symlinks=True)
    path = os.path.join(str(folder), "python")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(_FAST.format(python=sys.executable, first=first))
    os.chmod(path, 0o755)
    return path


def _kept_venv():
    """A venv of this Python, kept in the user's cache: pip takes seconds to be installed."""
    digest = hashlib.sha256((sys.executable + sys.version).encode()).hexdigest()[:16]
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(base, "trainyard-gpu-node", "venvs")
    kept = os.path.join(folder, digest)
    if not os.path.isdir(kept):
        os.makedirs(folder, exist_ok=True)
        fresh = tempfile.mkdtemp(prefix=".new-", dir=folder)
        subprocess.run([sys.executable, "-m", "venv", fresh], check=True, timeout=300)
        try:
            os.rename(fresh, kept)
        except OSError:  # another process was quicker
            shutil.rmtree(fresh)
    return kept


_FAST = """#!/bin/sh
if [ "$2" != venv ]; then
  exec {python} "$@"
fi
{python} -m venv --without-pip "$3" && cp -al {first}/lib/python3*/site-packages "$3"/lib/python3*/
"""


def wanted(*environments, **rest):
    """Options as a user gives them; environments without a Python get that of the tests."""
    given = [dict({"name": "ds", "python": PYTHON[0]}, **one) for one in environments]
    return of(python_env.Desired, dict({"folder": FOLDER, "environments": given, "find_links": "/wheels"}, **rest))


def lock(**sums):
    return "".join("{0}==1.0 --hash=sha256:{1}\n".format(name, digest) for name, digest in sums.items())
