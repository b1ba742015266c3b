# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""azcopy and Azurite of npm, in the user's cache: 420 MB, too many for each clone, and a minute or two for npm. So they
come when a test first wants them, and no setup waits for them."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Dict, Optional

from ..virtual_node.virtual_machine import places
from . import npm, unpacked

LIST = Path(__file__).resolve().parent / "requirements" / "store.txt"
# Where the programs are in their packages.
AZCOPY = "node_modules/@azure-tools/azcopy-linux/dist/bin/azcopy_linux_amd64"
LIBRARY = "usr/lib/*/libsecret-1.so.0"
AZURITE = "node_modules/azurite/dist/src/blob/main.js"


class StoreError(Exception):
    """What could not be had, why, and the remedy."""


def folder() -> Path:
    return places.cache() / "store-{0}".format(hashlib.sha256(LIST.read_bytes()).hexdigest()[:12])


def unpack() -> bool:
    """Have npm install both, once; True if it did.

    :raises StoreError: npm is not there, or fails.
    """
    target = folder()
    if target.is_dir():
        return False
    names = [line for line in LIST.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    with places.lock(target.with_name(target.name + ".lock"), "another setup that installs azcopy"):
        if target.is_dir():
            return False
        with tempfile.TemporaryDirectory(prefix=target.name, dir=target.parent) as work:
            tree = Path(work) / "tree"
            tree.mkdir()
            _install(names, str(tree))
            _library(Path(work), tree / "debian")
            (tree / AZCOPY).chmod(0o755)  # npm drops the right to run it
            (tree / "bin").mkdir()
            (tree / "bin" / "azcopy").symlink_to(Path("..") / AZCOPY)
            tree.rename(target)
    return True


def _library(work: Path, target: Path) -> None:
    """What azcopy does not start without, where it is not installed."""
    if any(Path("/").glob(LIBRARY)):
        return
    remedy = "check the network and run apt-get update, or install it"
    try:
        unpacked.run("libsecret-1-0", remedy, ["apt-get", "-q", "download", "libsecret-1-0"], work)
        (archive,) = work.glob("*.deb")
        unpacked.run("libsecret-1-0", remedy, ["dpkg-deb", "--extract", str(archive), str(target)], work)
    except unpacked.UnpackError as error:
        raise StoreError(str(error)) from None


def _install(names: "list[str]", work: str) -> None:
    try:
        npm.run("azcopy and azurite", Path(work), names)
    except npm.NpmError as error:
        raise StoreError(str(error)) from None
    for program in (AZCOPY, AZURITE):
        if not os.path.exists(os.path.join(work, program)):
            raise StoreError("azcopy and azurite: {0} is not in what npm installed; renew store.txt".format(program))


def environment() -> Optional[Dict[str, str]]:
    """What azcopy and Azurite need in their environment; None where they are not there."""
    if not folder().is_dir() or shutil.which("node") is None:
        return None
    found = [str(path.parent) for path in (folder() / "debian").glob(LIBRARY)]
    return {
        "PATH": "{0}/bin:{1}".format(folder(), os.environ.get("PATH", "")),
        "LD_LIBRARY_PATH": ":".join(found),
    }
