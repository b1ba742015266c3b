# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tools print, as captured from a guest with mdadm 4.2 and util-linux 2.38 (bookworm)."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import parse, superblock
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import Signature

# mdadm 4.2, one member of eight, and a disk without a superblock.
EXAMINE = """mdadm: No md superblock detected on /dev/nvme1n1.
/dev/nvme0n1:
          Magic : a92b4efc
        Version : 1.2
    Feature Map : 0x0
     Array UUID : 2579eeba:d939455e:9e4c5754:3251fe96
           Name : any:gpu_node_scratch
  Creation Time : Sat Nov 21 09:21:25 2026
     Raid Level : raid0
   Raid Devices : 8

 Avail Dev Size : 2093056 sectors (1022.00 MiB 1071.64 MB)
    Data Offset : 4096 sectors
   Super Offset : 8 sectors
   Unused Space : before=4016 sectors, after=0 sectors
          State : clean
    Device UUID : 8b6f31be:32cc0c1d:437aa672:2e3b898d

    Update Time : Sat Nov 21 09:21:25 2026
  Bad Block Log : 512 entries available at offset 8 sectors
       Checksum : 397790cb - correct
         Events : 0

     Chunk Size : 512K

   Device Role : Active device 6
   Array State : AAAAAAAA ('A' == active, '.' == missing, 'R' == replacing)
"""


def test_examine_gives_uuid_name_role_and_chunk():
    ((path, member),) = list(parse.examine(EXAMINE).items())
    assert path == "/dev/nvme0n1"
    assert (member.array_uuid, member.array_name) == ("2579eebad939455e9e4c57543251fe96", "any:gpu_node_scratch")
    assert (member.level, member.raid_devices, member.role, member.chunk_bytes) == ("raid0", 8, 6, 524288)


def test_several_devices_in_one_examine_are_told_apart():
    two = EXAMINE + EXAMINE.replace("/dev/nvme0n1", "/dev/nvme2n1").replace("device 6", "device 2")
    assert {path: member.role for path, member in parse.examine(two).items()} == {"/dev/nvme0n1": 6, "/dev/nvme2n1": 2}


def test_a_reshape_under_way_is_seen():
    assert [one.reshaping for one in parse.examine(EXAMINE).values()] == [False]
    # mdadm 4.2 and 4.4, super1.c: what --examine tells while MD_FEATURE_RESHAPE_ACTIVE is set.
    lines = "  Reshape pos'n : 1024 (1024.00 KiB 1.05 MB)\n  Delta Devices : 1 (4->5)\n"
    under_way = EXAMINE.replace("    Update Time", lines + "    Update Time")
    assert [one.reshaping for one in parse.examine(under_way).values()] == [True]


def test_a_spare_has_no_role_and_a_local_name_is_cut():
    text = EXAMINE.replace("Active device 6", "spare").replace(
        "any:gpu_node_scratch", "host:data  (local to host host)"
    )
    member = parse.examine(text)["/dev/nvme0n1"]
    assert member.role is None and member.array_name == "host:data"


def test_a_label_with_commas_is_a_label():
    text = "0x438,2f0e9f5e-3c5a-4d2b-9a55-1f0d2f6f3a11,a,b,swap,ext4\n"
    (found,) = parse.wipefs(text)
    assert (found.type, found.label) == ("ext4", "a,b,swap")


def test_wipefs_lines_become_signatures():
    text = "# offset,uuid,label,type\n0x1000,2579eeba-d939-455e-9e4c-57543251fe96,any:x,linux_raid_member\n"
    text += "0x438,e04649cc-ac3d-4e95-ba12-15e4b7f11c8e,my\\x20lab,ext4\n"
    assert parse.wipefs(text) == (
        Signature("linux_raid_member", "2579eebad939455e9e4c57543251fe96", "any:x"),
        Signature("ext4", "e04649ccac3d4e95ba1215e4b7f11c8e", "my lab"),
    )


def test_two_copies_of_one_thing_are_one_finding():
    assert parse.wipefs("0x200,,,gpt\n0x3ffffe00,,,gpt\n0x1fe,,,PMBR\n") == (Signature("gpt"), Signature("PMBR"))


@given(st.text(max_size=200))
def test_no_output_crashes_a_parser(text):
    for reader in (parse.wipefs, parse.export, parse.examine):
        reader(text)


def xfs_block(in_progress=0):
    block = bytearray(4096)
    struct.pack_into(">4sI", block, 0, b"XFSB", 4096)
    block[32:48] = bytes(range(16))
    block[108:119] = b"gpu_scratch"
    block[126] = in_progress
    struct.pack_into(">II", block, 184, 128, 1024)
    return bytes(block)


def test_the_xfs_superblock_gives_geometry_label_and_whether_mkfs_ended():
    seen = superblock.read(xfs_block())
    assert (seen.type, seen.uuid, seen.label, seen.in_progress) == ("xfs", bytes(range(16)).hex(), "gpu_scratch", False)
    assert (seen.stripe_unit_bytes, seen.stripe_width_bytes) == (524288, 4194304)
    assert superblock.read(xfs_block(1)).in_progress


@pytest.mark.parametrize("block", [b"", b"XFSB", bytes(4096), b"\xff" * 4096])
def test_other_blocks_are_no_file_system(block):
    assert superblock.read(block) is None


@given(st.integers(0, 2**32))
def test_no_block_crashes_the_reader(seed):
    block = random.Random(seed).randbytes(4096)
    superblock.read(b"XFSB" + block[4:])
    superblock.read(block[:1080] + b"\x53\xef" + block[1082:])
