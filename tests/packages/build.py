# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds small packages with the names, places and commands of the real ones, for tests on a node without Internet.

    python tests/packages/build.py FOLDER [--slurm-headers TARBALL] [--at /srv/packages]

FOLDER gets enroot as .deb files in two versions, HPC-X as a tarball, pyxis as a tarball of source and, with Slurm's
headers, built as well. variables.json tells the roles what they are; --at is where FOLDER will lie on the node.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(REPOSITORY / ".collections"))

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.core.node_packages import debs  # noqa: E402
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.hpcx import hpcx_tarball  # noqa: E402

OLD, NEW = "3.5.0-1", "4.1.2-1"
HPCX = "2.24.1"
PYXIS = "pyxis-0.24.0"
_HELPERS = ("aufs2ovlfs", "makedev", "mksquashovlfs", "mount", "nsenter", "switchroot")
_HOOKS = ("10-cgroups.sh", "10-devices.sh", "10-home.sh", "10-shadow.sh", "98-nvidia.sh", "99-mellanox.sh")
_EXTRA_HOOKS = ("50-mig-config.sh", "50-sharp.sh", "50-slurm-pmi.sh", "50-slurm-pytorch.sh")


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def enroot(folder, version):
    """enroot and enroot+caps; {name of the package: sha256}."""
    hook = ("#!/usr/bin/env bash\nexit 0\n", 0o755)
    files = {
        "/usr/bin/enroot": ((HERE / "enroot").read_text().replace("@VERSION@", version.split("-")[0]), 0o755),
        "/etc/enroot/enroot.conf": ("#ENROOT_DATA_PATH ${XDG_DATA_HOME}/enroot\n", 0o644),
        "/etc/enroot/enroot.conf.d/README": ("Drop-ins, *.conf\n", 0o644),
        "/etc/enroot/environ.d/10-terminal.env": ("TERM=${TERM-}\n", 0o644),
        "/etc/enroot/mounts.d/10-system.fstab": ("proc /proc proc x-create=dir,rw,nosuid,nodev,noexec\n", 0o644),
    }
    files.update({"/usr/bin/enroot-" + name: hook for name in _HELPERS})
    files.update({"/etc/enroot/hooks.d/" + name: hook for name in _HOOKS})
    files.update({"/usr/share/enroot/hooks.d/" + name: hook for name in _EXTRA_HOOKS})
    conffiles = sorted(path for path in files if path.startswith("/etc/"))
    caps = {"/DEBIAN/postinst": ("#!/bin/sh\nchmod 755 /usr/bin/enroot-mksquashovlfs\n", 0o755)}
    made = {
        "enroot": debs.build(folder, "enroot", version, files, conffiles=conffiles),
        "enroot+caps": debs.build(folder, "enroot+caps", version, caps, "enroot (= {0})".format(version)),
    }
    for name in made:
        shutil.rmtree(str(folder / "tree-{0}-{1}".format(name, version)))
    return {name: digest for name, (dummy, digest) in made.items()}


def pyxis_source(path):
    """The tarball as GitHub makes it, the same bytes each time."""
    with tarfile.open(str(path), "w") as archive:
        for name in ("Makefile", "pyxis.c"):
            content = (HERE / "pyxis" / name).read_bytes()
            entry = tarfile.TarInfo("{0}/{1}".format(PYXIS, name))
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return sha256(path)


def pyxis_prebuilt(folder, headers):
    """The plugin, built here for the Slurm of these headers; (its version, sha256)."""
    work = folder / "work"
    work.mkdir()
    with tarfile.open(str(headers)) as archive:
        archive.extractall(str(work))
    number = re.search(r"VERSION_NUMBER\s+0x(\w+)", (work / "slurm" / "slurm_version.h").read_text()).group(1)
    version = "{0}.{1:02d}.{2}".format(*bytes.fromhex(number))
    for name in ("Makefile", "pyxis.c"):
        shutil.copy(str(HERE / "pyxis" / name), str(work))
    environment = dict(os.environ, CPPFLAGS="-I" + str(work.resolve()))
    subprocess.run(["make", "-s", "-C", str(work), "spank_pyxis.so"], check=True, timeout=300, env=environment)
    target = folder / "spank_pyxis.so"
    shutil.move(str(work / target.name), str(target))
    shutil.rmtree(str(work))
    return version, sha256(target)


def build(folder, at="/srv/packages", headers=None):
    """All of it; what variables.json says."""
    folder.mkdir(parents=True)
    sums = {version: enroot(folder, version) for version in (OLD, NEW)}
    variables = {
        "packages_enroot": {
            version: [
                {
                    "name": name,
                    "version": version,
                    "source": "{0}/{1}_{2}_all.deb".format(at, name, version),
                    "sha256": digest,
                }
                for name, digest in found.items()
            ]
            for version, found in sums.items()
        },
        "packages_hpcx": {
            "source": at + "/hpcx.tbz",
            "sha256": hpcx_tarball.build(folder / "hpcx.tbz", HPCX),
            "version": HPCX,
        },
        "packages_pyxis": {"source": at + "/pyxis.tar", "sha256": pyxis_source(folder / "pyxis.tar")},
        "packages_pyxis_prebuilt": [],
    }
    if headers is not None:
        version, digest = pyxis_prebuilt(folder, headers)
        prebuilt = {"slurm_version": version, "source": at + "/spank_pyxis.so", "sha256": digest}
        variables["packages_pyxis_prebuilt"] = [prebuilt]
    (folder / "variables.json").write_text(json.dumps(variables, indent=2) + "\n")
    return variables


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--at", default="/srv/packages")
    parser.add_argument("--slurm-headers", type=Path)
    given = parser.parse_args()
    build(given.folder, given.at, given.slurm_headers)
