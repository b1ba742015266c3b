# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults on demand: what goes wrong with disks and power on real machines."""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict

from . import machine
from .machine import Disk
from .node import Node, State
from .progress import VirtualNodeError, say, step
from .qmp import Qmp

# A PCIe unplug request is a press on the slot's button: the guest waits five seconds for a second press.
_UNPLUG_SECONDS = 60.0
_WHEN_PRESENT = (
    "for try in $(seq 100); do grep -qs {0} /sys/block/vd*/serial && break; sleep 0.2; done; virtual-node-nvme add"
)


def _disk(node: Node, state: State, serial: str) -> Disk:
    for disk in state.disks:
        if disk.serial == serial:
            return disk
    known = ", ".join(disk.serial for disk in state.disks) or "none"
    raise VirtualNodeError("node {0}: it has no disk {1}; its disks are {2}.".format(node.name, serial, known))


def _remember(node: Node, state: State, serial: str, attached: bool) -> None:
    state.disks = [
        dataclasses.replace(disk, attached=attached) if disk.serial == serial else disk for disk in state.disks
    ]
    node.save(state)


def detach_disk(node: Node, serial: str) -> None:
    """A disk that drops off the bus. What is on it is kept for attach-disk."""
    with node.locked():
        state = node.state
        disk = _disk(node, state, serial)
        if not disk.attached:
            return
        if node.is_up:
            with step("detaching {0} from {1}".format(serial, node.name)), Qmp(node.folder) as qmp:
                if disk.model:
                    node.ssh("virtual-node-nvme remove {0}".format(serial), _UNPLUG_SECONDS)
                device = machine.disk_device(disk)["id"]
                qmp.run("device_del", {"id": device})
                if not qmp.wait_event("DEVICE_DELETED", _UNPLUG_SECONDS, device):
                    raise VirtualNodeError(
                        "node {0}: the guest did not let go of {1} within {2:.0f} s; is it still starting?".format(
                            node.name, serial, _UNPLUG_SECONDS
                        )
                    )
        _remember(node, state, serial, False)


def attach_disk(node: Node, serial: str) -> None:
    with node.locked():
        state = node.state
        disk = _disk(node, state, serial)
        if disk.attached:
            return
        if node.is_up:
            with step("attaching {0} to {1}".format(serial, node.name)), Qmp(node.folder) as qmp:
                qmp.run("device_add", machine.disk_device(disk))
                if disk.model:
                    node.ssh(_WHEN_PRESENT.format(serial), _UNPLUG_SECONDS)
        _remember(node, state, serial, True)


def wipe_disks(node: Node, owner: int = 0) -> None:
    """A deallocation: the machine goes off, and comes back with new empty disks and its old root disk."""
    with node.locked(), step("deallocating {0}: new empty disks".format(node.name)) as current:
        state = node.state
        node.stop(gently=True)
        for disk in state.disks:
            if disk.serial != machine.REMOTE_SERIAL:  # a remote disk outlives a deallocation
                node.blank_disk(disk, state.settings)
        node.start(owner)
        node.wait_ready(current)


def swap_order(node: Node) -> None:
    """From the next start on the disks sit in each other's slots, so the guest finds them in another order."""
    with node.locked():
        state = node.state
        state.disks = machine.reverse_order(state.disks)
        node.save(state)
        say(
            "{0}: the disks are in reverse order from the next start on (cut-power or power-off, then up)".format(
                node.name
            )
        )


def cut_power(node: Node) -> None:
    with node.locked():
        if node.is_up:
            node.kill()
            say("{0}: power is cut; `virtual_node up {0}` starts it again".format(node.name))


def power_off(node: Node) -> None:
    """A clean shutdown; the node and its disks stay."""
    with node.locked():
        node.stop(gently=True)


def fill_root(node: Node) -> None:
    """Take all free space of the root disk (the reserved blocks too: root may use them)."""
    node.need_up()
    script = (
        "fallocate -l $(($(stat -f -c '%f * %S' /) - 1048576)) /fill-root 2>/dev/null;"
        " cat /dev/zero >>/fill-root 2>/dev/null; sync; df -k --output=avail / | tail -1"
    )
    done = node.ssh(script, 600)
    if not (node.ssh("test -s /fill-root", 60).returncode == 0):
        raise VirtualNodeError(
            "node {0}: filling the root disk failed: {1}".format(
                node.name, done.stderr.decode(errors="replace").strip()
            )
        )
    say("{0}: root disk full ({1} KiB left for ordinary users)".format(node.name, done.stdout.decode().strip()))


def free_root(node: Node) -> None:
    node.need_up()
    node.ssh("rm -f /fill-root; sync", 120)


WITHOUT_ARGUMENT: Dict[str, Callable[[Node], None]] = {
    "wipe-disks": wipe_disks,
    "swap-order": swap_order,
    "cut-power": cut_power,
    "power-off": power_off,
    "fill-root": fill_root,
    "free-root": free_root,
}
WITH_SERIAL: Dict[str, Callable[[Node, str], None]] = {"detach-disk": detach_disk, "attach-disk": attach_disk}
