# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection as one file: what `ansible-galaxy collection build` makes, the same bytes on each machine."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Dict, List, Tuple

from .wheels import ROOT, BundleError

# Whoever puts one of these into a clone wants it nowhere else.
_SECRET_NAMES = re.compile(r"(^|/)(\.netrc|id_(rsa|dsa|ecdsa|ed25519)|[^/]+\.(pem|key|p12|pfx))$")
_SECRET_TEXTS = re.compile(rb"^\s*(-----BEGIN ([A-Z]+ )*PRIVATE KEY-----|\$ANSIBLE_VAULT;[0-9])", re.MULTILINE)
_TESTS = ("tests/", "tools/")


def tracked(root: Path) -> List[str]:
    """The files that git tracks and that exist; what else lies about in a clone is not packed."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=str(root), capture_output=True, check=False)
    if done.returncode != 0:
        raise BundleError("{0}: it is no clone of the repository; run 'make bundle' in one".format(root))
    names = sorted(os.fsdecode(name) for name in done.stdout.split(b"\0") if name)
    return [name for name in names if (root / name).is_file() and not (root / name).is_symlink()]


def check_secrets(root: Path, names: List[str]) -> None:
    """A key or a vault file that was committed by mistake ends the build. Tests may have such words in them."""
    for name in names:
        if name.startswith(_TESTS):
            continue
        if _SECRET_NAMES.search(name) or _SECRET_TEXTS.search((root / name).read_bytes()):
            raise BundleError(
                "{0}: it looks like a secret, which a bundle must not carry; take it out of git".format(name)
            )


def build(root: Path = ROOT) -> Tuple[str, bytes]:
    """Name and bytes."""
    names = tracked(root)
    check_secrets(root, names)
    with tempfile.TemporaryDirectory(prefix="gpu_node-bundle-") as folder:
        source = Path(folder) / "source"
        for name in names:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(root / name), str(source / name))
        command = [str(Path(sys.executable).parent / "ansible-galaxy"), "collection", "build", "--output-path", folder]
        environment = {name: text for name, text in os.environ.items() if not name.startswith("ANSIBLE_")}
        done = subprocess.run(
            command, cwd=str(source), env=dict(environment, HOME=folder), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise BundleError("the collection: ansible-galaxy failed ({0}); run 'make lint'".format(last))
        made = next(Path(folder).glob("trainyard-gpu_node-*.tar.gz"))
        with tarfile.open(str(made)) as archive:
            files = {one.name: _content(archive, one) for one in archive if one.isfile()}
        return made.name, tarball(in_order(files))


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(member)
    return b"" if stream is None else stream.read()


def in_order(files: Dict[str, bytes]) -> Dict[str, bytes]:
    """ansible-galaxy lists files as the folder gives them, which differs from disk to disk."""
    listing = json.loads(files["FILES.json"])
    listing["files"].sort(key=lambda one: one["name"])
    manifest = json.loads(files["MANIFEST.json"])
    listed = json.dumps(listing, indent=1, sort_keys=True).encode("utf-8")
    manifest["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(listed).hexdigest()
    return dict(files, **{"FILES.json": listed, "MANIFEST.json": json.dumps(manifest, indent=1).encode("utf-8")})


def tarball(files: Dict[str, bytes], executable: Tuple[str, ...] = (), top: str = "") -> bytes:
    """A .tar.gz that tells no time, user or machine."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=buffer, mode="wb", mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name in sorted(files):
                entry = tarfile.TarInfo(top + name)
                entry.size = len(files[name])
                entry.mode = 0o755 if name in executable else 0o644
                archive.addfile(entry, io.BytesIO(files[name]))
    return buffer.getvalue()
