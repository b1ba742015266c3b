# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of pyxis on this node, what is found, and the steps between."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Dict, Mapping, Optional, Tuple

from ...core import artefact
from ...core.managed_files import MARKER, Files, Wanted
from ...core.resource import Action, NodeError

SECTION = "pyxis"
# A folder of our own, so that a plugin which somebody built by hand is never written over.
FOLDER = "/opt/gpu_node/pyxis"
PLUGIN = FOLDER + "/spank_pyxis.so"
FILE_NAME = "spank_pyxis.so"
# Where it is built, as root and for root alone.
WORK_FOLDER = "/var/lib/gpu_node/pyxis"
DROP_IN = "/etc/slurm/plugstack.conf.d/50-gpu_node_pyxis.conf"
PLUGSTACK = "/etc/slurm/plugstack.conf"
IDLE = "idle"
_BOOLEANS = ("0", "1", "true", "false", "yes", "no", "y", "n")
# pyxis 0.24: config.c. None stands for an absolute path.
OPTIONS: Mapping[str, Optional[Tuple[str, ...]]] = {
    "runtime_path": None,
    "execute_entrypoint": _BOOLEANS,
    "container_scope": ("global", "job"),
    "sbatch_support": _BOOLEANS,
    "use_enroot_load": _BOOLEANS,
    "importer": None,
    "use_squashfuse": _BOOLEANS,
}
_PATH = re.compile(r"/[A-Za-z0-9._/+@-]+")
_VERSION = re.compile(r"\d{2}\.\d{2}\.\d{1,3}(?:[A-Za-z0-9.+~-]{0,32})")


@dataclasses.dataclass(frozen=True)
class Prebuilt:
    """A plugin that was built elsewhere, for exactly one version of Slurm."""

    slurm_version: str
    source: str
    sha256: str

    def __post_init__(self) -> None:
        if not _VERSION.fullmatch(self.slurm_version):
            raise NodeError(
                "option prebuilt",
                "{0!r} is no version of Slurm".format(self.slurm_version),
                "give what 'srun --version' shows, such as 25.11.5",
            )
        object.__setattr__(self, "sha256", self.file.sha256)

    @property
    def file(self) -> artefact.Source:
        return artefact.Source(self.source, self.sha256)


@dataclasses.dataclass(frozen=True)
class Desired:
    """``source`` is a tarball of pyxis's source; ``plugstack`` empty: what slurm.conf names, else the usual place."""

    present: bool = True
    source: str = ""
    sha256: str = ""
    prebuilt: Tuple[Prebuilt, ...] = ()
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    plugstack: str = ""
    restart: bool = True

    def __post_init__(self) -> None:
        if bool(self.source) != bool(self.sha256):
            raise NodeError("option source", "it comes with no sha256, or that without it", "give both or neither")
        if self.source:
            object.__setattr__(self, "sha256", artefact.Source(self.source, self.sha256).sha256)
        if self.plugstack and not _PATH.fullmatch(self.plugstack):
            raise NodeError("option plugstack", "{0!r} is no absolute path".format(self.plugstack), "give one")
        for name, value in self.options.items():
            if name not in OPTIONS:
                known = ", ".join(sorted(OPTIONS))
                raise NodeError("option options", "pyxis knows no {0!r}".format(name), "give some of " + known)
            allowed = OPTIONS[name]
            if (value not in allowed) if allowed is not None else not _PATH.fullmatch(value):
                what = "one of " + ", ".join(allowed) if allowed is not None else "an absolute path without blanks"
                raise NodeError("option options", "{0}={1!r} is not possible".format(name, value), "give " + what)
        versions = [one.slurm_version for one in self.prebuilt]
        for version in versions:
            if versions.count(version) > 1:
                raise NodeError("option prebuilt", "Slurm {0} is there twice".format(version), "leave one of them")

    def drop_in(self) -> Wanted:
        words = ["required", PLUGIN, *("{0}={1}".format(name, self.options[name]) for name in sorted(self.options))]
        return Wanted(DROP_IN, "{0} Changes will be lost.\n{1}\n".format(MARKER, " ".join(words)))

    def whole_plugstack(self, path: str) -> Wanted:
        text = "{0} Changes will be lost; lines of yours go into files of their own there.\ninclude {1}/*.conf\n"
        return Wanted(path, text.format(MARKER, DROP_IN.rsplit("/", 1)[0]))


@dataclasses.dataclass(frozen=True)
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


@dataclasses.dataclass(frozen=True)
class Other:
    """A line of somebody else's that loads a pyxis: the file it stands in, the plugin, and whether that is there."""

    file: str
    plugin: str
    exists: bool = True


@dataclasses.dataclass(frozen=True)
class Plugstack:
    """What Slurm reads. ``reached``: it comes to our drop-in; ``others`` load a pyxis of their own."""

    path: str = PLUGSTACK
    reached: bool = False
    others: Tuple[Other, ...] = ()
    configless: bool = False


@dataclasses.dataclass(frozen=True)
class Headers:
    """``folder`` is the one that ``slurm/spank.h`` lies in; ``version`` as the headers tell it, (25, 11, 5)."""

    folder: str
    version: Optional[Tuple[int, int, int]]


@dataclasses.dataclass(frozen=True)
class State:
    """``slurm_version`` None: there is no Slurm here. ``missing_tools``: what a build lacks.

    ``slurmd_started`` and ``changed_at`` are seconds since 1970: when slurmd began to run (None: it does not run), and
    when the newest file that it read then was written. ``jobs``: idle, why it is not, or None when nobody asked.
    """

    slurm_version: Optional[str] = None
    headers: Optional[Headers] = None
    missing_tools: Tuple[str, ...] = ()
    plugin_sha256: Optional[str] = None
    files: Files = Files()
    declared: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    plugstack: Plugstack = Plugstack()
    slurmd_started: Optional[float] = None
    changed_at: float = 0.0
    systemd: bool = True
    jobs: Optional[str] = None

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


@dataclasses.dataclass(frozen=True)
class FetchSource(Action):
    source: str
    sha256: str

    @property
    def file(self) -> artefact.Source:
        return artefact.Source(self.source, self.sha256)

    def describe(self) -> str:
        return "fetch " + self.file.shown


@dataclasses.dataclass(frozen=True)
class BuildPlugin(Action):
    """From the source that was fetched; the new plugin takes the place of the old one in one step."""

    source: str
    sha256: str
    slurm_version: str
    include: str

    def describe(self) -> str:
        return "build {0} for Slurm {1}".format(PLUGIN, self.slurm_version)


@dataclasses.dataclass(frozen=True)
class InstallPlugin(Action):
    """One that was built elsewhere and has been fetched."""

    source: str
    sha256: str
    slurm_version: str

    def describe(self) -> str:
        return "install {0}, which was built for Slurm {1}".format(PLUGIN, self.slurm_version)


@dataclasses.dataclass(frozen=True)
class RemovePlugin(Action):
    def describe(self) -> str:
        return "remove {0}".format(PLUGIN)


@dataclasses.dataclass(frozen=True)
class RestartSlurmd(Action):
    """Left undone when a job has come in the meantime."""

    def describe(self) -> str:
        return "restart slurmd, as no job runs here"


def version_numbers(text: Optional[str]) -> Optional[Tuple[int, int, int]]:
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", text or "")
    return (int(found.group(1)), int(found.group(2)), int(found.group(3))) if found else None


def built_section(slurm_version: str, sha256: str, plugin_sha256: str) -> Dict[str, Any]:
    return {"built": dataclasses.asdict(Built(slurm_version, sha256, plugin_sha256))}
