# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make bundle`: one file that converges a node without a network. See docs/bundle.md."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Dict, Optional, Sequence

import yaml

from .declared import ROOT, BundleError, checked

FOLDER = ROOT / "build" / "bundle"


def contents(declaration: Optional[Path] = None, artefacts: Sequence[Path] = ()) -> Dict[str, bytes]:
    """Every file of the bundle by its path."""
    from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import zipapp

    files = {
        "converge": (Path(__file__).parent / "converge").read_bytes(),
        "gpunode.pyz": zipapp.build(),
        "version": version().encode("ascii") + b"\n",
    }
    if declaration is not None:
        files["declaration.json"] = checked(read(declaration).decode("utf-8", "replace"), str(declaration)).encode()
    for path in artefacts:
        name = "artefacts/" + path.name
        if not re.fullmatch(r"[\w.+~-]{1,80}", path.name, re.ASCII):
            raise BundleError("{0}: its name cannot be that of an artefact; use letters, digits and .+~_-".format(path))
        if name in files:
            raise BundleError("{0}: another artefact has the same name; rename one of them".format(path))
        files[name] = read(path)
    lines = ["{0}  {1}\n".format(hashlib.sha256(files[path]).hexdigest(), path) for path in sorted(files)]
    return dict(files, SHA256SUMS="".join(lines).encode("utf-8"))


def version() -> str:
    return str(yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"])


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BundleError("{0}: it cannot be read ({1}); name a file that can".format(path, error.strerror)) from error


def tarball(files: Dict[str, bytes], top: str) -> bytes:
    """A .tar.gz that tells no time, user or machine."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=buffer, mode="wb", mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name in sorted(files):
                entry = tarfile.TarInfo(top + name)
                entry.size = len(files[name])
                entry.mode = 0o755 if name == "converge" else 0o644
                archive.addfile(entry, io.BytesIO(files[name]))
    return buffer.getvalue()


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


def main(words: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bundle", description=__doc__)
    parser.add_argument("--declaration", type=Path, metavar="FILE", help="of a node that has none yet")
    parser.add_argument("--artefact", type=Path, metavar="FILE", nargs="+", default=[], action="extend",
                        help="a file that the declaration names, as /opt/gpu_node/artefacts/NAME")  # fmt: skip
    given = parser.parse_args(words)
    try:
        files = contents(given.declaration, given.artefact)
        name = "gpu-node-bundle-{0}".format(version())
        content = tarball(files, name + "/")
        FOLDER.mkdir(parents=True, exist_ok=True)
        path = FOLDER / (name + ".tar.gz")
        path.write_bytes(content)
        line = "{0}  {1}\n".format(hashlib.sha256(content).hexdigest(), path.name)
        Path(str(path) + ".sha256").write_text(line, encoding="ascii")
        sign(path)
    except BundleError as error:
        print("bundle: {0}.".format(error), file=sys.stderr)
        return 1
    print("bundle: {0}: {1:.1f} MB".format(path, len(content) / 1e6))
    return 0


if __name__ == "__main__":
    sys.exit(main())
