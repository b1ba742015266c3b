# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The zipapp on a node: the controller's file plus bytecode for the node's Python.

A hook before each job pays for every import, and compiling the library and NVIDIA's binding is half of what a short
command costs. Python uses a ``.pyc`` of an archive only if its own version compiled it, and otherwise the source next
to it, so an upgrade of Python makes gpunode slower and never wrong; the next convergence recompiles it.

The directory of an archive has to be read at each start, and each module costs a search and an opened file. So the
installed file has few entries: the bytecode of the whole library in one, with an index (``library.code``), and the
controller's file as it was sent (``library.pyz``), for a Python that cannot use the bytecode. ``__main__`` imports from
them. NVIDIA's binding is an entry of its own as well, for programs that import it from this file.

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
from types import CodeType
from typing import Any, Dict, Optional, Tuple

from .launcher import launcher

DATE = (1980, 1, 1, 0, 0, 0)
# PEP 552: a .pyc that is taken without a look at the time or the hash of its source.
_UNCHECKED_HASH = 0b01
#: Entries of the installed file: bytecode of the library, and the controller's file.
CODE, SOURCE = "library.code", "library.pyz"
_MAIN, _BINDING = "__main__.py", "pynvml.py"
# What comes before the text of the controller's __main__.py.
_IMPORTER = """import marshal
import mmap
import os
import sys
from importlib._bootstrap_external import MAGIC_NUMBER
from importlib.machinery import ModuleSpec

BUILD = {build!r}
MAGIC = {magic!r}
INDEX = {index!r}
SOURCE = {source!r}


class Bytecode:
    place = "/library.code"

    # A process keeps the file that it began with, also when a rename puts another release in its place.
    def __init__(self, content):
        self.content = content
        self.index = marshal.loads(content[slice(*INDEX)])

    def code(self, name):
        return marshal.loads(self.content[slice(*self.index[name][1:])])


class Text:
    place = None

    def __init__(self, content):
        import io
        import zipfile

        self.archive = zipfile.ZipFile(io.BytesIO(content[slice(*SOURCE)]))
        self.index = {{}}
        for path in self.archive.namelist():
            if path.endswith(".py"):
                name = path[:-3].replace("/", ".")
                package = name.endswith(".__init__")
                self.index[name[:-9] if package else name] = (package, path)

    def code(self, name):
        path = self.index[name][1]
        return compile(self.archive.read(path), path, "exec", dont_inherit=True)


class Library:
    def __init__(self, path):
        with open(path, "rb") as stream:
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        restarted = os.environ.pop("GPUNODE_RESTARTED", None)
        if content[slice(*BUILD[1])] != BUILD[0]:
            restart(path, restarted)
        self.path = path
        self.modules = (Bytecode if MAGIC_NUMBER == MAGIC else Text)(content)

    def find_spec(self, name, path=None, target=None):
        found = self.modules.index.get(name)
        if found is None:
            return None
        end = "/__init__.py" if found[0] else ".py"
        spec = ModuleSpec(name, self, origin=self.path + "/" + name.replace(".", "/") + end, is_package=found[0])
        spec.has_location = True
        if self.modules.place:
            spec.cached = self.path + self.modules.place
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(self.modules.code(module.__name__), module.__dict__)


def restart(path, again):
    # Another release took the place of this one after Python had read this text from it.
    if again:
        sys.exit("gpunode: {{0}} is damaged; run site.yml or 'gpunode converge' to install it again.".format(path))
    os.environ["GPUNODE_RESTARTED"] = "1"
    os.execv(sys.executable, [sys.executable, "-I", path, *sys.argv[1:]])


sys.meta_path.insert(0, Library(__loader__.archive))
"""


def with_bytecode(source: bytes, python: str) -> bytes:
    """The file to install, for the interpreter ``python``. ``source``: the controller's zipapp, or an installed one.

    :raises ValueError: ``source`` has no ``__main__.py``.
    :raises zipfile.BadZipFile: ``source`` is not an intact zipapp.
    :raises SyntaxError: when this Python is too old for it.
    """
    buffer = io.BytesIO()
    buffer.write(launcher(python))
    with zipfile.ZipFile(io.BytesIO(source)) as given:
        if SOURCE in given.namelist():
            source = given.read(SOURCE)
    with zipfile.ZipFile(io.BytesIO(source)) as given, zipfile.ZipFile(buffer, "a") as archive:
        index: Dict[str, Tuple[bool, int, int]] = {}
        codes = []
        size = 0
        names = list(dict.fromkeys(given.namelist()))
        if _MAIN not in names:
            raise ValueError("it has no " + _MAIN)
        for path in (name for name in names if name.endswith(".py") and name != _MAIN):
            codes.append(marshal.dumps(_compiled(given.read(path), path)))
            name = path[: -len(".py")].replace("/", ".")
            package = name.endswith(".__init__")
            index[name[: -len(".__init__")] if package else name] = (package, size, size + len(codes[-1]))
            size += len(codes[-1])
        begin = _stored(archive, CODE, b"".join(codes))
        build = hashlib.sha256(b"".join([source, python.encode(), importlib.util.MAGIC_NUMBER])).digest()
        build_at = _stored(archive, CODE + ".build", build)
        listed = marshal.dumps({name: (one[0], begin + one[1], begin + one[2]) for name, one in index.items()})
        index_at = _stored(archive, CODE + ".index", listed)
        source_at = _stored(archive, SOURCE, source)
        importer = _IMPORTER.format(
            build=(build, (build_at, build_at + len(build))),
            magic=importlib.util.MAGIC_NUMBER,
            index=(index_at, index_at + len(listed)),
            source=(source_at, source_at + len(source)),
        )
        texts = {_MAIN: importer.encode("ascii") + given.read(_MAIN)}
        if _BINDING in names:
            texts[_BINDING] = given.read(_BINDING)
        for path, text in texts.items():
            archive.writestr(entry(path), text)
            # As it is: to inflate it would cost each start more than to read it.
            _stored(archive, path + "c", _pyc(text, path))
        for path in names:
            # Pages for people, which lie beside the code.
            if not path.endswith((".py", ".pyc")):
                archive.writestr(entry(path), given.read(path))
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


def _stored(archive: zipfile.ZipFile, name: str, content: bytes) -> int:
    """Write an entry without compression. Where its content begins in the file."""
    info = entry(name)
    archive.writestr(info, content, zipfile.ZIP_STORED)
    return info.header_offset + len(info.FileHeader())


def _compiled(text: bytes, name: str) -> CodeType:
    code: CodeType = compile(text, name, "exec", dont_inherit=True)
    return code


def _pyc(text: bytes, name: str) -> bytes:
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH.to_bytes(4, "little") + importlib.util.source_hash(text)
    return head + marshal.dumps(_compiled(text, name))
