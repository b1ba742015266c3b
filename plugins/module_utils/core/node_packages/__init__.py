# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Single .deb or .rpm files, known by their sha256, installed by the node's package manager; a part of other resources.

Packages of the distribution, by name, are one step of their own (:mod:`.distribution`).

All files lie verified on the node before the package manager is called, so a mirror that dies half-way leaves what was
installed as it was. A resource keeps in its section of the declaration what it installed (:func:`remembered`), and
``absent`` removes that and nothing else.
"""

from __future__ import annotations

from .apply import STEPS
from .observe import observe
from .plan import after, fetch, install, kept_notes, refusals, remembered, remove
from .types import FOLDER, FetchPackage, Installed, InstallPackages, Package, Packages, RemovePackages, for_machine

__all__ = [
    "FOLDER",
    "STEPS",
    "FetchPackage",
    "InstallPackages",
    "Installed",
    "Package",
    "Packages",
    "RemovePackages",
    "after",
    "fetch",
    "for_machine",
    "install",
    "kept_notes",
    "observe",
    "refusals",
    "remembered",
    "remove",
]
