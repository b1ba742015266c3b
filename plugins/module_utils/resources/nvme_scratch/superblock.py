# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the geometry that mkfs wrote, straight from the superblock.

The same figures as xfs_info and dumpe2fs show, without starting a shell script per run. Offsets: xfs_sb in
fs/xfs/libxfs/xfs_format.h, ext4_super_block in fs/ext4/ext4.h of the Linux kernel.
"""

from __future__ import annotations

import struct
from typing import Optional

from .types import Filesystem

NEEDED_BYTES = 4096
_EXT4_START = 1024


def _label(raw: bytes) -> str:
    return raw.split(b"\0")[0].decode("utf-8", "replace")


def read(block: bytes) -> Optional[Filesystem]:
    """The file system whose first 4 KiB these are, or None."""
    if len(block) < NEEDED_BYTES:
        return None
    if block[:4] == b"XFSB":
        block_bytes = struct.unpack_from(">I", block, 4)[0]
        unit, width = struct.unpack_from(">II", block, 184)
        return Filesystem(
            type="xfs",
            uuid=block[32:48].hex(),
            label=_label(block[108:120]),
            in_progress=block[126] != 0,
            stripe_unit_bytes=unit * block_bytes,
            stripe_width_bytes=width * block_bytes,
        )
    if struct.unpack_from("<H", block, _EXT4_START + 56)[0] == 0xEF53:
        # Beyond 64 KiB blocks there is no ext4; a wild figure here would only be noise.
        shift = min(struct.unpack_from("<I", block, _EXT4_START + 24)[0], 6)
        stride = struct.unpack_from("<H", block, _EXT4_START + 0x164)[0]
        width = struct.unpack_from("<I", block, _EXT4_START + 0x170)[0]
        return Filesystem(
            type="ext4",
            uuid=block[_EXT4_START + 104 : _EXT4_START + 120].hex(),
            label=_label(block[_EXT4_START + 120 : _EXT4_START + 136]),
            stripe_unit_bytes=stride * (1024 << shift),
            stripe_width_bytes=width * (1024 << shift),
        )
    return None
