# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vGPUs of a guest. NVIDIA's hypervisor puts a record into their PCI configuration, after the signature ``VF`` of a
vendor-specific capability: number 0 is its driver (NVIDIA/k8s-device-plugin, internal/vgpu)."""

from __future__ import annotations

import os
from typing import Optional, Tuple

from ...core.host import Host
from ...facts.nvml.pci import DEVICES, NVIDIA
from .types import VirtualGpu

# The PCI specification: status register, pointer to the first capability, its number.
_STATUS, _HAS_CAPABILITIES, _FIRST, _VENDOR_SPECIFIC = 0x06, 0x10, 0x34, 0x09
_WHOLE = 256
_SIGNATURE = b"VF"
_RECORDS, _DRIVER, _TEXT_BYTES = 5, 0, 10


def read(host: Host) -> Tuple[Optional[Tuple[VirtualGpu, ...]], int]:
    """With how many devices NVIDIA has on the bus. None: the configuration of one cannot be read whole, as by anybody
    but root."""
    found, seen = [], 0
    for address in host.names(DEVICES):
        folder = "{0}/{1}".format(DEVICES, address)
        if (host.read_line(folder + "/vendor") or "").lower() != NVIDIA:
            continue
        seen += 1
        content = _bytes(host.path(os.path.join(folder, "config")))
        if len(content) < _WHOLE:
            return None, seen
        one = parse(content)
        if one is not None:
            found.append(one)
    return tuple(found), seen


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:  # pylint: disable=ansible-bad-function # the library has no AnsibleModule
            return stream.read(_WHOLE)
    except OSError:
        return b""


def parse(content: bytes) -> Optional[VirtualGpu]:
    """The first 256 bytes of a configuration; None: this is no vGPU. Pure."""
    capability = _vendor_specific(content)
    if capability[3:5] != _SIGNATURE:
        return None
    at = _RECORDS
    while at + 2 <= len(capability):
        number, length = capability[at], capability[at + 1]
        if number == _DRIVER:
            texts = capability[at + 2 : at + 2 + 2 * _TEXT_BYTES]
            if len(texts) < 2 * _TEXT_BYTES:
                break
            return VirtualGpu(_text(texts[:_TEXT_BYTES]), _text(texts[_TEXT_BYTES:]))
        if length < 2:
            break
        at += length
    return VirtualGpu()


def _vendor_specific(content: bytes) -> bytes:
    if len(content) < _WHOLE or not content[_STATUS] & _HAS_CAPABILITIES:
        return b""
    at, seen = content[_FIRST], set()
    while 0 < at <= _WHOLE - 3 and at not in seen:
        seen.add(at)
        if content[at] == _VENDOR_SPECIFIC:
            return content[at : at + content[at + 2]]
        at = content[at + 1]
    return b""


def _text(raw: bytes) -> Optional[str]:
    return raw.split(b"\0")[0].decode("ascii", "ignore") or None
