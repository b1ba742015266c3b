# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Artefacts: files from a URL or a path, known by their sha256; a part of other resources.

:func:`fetch` gives the path of a verified file, and leaves nothing of one that is not what was asked for.
"""

from __future__ import annotations

from .fetch import discard, fetch
from .source import Source, secrets

__all__ = ["Source", "discard", "fetch", "secrets"]
