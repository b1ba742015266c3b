# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found on a node of the copying of checkpoints, and the steps to change it."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from ...core import artefact
from ...core.frozen import frozen
from ...core.managed_files import Files
from ...core.node_packages import Packages
from ...core.resource import Action

ENV_FILE = "/etc/gpu_node/checkpoint.env"
#: Where azcopy goes that comes as a file: in everybody's search path.
PROGRAM = "/usr/local/bin/azcopy"
#: Where that file lies until it is unpacked.
FOLDER = "/var/lib/gpu_node/azcopy"


@frozen
class State:
    """``program``: the azcopy that is found, with its ``version``, or ``fault`` why it does not start. ``installed``:
    the sha256 of what lies at :data:`PROGRAM`. ``work``: where the folders of users go. ``machine`` is the kernel's
    name of it."""

    files: Files = Files()
    packages: Packages = Packages()
    declared: Mapping[str, Any] = {}
    program: str = ""
    version: str = ""
    fault: str = ""
    installed: Optional[str] = None
    work: str = ""
    cores: int = 1
    machine: str = ""

    @property
    def record(self) -> Mapping[str, Any]:
        """What was installed here from a file: the sha256 of the ``source``, of the ``program`` in it, and of the one
        before it (``former``), which is still there when the run was cut off."""
        found = self.declared.get("azcopy")
        return found if isinstance(found, Mapping) else {}

    @property
    def ours(self) -> bool:
        """Whether what lies at the place of the program is what we put there."""
        known = (self.record.get("program"), self.record.get("former"))
        return bool(self.installed) and self.installed in known


@frozen
class FetchProgram(Action):
    file: artefact.Source

    def describe(self) -> str:
        return "fetch azcopy from {0}".format(self.file.shown)


@frozen
class InstallProgram(Action):
    """``sha256``: of the file that it comes from."""

    path: str
    sha256: str

    def then_look(self) -> bool:
        return True  # whether it starts here is only known then

    def describe(self) -> str:
        return "install azcopy as {0}".format(self.path)


@frozen
class RemoveProgram(Action):
    path: str

    def describe(self) -> str:
        return "remove {0}".format(self.path)
