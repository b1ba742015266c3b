# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health log of an NVMe disk: asked of the driver itself, or else of nvme-cli. It changes nothing on the disk."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import struct
from typing import Any, Mapping, Optional

from ..core.frozen import frozen
from ..core.host import Host
from ..core.resource import NodeError

# linux/nvme_ioctl.h: NVME_IOCTL_ADMIN_CMD is _IOWR('N', 0x41, struct nvme_passthru_cmd), which has 72 bytes.
_ADMIN_COMMAND = 0xC0484E41
_COMMAND = struct.Struct("=BBHIIIQQIIIIIIIIII")
# NVM Express Base Specification 2.0, 5.16: Get Log Page is 02h; log 02h is SMART / Health Information, 512 bytes.
_GET_LOG_PAGE = 0x02
_HEALTH_LOG = 0x02
LOG_BYTES = 512
_WHOLE_CONTROLLER = 0xFFFFFFFF
_TIMEOUT_SECONDS = 3.0
# Type and code of a status; Invalid Command Opcode, Invalid Field in Command, Invalid Log Page.
_STATUS_CODE = 0x7FF
_NO_SUCH_LOG = (0x001, 0x002, 0x109)
_KELVIN = 273


@frozen
class Smart:
    """``percentage_used`` may be more than 100: the maker's estimate of the disk's life has passed."""

    critical_warning: int
    temperature_celsius: Optional[int]
    available_spare_percent: int
    percentage_used: int
    media_errors: int


class _Unsupported(Exception):
    """The disk knows no such command or log."""


def read(host: Host, name: str) -> Optional[Smart]:
    """The log of controller ``name`` (``nvme0``); None where the disk has none, as some of clouds.

    :raises NodeError: neither the driver nor nvme-cli told it.
    """
    try:
        return parse_log(_ask(host.path("/dev/" + name)))
    except _Unsupported:
        return None
    except OSError as error:
        if host.which("nvme") is None:
            raise NodeError(
                "disk {0}".format(name),
                "its health log cannot be read ({0})".format(error.strerror),
                "run it as root, or install nvme-cli",
            ) from error
    done = host.run(["nvme", "smart-log", "--output-format=json", "/dev/" + name], _TIMEOUT_SECONDS)
    found = parse_json(done.stdout)
    if found is None:
        raise NodeError(
            "nvme smart-log /dev/{0}".format(name), "its answer is no health log", "run it by hand on the node"
        )
    return found


def _ask(path: str) -> bytes:
    """:raises OSError: no such device, not for this user, or the disk failed (then its status is the number).
    :raises _Unsupported: the disk has no such log.
    """
    page = ctypes.create_string_buffer(LOG_BYTES)
    dwords = LOG_BYTES // 4 - 1
    command = bytearray(
        _COMMAND.pack(
            *(_GET_LOG_PAGE, 0, 0, _WHOLE_CONTROLLER, 0, 0, 0, ctypes.addressof(page), 0, LOG_BYTES),
            *(_HEALTH_LOG | dwords << 16, 0, 0, 0, 0, 0, int(1000 * _TIMEOUT_SECONDS), 0),
        )
    )
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = fcntl.ioctl(handle, _ADMIN_COMMAND, command, True)
    finally:
        os.close(handle)
    if status & _STATUS_CODE in _NO_SUCH_LOG:
        raise _Unsupported
    if status:
        raise OSError(status, "the disk refused with status 0x{0:x}".format(status))
    return page.raw


def parse_log(page: bytes) -> Smart:
    """:raises OSError: it is no whole page."""
    if len(page) < LOG_BYTES:
        raise OSError(0, "the log is cut short")
    kelvin = int.from_bytes(page[1:3], "little")
    return Smart(
        critical_warning=page[0],
        temperature_celsius=kelvin - _KELVIN if kelvin else None,
        available_spare_percent=page[3],
        percentage_used=page[5],
        media_errors=int.from_bytes(page[160:176], "little"),
    )


def parse_json(text: str) -> Optional[Smart]:
    """What ``nvme smart-log -o json`` prints, of nvme-cli 1 and 2; None for anything else."""
    start = text.find("{")
    try:
        content: Any = json.loads(text[start:]) if start >= 0 else None
    except ValueError:
        return None
    if not isinstance(content, Mapping):
        return None
    warning = content.get("critical_warning")
    if isinstance(warning, Mapping):  # nvme-cli 2 with --verbose
        warning = warning.get("value")
    numbers = [_number(one) for one in (warning, *(content.get(name) for name in _FIELDS))]
    bits, kelvin, spare, used, errors = numbers
    if bits is None or used is None or errors is None:
        return None
    return Smart(bits, kelvin - _KELVIN if kelvin else None, 100 if spare is None else spare, used, errors)


_FIELDS = ("temperature", "avail_spare", "percent_used", "media_errors")


def _number(value: Any) -> Optional[int]:
    """nvme-cli writes large counters as texts."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        value = int(value) if value.isdigit() and len(value) < 40 else None
    return value if isinstance(value, int) and value >= 0 else None
