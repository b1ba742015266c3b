# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import gzip
import io
import lzma
import struct
import tarfile
from pathlib import Path
from typing import Dict, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_machine import boot_files, seed
from virtual_machine.progress import VirtualNodeError


def read_archive(data: bytes) -> Dict[str, Tuple[int, bytes]]:
    """An independent reader of the newc format, as in the kernel's buffer-format document."""
    found, offset = {}, 0
    while True:
        assert data[offset : offset + 6] == b"070701"
        fields = [int(data[offset + 6 + 8 * number : offset + 14 + 8 * number], 16) for number in range(13)]
        start = offset + 110
        name = data[start : start + fields[11] - 1].decode()
        body = (start + fields[11] + 3) & ~3
        if name == "TRAILER!!!":
            return found
        found[name] = (fields[1], data[body : body + fields[6]])
        offset = (body + fields[6] + 3) & ~3


NAMES = st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,3}", fullmatch=True)


@given(st.dictionaries(NAMES, st.binary(max_size=64), max_size=6))
def test_an_archive_gives_back_every_file_and_its_folders_before_it(files: Dict[str, bytes]) -> None:
    files = {name: data for name, data in files.items() if not any(other.startswith(name + "/") for other in files)}
    packed = boot_files.archive({name: (0o644, data) for name, data in files.items()})
    found = read_archive(packed)
    assert {name: data for name, (mode, data) in found.items() if mode & 0o100000} == files
    order = list(found)
    for name in files:
        parent = name.rpartition("/")[0]
        assert not parent or order.index(parent) < order.index(name)
    assert len(packed) % 512 == 0


def test_an_archive_can_hold_a_symbolic_link() -> None:
    found = read_archive(boot_files.archive({"etc/link": (boot_files.LINK, b"/target")}))
    assert found["etc/link"] == (0o120777, b"/target")


def bzimage(payload: bytes) -> bytes:
    head = bytearray(3 * 512)
    head[0x1F1] = 2
    head[0x202:0x206] = b"HdrS"
    head[0x248:0x250] = struct.pack("<II", 16, len(payload))
    return bytes(head) + bytes(16) + payload + b"tail"


@pytest.mark.parametrize("pack", [lzma.compress, gzip.compress])
def test_the_elf_kernel_is_taken_out_of_its_self_unpacking_image(pack: object) -> None:
    elf = b"\x7fELF" + bytes(range(256)) * 40
    # The kernel's build appends the unpacked size to the payload; an unpacker has to stop before it.
    payload = pack(elf) + struct.pack("<I", len(elf))  # type: ignore[operator]
    assert boot_files.unpack_kernel(bzimage(payload)) == elf


def test_a_kernel_packed_in_an_unknown_way_is_left_to_unpack_itself() -> None:
    image = bzimage(b"unknown packing")
    assert boot_files.unpack_kernel(image) == image


def test_a_file_that_is_no_kernel_is_refused() -> None:
    with pytest.raises(VirtualNodeError, match="no Linux boot header"):
        boot_files.unpack_kernel(bytes(4096))


def test_a_compressed_initramfs_behind_early_microcode_is_unpacked() -> None:
    early = boot_files.archive({"kernel/x86/microcode": (0o644, b"code")})
    late = boot_files.archive({"init": (0o755, b"#!/bin/sh")})
    unpacked = boot_files.unpack_initramfs(early + gzip.compress(late))
    assert unpacked.startswith(early) and unpacked.endswith(late)
    assert boot_files.unpack_initramfs(late) == late


def tree(builtin: str = "") -> tarfile.TarFile:
    folder = "./usr/lib/modules/6.1/"
    names = ["virtio_pci", "virtio_blk", "crc32c_generic", "crc32c_intel", "jbd2", "ext4", "virtio_net", "nvme"]
    dep = "".join("kernel/{0}.ko:{1}\n".format(name, " kernel/jbd2.ko" if name == "ext4" else "") for name in names)
    files = {folder + "modules.dep": dep.encode(), folder + "modules.builtin": builtin.encode()}
    files["./usr/bin/busybox"] = b"busybox"
    files.update({folder + "kernel/{0}.ko".format(name): name.encode() for name in names})
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as target:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            target.addfile(info, io.BytesIO(data))
    out.seek(0)
    return tarfile.open(fileobj=out)


def test_the_quick_initramfs_loads_each_module_after_what_it_needs() -> None:
    found = read_archive(boot_files.quick_initramfs(tree(), b"#!init"))
    order = found["modules/order"][1].decode().split()
    assert order.index("jbd2.ko") < order.index("ext4.ko")
    assert {"modules/" + name for name in order} <= set(found)
    assert found["init"] == (0o100755, b"#!init")
    assert found["bin/busybox"][1] == b"busybox"


def test_a_guest_gets_both_libraries_of_the_simulator_and_its_machine(tmp_path: Path) -> None:
    (tmp_path / "machines").mkdir()
    for name in ("libnvidia-ml.so.1", "libcuda.so.1", "nvml-simulator", "machines/nd96asr_v4.conf"):
        (tmp_path / name).write_text(name)
    files = seed._simulator_files(tmp_path, "nd96asr_v4")
    libraries = {
        path: content for path, (mode, content) in files.items() if mode == 0o755 and path.startswith("usr/lib/")
    }
    assert libraries == {
        "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": b"libnvidia-ml.so.1",
        "usr/lib/x86_64-linux-gnu/libcuda.so.1": b"libcuda.so.1",
    }
    assert files["etc/nvml_simulator/machine.conf"] == (0o644, b"machines/nd96asr_v4.conf")
