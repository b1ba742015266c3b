# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel and initramfs made ready on the host, so that an emulated CPU need not unpack them.

A Debian kernel unpacks itself, and then its initramfs; emulated, that alone takes seconds. QEMU can start
the unpacked ELF kernel (by the PVH entry that Debian's kernels carry) and an uncompressed initramfs.
"""

from __future__ import annotations

import gzip
import lzma
import shutil
import struct
import subprocess
import tarfile
import zlib
from typing import Dict, List, Tuple

from .progress import VirtualNodeError

_CPIO_MAGIC = b"070701"
LINK = 0o120777  # the mode of a symbolic link in an archive; its content is where it points


def unpack_kernel(image: bytes) -> bytes:
    """The ELF kernel inside a bzImage (Linux boot protocol 2.08 and later: payload_offset, payload_length)."""
    if image[0x202:0x206] != b"HdrS":
        raise VirtualNodeError(
            "kernel: no Linux boot header in it; rebuild the image with `virtual_node image --refresh`."
        )
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start : start + length]
    if payload[:6] == b"\xfd7zXZ\x00":
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ).decompress(payload)
    if payload[:2] == b"\x1f\x8b":
        return zlib.decompressobj(31).decompress(payload)
    if payload[:4] == b"\x28\xb5\x2f\xfd" and shutil.which("zstd"):
        done = subprocess.run(["zstd", "-dcq"], input=payload, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if done.stdout[:4] == b"\x7fELF":
            return done.stdout
    return image


def unpack_initramfs(data: bytes) -> bytes:
    """An initramfs without compression; parts that are not compressed already stay as they are."""
    head = b""
    while data[:6] == _CPIO_MAGIC:  # early microcode, uncompressed
        end = data.find(b"TRAILER!!!")
        if end < 0:
            return head + data
        end += len(b"TRAILER!!!")
        while end < len(data) and data[end] == 0:
            end += 1
        head, data = head + data[:end], data[end:]
    return _aligned(head) + (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def _aligned(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 512)


def archive(files: Dict[str, Tuple[int, bytes]]) -> bytes:
    """A cpio archive (newc) of regular files ``{path: (mode, content)}`` and the folders that hold them."""
    entries: Dict[str, Tuple[int, bytes]] = {}
    for path, (mode, content) in files.items():
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts)):
            entries.setdefault("/".join(parts[:depth]), (0o040755, b""))
        entries["/".join(parts)] = (mode if mode == LINK else 0o100000 | mode, content)
    out = [_entry(number, path, *entries[path]) for number, path in enumerate(sorted(entries), 1)]
    out.append(_entry(0, "TRAILER!!!", 0, b""))
    return _aligned(b"".join(out))


def _entry(number: int, path: str, mode: int, content: bytes) -> bytes:
    name = path.encode() + b"\0"
    links = 2 if mode == 0o040755 else 1
    fields = (number, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name), 0)
    head = _CPIO_MAGIC + b"".join(b"%08X" % field for field in fields) + name
    head += b"\0" * (-len(head) % 4)
    return head + content + b"\0" * (-len(content) % 4)


# What the quick initramfs loads, in this order, each after what it depends on. virtio_net and nvme go on with their
# probing in the background while systemd starts.
_MODULES = ("virtio_pci", "virtio_blk", "crc32c_generic", "crc32c_intel", "ext4", "virtio_net", "nvme")


def quick_initramfs(tree: tarfile.TarFile, init: bytes) -> bytes:
    """An initramfs of busybox and the few modules that reach the root disk, taken from the tree of the guest."""
    members = {member.name.lstrip("./"): member for member in tree if member.isfile()}
    folder = next(name[: -len("modules.dep")] for name in members if name.endswith("/modules.dep"))

    def read(name: str) -> bytes:
        stream = tree.extractfile(members[name])
        assert stream is not None
        return stream.read()

    needs: Dict[str, List[str]] = {}
    for line in read(folder + "modules.dep").decode().splitlines():
        path, _, others = line.partition(":")
        needs[path] = others.split()
    builtin = read(folder + "modules.builtin").decode()
    files: Dict[str, Tuple[int, bytes]] = {"init": (0o755, init)}
    order: List[str] = []
    for name in _MODULES:
        for path in _with_needs(name, needs, builtin):
            short = module_name(path) + ".ko"
            if short not in order:
                order.append(short)
                content = read(folder + path)
                files["modules/" + short] = (0o644, lzma.decompress(content) if path.endswith(".xz") else content)
    files["modules/order"] = (0o644, ("\n".join(order) + "\n").encode())
    busybox = next(name for name in ("usr/bin/busybox", "bin/busybox") if name in members)
    files["bin/busybox"] = (0o755, read(busybox))
    files.update({"{0}/.keep".format(name): (0o644, b"") for name in ("proc", "sys", "dev", "root")})
    return archive(files)


def module_name(path: str) -> str:
    return path.rpartition("/")[2].partition(".ko")[0].replace("-", "_")


def _with_needs(name: str, needs: Dict[str, List[str]], builtin: str) -> List[str]:
    """The module's path after those it needs (modules.dep lists the nearest first); nothing when it is built in."""
    for path, others in needs.items():
        if module_name(path) == name:
            return list(reversed(others)) + [path]
    if not any(module_name(path) == name for path in builtin.splitlines()):
        raise VirtualNodeError("kernel: it has no module {0}; choose a kernel package that has.".format(name))
    return []
