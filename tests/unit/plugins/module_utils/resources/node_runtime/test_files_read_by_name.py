# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each file that the library reads by its name is in the archive, and is read in a way that works from an archive.

``gpu_gemm`` read its script by name, and the archive did not have it.
"""

from __future__ import annotations

import ast
import io
import os
import zipfile
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Set

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_runtime.types import PAGES

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import zipapp

# Names by which a module finds its own place, or the text of a module. ``get_data`` works from an archive.
OWN_PLACE = {"__file__", "__path__", "__loader__", "__spec__", "__cached__", "getsource", "getsourcefile", "getfile"}
MODULES = {"importlib.resources", "importlib_resources", "pkg_resources", "linecache", "inspect"}
# Whose place it is, and what for.
ALLOWED = {("facts/nvml/binding.py", "__file__"): "of NVIDIA's binding, which may be installed by pip"}


def texts(content: bytes) -> Dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name).decode("utf-8") for name in archive.namelist()}


def faults(archive: Mapping[str, str], library: Set[str]) -> List[str]:
    """``archive``: text by name. ``library``: paths of all files of the library."""
    return [one for name in archive if name.startswith("gpu_node/") for one in of_module(name, archive, library)]


def of_module(name: str, archive: Mapping[str, str], library: Set[str]) -> List[str]:
    if not name.endswith(".py"):
        return []
    module = name[len("gpu_node/") :]
    missing = {os.path.basename(path) for path in library if "gpu_node/" + path not in archive}
    return [
        "{0}:{1}: {2}".format(module, getattr(node, "lineno", 0), fault)
        for node in ast.walk(ast.parse(archive[name]))
        for fault in _of_node(node, module, archive, missing)
    ]


def _of_node(node: ast.AST, module: str, archive: Mapping[str, str], missing: Set[str]) -> Iterator[str]:
    names = []
    if isinstance(node, ast.Import):
        names = [one.name for one in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or "", *("{0}.{1}".format(node.module, one.name) for one in node.names)]
    for name in MODULES.intersection(names):
        yield "{0} does not work from an archive with Python 3.8 to 3.13; use pkgutil.get_data".format(name)
    used = {ast.Name: "id", ast.Attribute: "attr"}.get(type(node))
    word = getattr(node, used) if used else node.value if isinstance(node, ast.Constant) else None
    if word in OWN_PLACE and (module, word) not in ALLOWED:
        yield "{0} leads into the archive, where no file can be opened; use pkgutil.get_data".format(word)
    if isinstance(node, ast.Constant) and isinstance(word, str) and os.path.basename(word) in missing:
        yield "it names {0}, and the archive has no such file".format(word)
    if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "get_data":
        path = node.args[1].value if len(node.args) == 2 and isinstance(node.args[1], ast.Constant) else None
        here = os.path.normpath(os.path.join("gpu_node", os.path.dirname(module), str(path)))
        if path is None or here not in archive:
            yield "get_data does not name a file beside it that is in the archive"


@pytest.fixture(scope="module")
def archive() -> Dict[str, str]:
    return texts(zipapp.build())


def library(folder: str) -> Set[str]:
    paths = (path for path in Path(folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)) for path in paths}


def test_the_archive_has_each_file_that_is_read_by_name(archive: Dict[str, str]) -> None:
    assert faults(archive, library(zipapp.library_folder())) == []
    assert [name for name, dummy in PAGES if name not in archive] == []
    missing = [one for one, dummy in ALLOWED if "__file__" not in archive["gpu_node/" + one]]
    assert missing == []  # an exception that nothing needs is removed


READERS = {
    "pkgutil.get_data(__name__.rpartition('.')[0], 'kernel_text.py')": "get_data does not name",
    "pkgutil.get_data(__package__, 'kernel.ptx')": "get_data does not name",
    "open(os.path.join(os.path.dirname(__file__), 'kernel.ptx')).read()": "__file__ leads into the archive",
    "open(sys.modules[__name__].__file__)": "__file__ leads",
    "getattr(sys.modules[__name__], '__file__')": "__file__ leads",
    "importlib.import_module('importlib').util.find_spec('kernel.ptx')": "it names kernel.ptx",
    "subprocess.run([sys.executable, 'kernel_text.py'])": "it names kernel_text.py",
    "__loader__.get_data('gpu_node/health/active/kernel.ptx')": "__loader__ leads",
}


@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_the_archive_lacks_is_found(archive: Dict[str, str], reader: str) -> None:
    module = "gpu_node/health/active/checks.py"
    changed = dict(archive, **{module: archive[module] + "\n\ndef text():\n    return " + reader + "\n"})
    lacking = {"health/active/kernel.ptx", "health/active/kernel_text.py"}
    assert of_module(module, archive, lacking) == []
    assert READERS[reader] in "\n".join(of_module(module, changed, lacking))


def test_a_file_in_the_archive_may_be_read_with_get_data(archive: Dict[str, str]) -> None:
    module = "gpu_node/command/x.py"
    text = "import pkgutil\npkgutil.get_data(__package__, 'data/gpunode.1')\n"
    assert of_module(module, dict(archive, **{module: text}), set()) == []
    assert of_module(module, dict(archive, **{module: text.replace("gpunode.1", "gpunode.2")}), set()) != []
