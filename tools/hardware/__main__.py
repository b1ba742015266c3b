# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make hardware`: build the file gpu-node-hardware.pyz, and run it on this machine. See docs/hardware.md.

The file has all that it needs but Python and the driver, so it can be copied to a node without a network.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Dict, List, Optional, Sequence

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "build" / "hardware" / "gpu-node-hardware.pyz"
COLLECTION = "ansible_collections/trainyard/gpu_node"
TOOLS = ("tools/hardware", "tools/nvml_answers")
# What the steps need of them.
LEFT_OUT = ("__main__.py", "compare.py", "simulated.py")


def contents() -> Dict[str, bytes]:
    """Each file of the archive by its path.

    :raises ImportError: NVIDIA's binding is not installed here.
    """
    from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import zipapp

    try:
        command = zipapp.build()
    except zipapp.BindingMissing as error:
        raise ImportError(str(error)) from error
    files = {
        "__main__.py": (ROOT / "tools/hardware/start.py").read_bytes(),
        "ansible_collections/gpunode.pyz": command,
    }
    for folder in TOOLS:
        for path in sorted((ROOT / folder).glob("*.py")):
            if folder != "tools/nvml_answers" or path.name not in LEFT_OUT:
                files["{0}/{1}/{2}".format(COLLECTION, folder, path.name)] = path.read_bytes()
    packages = [os.path.dirname(name) for name in files if name.startswith("ansible_collections/")]
    packages += [COLLECTION + "/plugins/module_utils"]
    for package in packages:  # an archive has no packages without this file
        while package:
            files.setdefault(package + "/__init__.py", b"")
            package = os.path.dirname(package)
    return files


def build() -> bytes:
    """The file; the same bytes for the same clone."""
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_runtime import bytecode, launcher

    files = contents()
    buffer = io.BytesIO()
    buffer.write(launcher.launcher(None).replace(b"gpunode:", b"gpu-node-hardware:"))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(bytecode.entry(name), files[name])
    return buffer.getvalue()


def built(path: Path = FILE) -> Path:
    """Build it where the clone has what that takes; else take the file that was built elsewhere.

    :raises FileNotFoundError: there is neither.
    """
    if importlib.util.find_spec("pynvml") is None:
        if path.is_file():
            return path
        raise FileNotFoundError(
            "{0}: it is missing, and it cannot be built here without NVIDIA's Python binding; run 'make setup', or "
            "'make hardware BUILD_ONLY=1' on a machine with a network, and copy that file to this one.".format(path)
        )
    with tempfile.TemporaryDirectory() as folder:
        # The clone as a collection, also where `make setup` did not run.
        parent = Path(folder) / "ansible_collections" / "trainyard"
        parent.mkdir(parents=True)
        (parent / "gpu_node").symlink_to(ROOT)
        sys.path.insert(0, folder)
        content = build()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(add_help=False)  # the other words are for the program
    parser.add_argument("--build-only", action="store_true", help="build the file; do not run it")
    options, words = parser.parse_known_args(argv)
    try:
        path = built()
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    if options.build_only:
        print("{0}: copy it to a machine with a GPU and run it there: python3 {1}".format(path, path.name))
        return 0
    command: List[str] = [sys.executable, "-I", str(path), *words]
    try:
        return subprocess.call(command)
    except KeyboardInterrupt:  # the program has said so
        return 130


if __name__ == "__main__":
    sys.exit(main())
