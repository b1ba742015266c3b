# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machine is this? What was recorded on one machine is no proof on another, and an image carries it on."""

from __future__ import annotations

import os
import re
from typing import Optional

from .host import Host

# The system UUID of the SMBIOS: on Azure, AWS and GCP it is that of the instance, kept over a deallocation and new in
# a clone; on bare metal it is that of the mainboard. Only root can read it, and no image carries it.
PRODUCT_UUID = "/sys/class/dmi/id/product_uuid"
MACHINE_ID = "/etc/machine-id"
# What vendors leave in place of a UUID; the same on all of their boards.
_PLACEHOLDERS = ("00020003000400050006000700080009", "000102030405060708090a0b0c0d0e0f")


def whole_name() -> str:
    """The host name as the kernel has it, with its domain where the administrator set that."""
    return os.uname().nodename


def short_name() -> str:
    """The host name for people, and what Slurm looks for first. The name in Slurm is for ``slurm/places`` to say."""
    return whole_name().split(".")[0]


def normal(name: str) -> str:
    """One form of an identity for both orders in which a UUID of the firmware is shown, old records among them.

    Its first three fields are swapped bytewise by the version of the SMBIOS and the kernel, and on Azure the same
    machine was seen with both (is_byte_swapped in cloud-init's helpers/azure.py): the smaller one stands for both.
    """
    match = re.fullmatch(r"dmi:([0-9a-f]{32})", name)
    if match is None:
        return name
    plain = bytes.fromhex(match.group(1))
    swapped = plain[3::-1] + plain[5:3:-1] + plain[7:5:-1] + plain[8:]
    return "dmi:" + min(plain.hex(), swapped.hex())


def hardware(host: Host) -> Optional[str]:
    """The UUID of its firmware, in that form; None where that does not tell, or tells what many boards do."""
    told = (host.read_line(PRODUCT_UUID) or "").strip().replace("-", "").lower()
    digits = normal("dmi:" + told)[len("dmi:") :]
    known = re.fullmatch(r"[0-9a-f]{32}", digits) and len(set(digits)) > 2 and digits not in _PLACEHOLDERS
    return digits if known else None


def identity(host: Host) -> Optional[str]:
    """Unlike that of any other machine, as far as this one knows; None when it does not know.

    Without a UUID of its hardware it is /etc/machine-id, which an image made carelessly shares with its clones.
    """
    digits = hardware(host)
    if digits is not None:
        return "dmi:" + digits
    text = host.read_line(MACHINE_ID) or ""
    return "machine-id:" + text if re.fullmatch(r"[0-9a-f]{32}", text) else None


def fingerprint(host: Host) -> str:
    """The same for all boots of a machine, another one for another machine; "" if the firmware does not tell.

    In a cloud a node's name outlives its machine: Slurm powers a node down, and the next machine of that name may be
    the same one, started again, or another one. What was found on one machine says nothing about another.
    """
    import hashlib  # as in safe_files.py

    uuid = hardware(host)
    return "" if uuid is None else hashlib.sha256(uuid.encode()).hexdigest()[:16]
