# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small tarball with the layout of HPC-X, and a node to unpack it on."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host

NAME = "hpcx-v{0}-gcc-doca_ofed-ubuntu22.04-cuda12-x86_64"
FILES = {
    "VERSION": "HPC-X v{0}\n",
    "hpcx-init.sh": "export HPCX_DIR=here\n",
    "ompi/bin/mpirun": "#!/bin/sh\necho {0}\n",
    "ompi/lib/libmpi.so.40": "library",
    "ompi/tests/osu-micro-benchmarks-7.4/osu_bw": "benchmark",
    "ompi/tests/osu-micro-benchmarks-7.4-cuda/osu_bw": "benchmark",
    "ompi/share/man/man1/mpirun.1": "page",
    "ucx/bin/ucx_info": "program",
    "ucx/lib/ucx/libuct_ib.so": "library",
    "ucc/lib/libucc.so": "library",
    "sharp/lib/libsharp.so": "library",
    "nccl_rdma_sharp_plugin/lib/libnccl-net.so": "library",
}


def build(path, version="2.24.1", more=(), without=(), mode="w:bz2"):
    """Write the tarball; ``more`` are further (TarInfo, content) members. Returns its sha256."""
    top = NAME.format(version)
    with tarfile.open(str(path), mode) as tar:
        for name, text in FILES.items():
            if name.split("/", 1)[0] in without:
                continue
            tar.addfile(*member(top + "/" + name, text.format(version), 0o755 if "/bin/" in name else 0o640))
        tar.addfile(*member(top + "/ompi/lib/libmpi.so", type=tarfile.SYMTYPE, linkname="libmpi.so.40"))
        tar.addfile(
            *member(top + "/ompi/bin/oshrun", type=tarfile.LNKTYPE, linkname=top + "/ompi/bin/mpirun", mode=0o755)
        )
        for one in more:
            tar.addfile(*one)
    with open(str(path), "rb") as stream:
        return hashlib.sha256(stream.read()).hexdigest()


def member(name, text="", mode=0o644, **fields):
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(text.encode()), mode, 1700000000
    for field, value in fields.items():
        setattr(info, field, value)
    return info, io.BytesIO(text.encode())


def source(root, version="2.24.1", **options):
    """The options for a source on the node itself."""
    folder = os.path.join(str(root), "srv")
    os.makedirs(folder, exist_ok=True)
    sha256 = build(os.path.join(folder, version + ".tbz"), version, **options)
    return {"source": "/srv/{0}.tbz".format(version), "sha256": sha256}


def image_tree(root, path, version="2.18"):
    """An HPC-X as an image has it."""
    for name, text in FILES.items():
        whole = os.path.join(str(root), path.lstrip("/"), name)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="ascii") as stream:
            stream.write(text.format(version))


def node(root, lmod=True, environment_modules=False):
    os.makedirs(os.path.join(str(root), "opt"))
    os.makedirs(os.path.join(str(root), "etc"))
    for there, folders in (
        (lmod, ("usr/share/lmod/lmod", "etc/lmod/modules")),
        (environment_modules, ("usr/share/modules/init", "etc/environment-modules/modules")),
    ):
        for folder in folders if there else ():
            os.makedirs(os.path.join(str(root), folder))
    return Host(str(root))


def tree(root, under="opt"):
    """Every path below a folder with what it is: the text of a file, the target of a link."""
    result = {}
    for at, folders, files in os.walk(os.path.join(str(root), under)):
        for name in folders + files:
            path = os.path.join(at, name)
            shown = os.path.relpath(path, str(root))
            if os.path.islink(path):
                result[shown] = "-> " + os.readlink(path)
            elif os.path.isdir(path):
                result[shown] = "folder"
            else:
                with open(path, encoding="latin-1") as stream:
                    result[shown] = stream.read()
    return result
