# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of pyxis on this node, what is found, and the steps between."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Dict, Mapping, Optional, Tuple

from ...core import artefact
from ...core.frozen import frozen
from ...core.managed_files import Files
from ...core.resource import Action

SECTION = "pyxis"
# A folder of our own, so that a plugin which somebody built by hand is never written over.
FOLDER = "/opt/gpu_node/pyxis"
PLUGIN = FOLDER + "/spank_pyxis.so"
FILE_NAME = "spank_pyxis.so"
# Where it is built, as root and for root alone.
WORK_FOLDER = "/var/lib/gpu_node/pyxis"
DROP_IN = "/etc/slurm/plugstack.conf.d/50-gpu_node_pyxis.conf"
PLUGSTACK = "/etc/slurm/plugstack.conf"


@frozen
class Built:
    """What the plugin that lies there was made for and of; ``plugin_sha256`` is its own."""

    slurm_version: str
    sha256: str
    plugin_sha256: str

    @classmethod
    def from_section(cls, declared: Mapping[str, Any]) -> Optional[Built]:
        given = declared.get("built")
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(given, dict) or not all(isinstance(given.get(name), str) for name in names):
            return None
        return cls(**{name: given[name] for name in names})


@frozen
class Other:
    """A line of somebody else's that loads a pyxis: the file it stands in, the plugin, and whether that is there."""

    file: str
    plugin: str
    exists: bool = True


@frozen
class Plugstack:
    """What Slurm reads. ``reached``: it comes to our drop-in; ``others`` load a pyxis of their own."""

    path: str = PLUGSTACK
    reached: bool = False
    others: Tuple[Other, ...] = ()
    configless: bool = False


@frozen
class Headers:
    """``folder`` is the one that ``slurm/spank.h`` lies in; ``version`` as the headers tell it, (25, 11, 5)."""

    folder: str
    version: Optional[Tuple[int, int, int]]


@frozen
class State:
    """``slurm_version`` None: there is no Slurm here. ``missing_tools``: what a build lacks.

    ``slurmd_started`` and ``changed_at`` are seconds since 1970: when slurmd began to run (None: it does not run), and
    when the newest file that it read then was written. ``users``: the jobs and containers on this node.
    """

    slurm_version: Optional[str] = None
    headers: Optional[Headers] = None
    missing_tools: Tuple[str, ...] = ()
    plugin_sha256: Optional[str] = None
    files: Files = Files()
    declared: Mapping[str, Any] = {}
    plugstack: Plugstack = Plugstack()
    slurmd_started: Optional[float] = None
    changed_at: float = 0.0
    users: Tuple[str, ...] = ()

    @property
    def built(self) -> Optional[Built]:
        return Built.from_section(self.declared)

    @property
    def adopted(self) -> Optional[Other]:
        """The pyxis of somebody else's that Slurm loads here, where there is none of ours."""
        alone = len(self.plugstack.others) == 1 and not self.files.seen(DROP_IN).ours
        return self.plugstack.others[0] if alone and self.plugstack.others[0].exists else None

    @property
    def stale(self) -> bool:
        """Whether slurmd runs with what it read before the files were written."""
        return self.slurmd_started is not None and self.changed_at > self.slurmd_started


@frozen
class FetchSource(Action):
    source: str
    sha256: str

    @property
    def file(self) -> artefact.Source:
        return artefact.Source(self.source, self.sha256)

    def describe(self) -> str:
        return "fetch " + self.file.shown


@frozen
class BuildPlugin(Action):
    """From the source that was fetched; the new plugin takes the place of the old one in one step."""

    source: str
    sha256: str
    slurm_version: str
    include: str

    def describe(self) -> str:
        return "build {0} for Slurm {1}".format(PLUGIN, self.slurm_version)


@frozen
class InstallPlugin(Action):
    """One that was built elsewhere and has been fetched."""

    source: str
    sha256: str
    slurm_version: str

    def describe(self) -> str:
        return "install {0}, which was built for Slurm {1}".format(PLUGIN, self.slurm_version)


@frozen
class RemovePlugin(Action):
    def describe(self) -> str:
        return "remove {0}".format(PLUGIN)


def version_numbers(text: Optional[str]) -> Optional[Tuple[int, int, int]]:
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", text or "")
    return (int(found.group(1)), int(found.group(2)), int(found.group(3))) if found else None


def built_section(slurm_version: str, sha256: str, plugin_sha256: str) -> Dict[str, Any]:
    return {"built": dataclasses.asdict(Built(slurm_version, sha256, plugin_sha256))}
