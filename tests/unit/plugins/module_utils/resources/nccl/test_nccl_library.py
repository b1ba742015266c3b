# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which libnccl a node has: by its name, by what it prints, and not at all."""

from __future__ import annotations

import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl import library
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl.library import Library
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl.observe import peermem
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl.types import Peermem

# What stands in libnccl.so.2 of the wheel nvidia-nccl-cu12 2.32.3, in this order from 3.5 MB on; the file has 474 MB.
REAL = (
    b"\0NCCL version information only.\0"
    b"NCCL version information\0"
    b"NCCL version 2.32.3+cuda12.9\0"
    b"NCCL version detected : rank %d version %d rank %d version %d\0"
    b"NCCL version %s, but is running with NCCL library version %s.\0"
)


def place(root, path, content=b"\x7fELF"):
    full = root / path.lstrip("/")
    full.parent.mkdir(parents=True, exist_ok=True)
    full.write_bytes(content)
    return full


def test_the_file_name_of_a_package(tmp_path):
    place(tmp_path, "/usr/lib/x86_64-linux-gnu/libnccl.so.2.28.9")
    os.symlink("libnccl.so.2.28.9", str(tmp_path / "usr/lib/x86_64-linux-gnu/libnccl.so.2"))
    expected = Library("/usr/lib/x86_64-linux-gnu/libnccl.so.2", "2.28.9")
    assert library.libraries(Host(str(tmp_path))) == (expected,)


@pytest.mark.parametrize(
    "content, expected",
    [
        (b"\x7fELF" + bytes(9000) + REAL, "2.32.3"),
        (b"NCCL version 2.29.1b1+cuda13.0\0", "2.29.1b1"),
        (b"\x7fELF" + bytes(9000), None),
        (b"", None),
    ],
)
def test_the_text_that_the_library_prints(tmp_path, content, expected):
    place(tmp_path, "/usr/local/lib/libnccl.so.2", content)
    assert library.libraries(Host(str(tmp_path))) == (Library("/usr/local/lib/libnccl.so.2", expected),)


def test_a_large_file_is_not_read_to_its_end(tmp_path):
    full = place(tmp_path, "/usr/local/lib/libnccl.so.2")
    with open(str(full), "r+b") as stream:  # sparse
        stream.seek(500 << 20)
        stream.write(REAL)
    assert library.version(Host(str(tmp_path)), "/usr/local/lib/libnccl.so.2") is None


def test_one_library_under_two_names_is_one(tmp_path):
    place(tmp_path, "/usr/lib64/libnccl.so.2", REAL)
    (tmp_path / "opt/nccl").mkdir(parents=True)
    os.symlink("../../usr/lib64", str(tmp_path / "opt/nccl/lib"))
    assert len(library.libraries(Host(str(tmp_path)))) == 1
    assert library.version(Host(str(tmp_path)), "/nowhere") is None


def test_plugins_by_their_names(tmp_path):
    folder = "/usr/local/nccl-rdma-sharp-plugins/lib/"
    for name in ("libnccl-net.so", "libnccl-net.so.0.0.0", "libnccl-net.so.0", "libnccl.so.2", "libnccl-tuner-x.so"):
        place(tmp_path, folder + name)
    assert library.plugins(Host(str(tmp_path))) == (
        folder + "libnccl-net.so",
        folder + "libnccl-net.so.0",
        folder + "libnccl-tuner-x.so",
    )


@pytest.mark.parametrize(
    "line, expected",
    [
        ("updates/dkms/nvidia-peermem.ko.zst: kernel/drivers/infiniband/core/ib_core.ko.zst\n", True),
        ("extra/nvidia_peermem.ko: extra/nvidia.ko\n", True),
        ("extra/nvidia.ko:\nextra/nvidia-modeset.ko: extra/nvidia.ko\n", False),
        ("extra/other.ko: extra/nvidia-peermem.ko\n", False),
    ],
)
def test_peermem_of_the_kernel_that_runs(tmp_path, line, expected):
    place(tmp_path, "/proc/sys/kernel/osrelease", b"6.8.0-1021-azure\n")
    place(tmp_path, "/lib/modules/6.8.0-1021-azure/modules.dep", line.encode())
    place(tmp_path, "/lib/modules/5.4.0/modules.dep", b"extra/nvidia-peermem.ko:\n")
    assert peermem(Host(str(tmp_path))) == Peermem(expected, False)
    (tmp_path / "sys/module/nvidia_peermem").mkdir(parents=True)
    assert peermem(Host(str(tmp_path))).loaded
