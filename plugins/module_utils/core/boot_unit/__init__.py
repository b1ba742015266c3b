# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The systemd unit that applies one resource at each boot; a part of other resources.

A resource describes its unit (:class:`BootUnit`), looks at what is there (:func:`look`), and takes what :func:`plan`
decides into its own plan. Units and drop-ins that are not ours, by their first line, are never written or removed.
"""

from __future__ import annotations

from .apply import STEPS
from .observe import look
from .options import BEFORE_UNITS, at_boot, boot_timeout
from .plan import plan, text
from .types import FOLDER, MARKER, WANTS, BootUnit, EnableUnit, ReloadSystemd, RemoveUnit, Seen, WriteUnit

__all__ = [
    "BEFORE_UNITS",
    "FOLDER",
    "MARKER",
    "STEPS",
    "WANTS",
    "BootUnit",
    "EnableUnit",
    "ReloadSystemd",
    "RemoveUnit",
    "Seen",
    "WriteUnit",
    "at_boot",
    "boot_timeout",
    "look",
    "plan",
    "text",
]
