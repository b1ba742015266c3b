# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make bundle`: one file that converges a node without a network. See docs/bundle.md."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Dict, Tuple

from . import collection, wheels
from .wheels import ROOT, BundleError

FOLDER = ROOT / "build" / "bundle"
_MAIN = b"""import os
import sys

from gpu_node.converge.main import main

sys.exit(main(sys.argv[1:], os.path.dirname(os.path.realpath(sys.argv[0]))))
"""


def python_part() -> bytes:
    """``converge.pyz``: the files of the library that it imports, as the node command is made of them."""
    sys.path.insert(0, str(ROOT / ".collections"))
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_runtime.bytecode import entry
    from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import zipapp

    library = zipapp.library_folder()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        archive.writestr(entry("__main__.py"), _MAIN)
        archive.writestr(entry(zipapp.PACKAGE + "/__init__.py"), b"")
        for name in sorted(zipapp.used_files(library, ("converge",)) - {"__init__.py"}):
            archive.writestr(entry("{0}/{1}".format(zipapp.PACKAGE, name)), (Path(library) / name).read_bytes())
    return buffer.getvalue()


def contents(cache: Path) -> Tuple[str, Dict[str, bytes]]:
    """The version, and every file of the bundle by its path."""
    name, packed = collection.build()
    version = name[len("trainyard-gpu_node-") : -len(".tar.gz")]
    lock = wheels.have(cache)
    files = {
        "converge": (Path(__file__).parent / "converge").read_bytes(),
        "converge.pyz": python_part(),
        "version": version.encode("ascii") + b"\n",
        "collection/" + name: packed,
        "wheels/index.json": json.dumps({tag: sorted(one) for tag, one in lock.items()}, sort_keys=True).encode(
            "ascii"
        ),
    }
    for names in lock.values():
        files.update(("wheels/" + wheel, (cache / wheel).read_bytes()) for wheel in names)
    lines = ["{0}  {1}\n".format(hashlib.sha256(files[path]).hexdigest(), path) for path in sorted(files)]
    return version, dict(files, SHA256SUMS="".join(lines).encode("utf-8"))


def sign(path: Path) -> None:
    """GPU_NODE_BUNDLE_SIGN names a command that gets the file as its last argument, as `gpg --detach-sign`."""
    words = shlex.split(os.environ.get("GPU_NODE_BUNDLE_SIGN", ""))
    if not words:
        return
    told = "GPU_NODE_BUNDLE_SIGN: {0}".format(words[0])
    try:
        status = subprocess.run([*words, str(path)], check=False).returncode
    except OSError as error:
        raise BundleError("{0} could not be run ({1})".format(told, error.strerror)) from error
    if status != 0:
        raise BundleError("{0} ended with status {1}; the bundle is not signed".format(told, status))


def main() -> int:
    try:
        version, files = contents(FOLDER / "wheels")
        name = "gpu-node-bundle-{0}".format(version)
        content = collection.tarball(files, executable=("converge",), top=name + "/")
        path = FOLDER / (name + ".tar.gz")
        path.write_bytes(content)
        line = "{0}  {1}\n".format(hashlib.sha256(content).hexdigest(), path.name)
        Path(str(path) + ".sha256").write_text(line, encoding="ascii")
        sign(path)
    except BundleError as error:
        print("bundle: {0}.".format(error), file=sys.stderr)
        return 1
    print("bundle: {0}: {1:.1f} MB".format(path.relative_to(ROOT), len(content) / 1e6))
    return 0


if __name__ == "__main__":
    sys.exit(main())
