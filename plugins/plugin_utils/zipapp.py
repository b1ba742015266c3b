# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the node command on the controller: our library plus NVIDIA's binding in one reproducible zipapp."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import io
import os
import re
import tempfile
import zipfile

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.registry import NAMES, OF_CLUSTER
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_runtime.bytecode import entry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_runtime.launcher import launcher

MAIN = b"""import gc
import sys

gc.disable()  # a command ends before it has made much that is worth collecting

from gpu_node.command.main import main

sys.exit(main())
"""
# The library's name inside the zipapp; its files import each other by relative imports only.
PACKAGE = "gpu_node"
# The man page and the completions lie beside the code.
BESIDE = (".1", ".bash", ".zsh", ".fish")
# Packages whose files are imported by a name that is computed: commands, texts of the launchers, resources of the node.
BY_NAME = ("command", "placement/render", *("resources/" + name for name in (*NAMES, *OF_CLUSTER)))
# In one line or in parentheses, anywhere in a module.
_IMPORT = re.compile(r"^[ \t]*from[ \t]+(\.+)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^(\n]*)", re.MULTILINE)
# Commands that are kept: of several collections or environments, which may take turns.
_KEEP = 4
# Zip files cannot tell an earlier date; a fixed one makes the same files give the same bytes.


class BindingMissing(Exception):
    """The controller has no nvidia-ml-py to put into the node command."""


def library_folder() -> str:
    """Where plugins/module_utils of this collection lies on the controller."""
    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "module_utils")


def binding_source() -> bytes:
    """The text of the controller's module ``pynvml`` (found, not imported)."""
    found = importlib.util.find_spec("pynvml")
    if found is None or found.origin is None:
        raise BindingMissing(
            "NVIDIA's Python binding (module pynvml): it is not installed beside ansible-core on the controller; "
            "install it there with 'pip install nvidia-ml-py'."
        )
    with open(found.origin, "rb") as stream:
        return stream.read()


def used_files(library: str, packages: tuple[str, ...] = BY_NAME) -> set[str]:
    """The files of the library that the node command can come to import, by the relative imports in their text.

    ``packages`` are where it begins. What only Ansible modules use stays on the controller: a node compiles what it
    gets.
    """
    pending = [os.path.join(folder, name) for folder in packages for name in os.listdir(os.path.join(library, folder))]
    pending = [path for path in pending if path.endswith(".py")]
    used: set[str] = set()
    while pending:
        path = pending.pop()
        if path in used or not os.path.isfile(os.path.join(library, path)):
            continue
        used.add(path)
        folder = os.path.dirname(path)
        pending.append(os.path.join(os.path.dirname(folder) if path.endswith("__init__.py") else folder, "__init__.py"))
        with open(os.path.join(library, path), encoding="utf-8") as stream:
            found = imports(stream.read())
        for level, module, names in found:
            base = os.path.normpath(os.path.join(folder, *[".."] * (level - 1)))
            target = os.path.normpath(os.path.join(base, *module.split(".")))
            pending += [target + ".py", os.path.join(target, "__init__.py")]
            for one in names:
                name = os.path.normpath(os.path.join(target, one))
                pending += [name + ".py", os.path.join(name, "__init__.py")]
    return used


def imports(text: str) -> list[tuple[int, str, list[str]]]:
    """The relative imports of a module: number of dots, module, names. A syntax tree of all takes a second to make."""
    found = []
    for dots, module, names in _IMPORT.findall(text):
        listed = re.sub(r"#.*", "", names).strip("()").split(",")
        found.append((len(dots), module, [one.split()[0] for one in listed if one.strip()]))
    return found


def build() -> bytes:
    """The zipapp's bytes; the same for the same library and binding, on any controller."""
    files = {"__main__.py": MAIN, "pynvml.py": binding_source()}
    library = library_folder()
    used = used_files(library)
    for folder, folders, names in os.walk(library):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), library)
            if path in used or name.endswith(BESIDE):
                with open(os.path.join(library, path), "rb") as stream:
                    files[os.path.join(PACKAGE, path)] = stream.read()
    files.setdefault(PACKAGE + "/__init__.py", b"")
    buffer = io.BytesIO()
    buffer.write(launcher(None))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(files):
            archive.writestr(entry(name), files[name])
    return buffer.getvalue()


def built_once(folder: str, kept: str | None = None) -> tuple[str, str]:
    """The path of the zipapp and its sha256 (hex), built by the first of the processes that share the folder.

    A controller has a process for each task of each host, and building takes one of them most of a second. In the
    folder ``kept`` it is kept for the next run, by what it is made of.
    """
    path = os.path.join(folder, "gpunode.pyz")
    with open(path + ".sha256", "a+", encoding="ascii") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.seek(0)
        digest = stream.read()
        if not digest:
            content = _kept_or_built(kept)
            with open(path, "wb") as target:
                target.write(content)
            digest = hashlib.sha256(content).hexdigest()
            stream.write(digest)
    return path, digest


def _kept_or_built(folder: str | None) -> bytes:
    if folder is None:
        return build()
    path = os.path.join(folder, "gpunode-{0}.pyz".format(_signature()))
    try:
        with open(path, "rb") as stream:
            content, end = stream.read(), hashlib.sha256().digest_size
            own = _own(os.fstat(stream.fileno())) and _own(os.stat(folder))
        if own and hashlib.sha256(content[:-end]).digest() == content[-end:]:
            return content[:-end]
    except OSError:
        pass
    content = build()
    # What cannot be kept is built again the next time.
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        others = [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("gpunode-")]
        for other in sorted(others, key=os.path.getmtime, reverse=True)[_KEEP - 1 :]:
            os.unlink(other)
        handle, fresh = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as target:
            target.write(content + hashlib.sha256(content).digest())
        os.replace(fresh, path)
    return content


def _own(found: os.stat_result) -> bool:
    """Whether nobody but this user may write there: root of all nodes runs what lies in it."""
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _signature() -> str:
    """Of everything that it is made of: where a file lies, its size and when it was changed."""
    seen = hashlib.sha256()
    binding = importlib.util.find_spec("pynvml")
    paths = [os.path.join(folder, name) for folder, dummy, names in os.walk(library_folder()) for name in names]
    paths += [os.path.abspath(__file__)] + ([binding.origin] if binding is not None and binding.origin else [])
    for path in sorted(path for path in paths if not path.endswith(".pyc")):
        found = os.stat(path)
        seen.update("{0} {1} {2}\n".format(path, found.st_size, found.st_mtime_ns).encode())
    return seen.hexdigest()[:32]
