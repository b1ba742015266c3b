#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One scratch file system of the local NVMe disks."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvme_scratch
short_description: Make one scratch file system of the local NVMe disks
description:
  - Builds a RAID0 array of the local NVMe disks of a node, makes an XFS or ext4 file system aligned to it,
    mounts it by UUID with C(nofail), and sets owner and mode of its root folder.
  - One disk gets its file system without an array. On a node without such a disk nothing is done, and
    RV(skipped_reason) says so.
  - A disk is touched only when it is named as scratch material by O(models), O(serials) or O(devices), and is
    blank or carries a UUID that this module recorded in C(/var/lib/gpu_node/nvme_scratch.json) before it wrote
    to the disk. A disk is blank when nothing is recognised on it, nobody has it open, and both its ends and a thousand
    samples between read as zeros. A partition table, LVM, ZFS, a member of another array, unknown data, a mounted or
    open disk stop the module with the disk named, and nothing is changed.
  - A whole array is never remade. After a deallocation, when all disks are blank, the scratch is built anew;
    the same after a power cut in the middle.
  - A scratch that was finished once is never erased unasked, as a disk that is missing may only be late. O(rebuild) asks
    for it.
  - The record belongs to the machine that wrote it. In a node made from an image of another one it proves nothing.
  - Missing tools are installed first. C(gpu-node-nvme_scratch.service) runs C(gpunode apply nvme_scratch) at each boot; it
    is enabled and not started, as the module makes the scratch itself.
  - A node has one scratch.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
requirements:
  - mdadm, and xfsprogs or e2fsprogs (O(manage_packages) installs them)
  - util-linux (wipefs, blkid, mount)
  - systemd and the node command gpunode for O(boot_unit) (module trainyard.gpu_node.node_runtime)
notes:
  - Data on the scratch do not outlive a deallocation of the machine, O(state=absent), or the loss of one disk.
options:
  state:
    description:
      - Whether the scratch is there.
      - V(absent) unmounts it and erases what is proven ours; B(its data are lost). An adopted mount and everything else
        that is not ours are left alone.
    type: str
    choices: [present, absent]
    default: present
  models:
    description:
      - Model names of the disks that are scratch material, as C(nvme list) shows them; shell patterns are possible.
        V([]) names none.
      - By default what the profile of the machine says (C(nvme.models)), otherwise V(Microsoft NVMe Direct Disk),
        V(Microsoft NVMe Direct Disk v2), V(Amazon EC2 NVMe Instance Storage), V(nvme_card), V(nvme_card[0-9]),
        V(nvme_card[0-9][0-9]).
    type: list
    elements: str
  serials:
    description: Serial numbers of further disks that are scratch material. A disk named here that is missing is an
      error.
    type: list
    elements: str
    default: []
  devices:
    description:
      - Device paths of further disks that are scratch material, best under C(/dev/disk/by-id), as names like
        C(/dev/nvme0n1) change between boots.
      - They are declared for the next boots by serial number.
    type: list
    elements: str
    default: []
  overwrite_serials:
    description:
      - Serial numbers of disks whose content may be lost although nobody knows what it is, for this run only. Without
        it such a disk is a refusal. Give it on the command line, not in an inventory.
      - It is not declared, and no boot repeats it. What is known (a file system, a partition table, a member of an
        array) and what is in use are refused all the same. Serial numbers of other nodes are passed over.
      - With all disks of an array it covers what only the new array shows of earlier uses of them, too.
    type: list
    elements: str
    default: []
  rebuild:
    description:
      - Erase what is left of a scratch that cannot be used any more, and build it anew, for this run only. B(Its data
        are lost.) Give it on the command line, not in an inventory.
      - It is for a scratch of which a disk is gone for good, or whose file system is not recognised any more. A scratch
        that is whole is kept all the same, and so is a disk that only bears a copy of its mark.
      - It also covers data of earlier uses of the disks that only a new array of them shows.
      - It is not declared, and no boot repeats it.
    type: bool
    default: false
  count:
    description:
      - How many disks there must be. With fewer or more nothing is done.
      - Without it any number is taken, but not fewer than the scratch was built of last, as a late disk may still
        appear.
      - By default what the profile of the machine says (C(nvme.count)).
      - From 1 to 384.
    type: int
  mount_point:
    description: Where the scratch is mounted. It must be missing, or an empty folder.
    type: path
    default: /mnt/resource_nvme
  owner:
    description: Owner of the root folder of the scratch, by name or number.
    type: str
    default: root
  group:
    description: Group of the root folder of the scratch, by name or number.
    type: str
    default: root
  mode:
    description: Mode of the root folder of the scratch, in octal digits.
    type: str
    default: '1777'
  mount_options:
    description: Mount options. V(nofail), so that a lost scratch never stops a boot, V(x-gpu-node.scratch), which marks
      our line in C(/etc/fstab), and, unless given, V(x-systemd.device-timeout=30s) are always added.
    type: list
    elements: str
    default: [noatime]
  filesystem:
    description: The file system to make.
    type: str
    choices: [xfs, ext4]
    default: xfs
  filesystem_label:
    description: Its label, at most 12 characters for XFS and 16 for ext4.
    type: str
    default: gpu_scratch
  discard:
    description: Discard all blocks while the file system is made. New local disks of a cloud machine do not need it.
    type: bool
    default: false
  array_name:
    description: Name of the array, seen as C(/dev/md/NAME); at most 24 characters.
    type: str
    default: gpu_node_scratch
  chunk_kib:
    description:
      - Chunk of the array, a power of two. It becomes the stripe unit of the file system.
      - From 4 to 65536 KiB.
    type: int
    default: 512
  adopt:
    description: Use a mount that is there already at O(mount_point) or one of O(adopt_mount_points) and change nothing,
      if it is writable and lies on exactly the chosen disks.
    type: bool
    default: true
  adopt_mount_points:
    description: Where else such a mount may be.
    type: list
    elements: path
    default: [/nvme, /mnt/nvme, /mnt/resource_nvme]
  declare:
    description: Write the options into C(/etc/gpu_node/node.json), so that C(gpunode apply nvme_scratch) repeats them
      at each boot.
    type: bool
    default: true
  require_disks:
    description: Fail, instead of skip, when no disk fits.
    type: bool
    default: false
  manage_packages:
    description: Install mdadm and the tools of the file system with the package manager of the distribution, where
      there are disks to use them on. They stay when the scratch goes.
    type: bool
    default: true
  ahead:
    description: Install these tools and the boot unit where there are no such disks, too, for an image whose machines
      have some.
    type: bool
    default: false
  wait_seconds:
    description:
      - In the first ten minutes after a boot, wait so long for disks that are still missing.
      - From 0 to 600 seconds.
    type: int
    default: 30
  command_timeout_seconds:
    description:
      - A single command (C(mdadm), C(mkfs), C(mount)) may take so long.
      - From 1 to 86400 seconds.
    type: int
    default: 300
  boot_unit:
    description:
      - Install and enable C(gpu-node-nvme_scratch.service). It builds the scratch again after a deallocation.
      - V(false) removes it.
    type: bool
    default: true
  before_units:
    description: Units that start only after the boot unit has ended, successfully or not. One that is not installed
      does no harm.
    type: list
    elements: str
    default: [slurmd.service, docker.service, containerd.service, kubelet.service]
  boot_timeout_seconds:
    description:
      - The boot continues without the resource after this time.
      - From 1 to 86400 seconds.
    type: int
    default: 300
attributes:
  check_mode:
    support: full
    description: Tells the whole plan; reads only, and writes nothing to any disk or file.
  diff_mode:
    support: full
    description: Shows disks, arrays, mounts, our line in fstab, the declaration and the boot unit before and after; in
      check mode the plan.
  idempotent:
    support: full
    description: A second run changes nothing.
  platform:
    platforms: linux
    support: full
    description: Linux with md and NVMe, Python 3.8 or newer.
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
"""

EXAMPLES = r"""
- name: Make a scratch of the eight local disks of an Azure ND machine
  trainyard.gpu_node.nvme_scratch:
    models: [Microsoft NVMe Direct Disk]
    count: 8

- name: Make a scratch for one group, as ext4, on disks named by serial number
  trainyard.gpu_node.nvme_scratch:
    serials: [S4YPNF0M801234, S4YPNF0M801235]
    filesystem: ext4
    mount_point: /scratch
    group: gpu-users
    mode: "2770"

- name: Build anew after a disk was replaced; what is left on the others is lost (once, not in a playbook that stays)
  trainyard.gpu_node.nvme_scratch:
    models: [Microsoft NVMe Direct Disk]
    count: 8
    rebuild: true

- name: Prepare an image whose machines have such disks
  trainyard.gpu_node.nvme_scratch:
    models: []
    ahead: true

- name: Take the scratch away and leave its disks blank (data are lost)
  trainyard.gpu_node.nvme_scratch:
    state: absent
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken, in order.
  type: list
  elements: dict
  returned: success
  contains:
    action:
      description: Kind of the step, such as V(create_array).
      type: str
    description:
      description: The step in words.
      type: str
notes:
  description: Facts for the reader, such as an adopted mount.
  type: list
  elements: str
  returned: success
skipped_reason:
  description: Why there is nothing to do on this node at all; null otherwise.
  type: str
  returned: success
refusals:
  description: Everything that stands in the way.
  type: list
  elements: dict
  returned: when refused
  contains:
    thing:
      description: What it is about, such as a disk by its serial number.
      type: str
    reason:
      description: What is wrong with it.
      type: str
    remedy:
      description: What can be done.
      type: str
mount_points:
  description: Where the scratch may be mounted, O(mount_point) first, then O(adopt_mount_points) where a mount may be adopted.
  type: list
  elements: str
  returned: success
scratch:
  description: The scratch as it is after the run (in check mode, before it).
  type: dict
  returned: success
  contains:
    mounted:
      description: Whether it is mounted.
      type: bool
    mount_point:
      description: Where it is mounted.
      type: str
    adopted:
      description: Whether it is somebody else's mount that is used as it is.
      type: bool
    device:
      description: Its block device now; the name changes between boots.
      type: str
    filesystem:
      description: Type of the file system.
      type: str
    filesystem_uuid:
      description: UUID of the file system.
      type: str
    array_uuid:
      description: UUID of the array; null on a single disk.
      type: str
    array_name:
      description: Name of the array.
      type: str
    chunk_kib:
      description: Chunk of the array in KiB.
      type: int
    stripe_unit_bytes:
      description: Stripe unit of the file system in bytes.
      type: int
    stripe_width_bytes:
      description: Stripe width of the file system in bytes.
      type: int
    size_bytes:
      description: Size of the device in bytes.
      type: int
    disks:
      description: The disks with RV(scratch.disks[].serial), name, model, size in bytes and what is on them.
      type: list
      elements: dict
      contains:
        serial:
          description: Serial number.
          type: str
        name:
          description: The kernel's name now.
          type: str
        model:
          description: Model name.
          type: str
        size_bytes:
          description: Size in bytes.
          type: int
        content:
          description: V(blank), ours, or what else is on it.
          type: str
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource nvme_scratch (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "absent"], "default": "present"}, "models": {"type": "list",
"elements": "str"}, "serials": {"type": "list", "elements": "str", "default": []}, "devices": {"type": "list",
"elements": "str", "default": []}, "overwrite_serials": {"type": "list", "elements": "str", "default": []},
"rebuild": {"type": "bool", "default": false}, "count": {"type": "int"}, "mount_point": {"type": "path",
"default": "/mnt/resource_nvme"}, "owner": {"type": "str", "default": "root"}, "group": {"type": "str",
"default": "root"}, "mode": {"type": "str", "default": "1777"}, "mount_options": {"type": "list",
"elements": "str", "default": ["noatime"]}, "filesystem": {"type": "str", "choices": ["xfs", "ext4"],
"default": "xfs"}, "filesystem_label": {"type": "str", "default": "gpu_scratch"}, "discard": {"type": "bool",
"default": false}, "array_name": {"type": "str", "default": "gpu_node_scratch"}, "chunk_kib": {"type": "int",
"default": 512}, "adopt": {"type": "bool", "default": true}, "adopt_mount_points": {"type": "list",
"elements": "path", "default": ["/nvme", "/mnt/nvme", "/mnt/resource_nvme"]}, "declare": {"type": "bool",
"default": true}, "require_disks": {"type": "bool", "default": false}, "manage_packages": {"type": "bool",
"default": true}, "ahead": {"type": "bool", "default": false}, "wait_seconds": {"type": "int", "default": 30},
"command_timeout_seconds": {"type": "int", "default": 300}, "boot_unit": {"type": "bool", "default": true},
"before_units": {"type": "list", "elements": "str", "default": ["slurmd.service", "docker.service",
"containerd.service", "kubelet.service"]}, "boot_timeout_seconds": {"type": "int", "default": 300}}
""")


def main():
    node_command.main("nvme_scratch", SPEC)


if __name__ == "__main__":
    main()
