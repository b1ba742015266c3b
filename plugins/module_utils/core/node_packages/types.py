# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A package as it is wanted and as it is found, and the steps between."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from .. import artefact
from ..frozen import frozen
from ..options import option, options
from ..resource import Action, NodeError

# Where the files lie until they are installed; root's alone.
FOLDER = "/var/lib/gpu_node/packages"
DPKG, RPM = "dpkg", "rpm"
SUFFIXES = {DPKG: ".deb", RPM: ".rpm"}
# The kernel's names of machines, and what package managers call the same.
_ARCHITECTURES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]{0,127}")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+:~^_-]{0,127}")


@options
class Package:
    """One file of a package."""

    name: str = option(..., "Name of the package, such as V(enroot) or V(enroot+caps).")
    version: str = option(..., "Its whole version as dpkg or rpm tells it, such as V(4.1.2-1).")
    source: str = option(..., "URL of the file, or its absolute path on the node.", secret=True)
    sha256: str = option(..., "Its checksum.")
    architecture: str = option(
        "",
        "The machines that it is for, V(amd64) or V(arm64). Files for other machines are skipped. Left out, it is for "
        "all.",
    )

    def __post_init__(self) -> None:
        thing = "package {0!r}".format(self.name)
        if not _NAME.fullmatch(self.name):
            raise NodeError(thing, "this is no name of a package", "give the name that dpkg or rpm shows")
        if not _VERSION.fullmatch(self.version):
            raise NodeError(
                thing,
                "{0!r} is no version of a package".format(self.version),
                "give the whole version, such as 4.1.2-1",
            )
        if self.architecture:
            known = _ARCHITECTURES.get(self.architecture)
            if known is None:
                raise NodeError(
                    thing,
                    "its architecture {0!r} is not known".format(self.architecture),
                    "give one of " + ", ".join(sorted(_ARCHITECTURES)),
                )
            object.__setattr__(self, "architecture", known)
        object.__setattr__(self, "sha256", self.file.sha256)
        if self.file.shown[-4:] not in SUFFIXES.values():
            raise NodeError(thing, "{0} is no .deb and no .rpm file".format(self.file.shown), "give such a file")

    @property
    def file(self) -> artefact.Source:
        return artefact.Source(self.source, self.sha256)

    @property
    def path(self) -> str:
        return "{0}/{1}".format(FOLDER, self.file.file_name)


def for_machine(packages: Iterable[Package], machine: str) -> Tuple[Package, ...]:
    """Those for this machine; each name once.

    :raises NodeError: a package comes for other machines only, or twice for this one.
    """
    every = list(packages)
    fitting = [one for one in every if one.architecture in ("", machine)]
    for name in dict.fromkeys(one.name for one in every):
        count = sum(one.name == name for one in fitting)
        if count == 0:
            raise NodeError(
                "package " + name,
                "no file is given for the architecture {0} of this node".format(machine),
                "add one with its sha256",
            )
        if count > 1:
            raise NodeError("package " + name, "more than one file is given for this node", "leave one of them")
    return tuple(fitting)


@frozen
class Installed:
    """``whole`` is False for one whose installation was interrupted."""

    name: str
    version: str
    whole: bool = True


@frozen
class Record:
    """What we installed, by the declaration. ``before`` is the version that was there before us, empty for none;
    ``former`` is the one that we had installed until this, and that is still there when this could not be."""

    name: str
    version: str
    before: str = ""
    former: str = ""


@frozen
class Packages:
    """What was found. ``newer`` names those whose installed version is newer than the wanted one."""

    manager: Optional[str] = None
    found: Tuple[Installed, ...] = ()
    newer: Tuple[str, ...] = ()
    records: Tuple[Record, ...] = ()

    def installed(self, name: str) -> Optional[Installed]:
        return next((one for one in self.found if one.name == name), None)

    def record(self, name: str) -> Optional[Record]:
        return next((one for one in self.records if one.name == name), None)


def records(declared: Mapping[str, Any]) -> Tuple[Record, ...]:
    """What :func:`remembered` wrote. A person may have edited it: what is not understood is passed over."""
    section = declared.get("packages")
    found: List[Record] = []
    for name, entry in sorted(section.items()) if isinstance(section, dict) else ():
        if isinstance(entry, dict) and isinstance(entry.get("version"), str) and _NAME.fullmatch(str(name)):
            before, former = (str(entry.get(key) or "") for key in ("before", "former"))
            found.append(Record(str(name), entry["version"], before, former))
    return tuple(found)


def to_section(kept: Iterable[Record]) -> Dict[str, Any]:
    return {
        "packages": {one.name: {"version": one.version, "before": one.before, "former": one.former} for one in kept}
    }


@frozen
class FetchPackage(Action):
    package: Package
    manager: str

    def describe(self) -> str:
        return "fetch {0} {1} from {2}".format(self.package.name, self.package.version, self.package.file.shown)


@frozen
class InstallPackages(Action):
    """All of them in one transaction, since they may depend on one another."""

    packages: Tuple[Package, ...]
    manager: str

    def then_look(self) -> bool:
        return True  # what they bring, such as hooks, decides about the rest

    def describe(self) -> str:
        names = ("{0} {1}".format(one.name, one.version) for one in self.packages)
        return "install {0} with {1}".format(" and ".join(names), self.manager)


@frozen
class RemovePackages(Action):
    names: Tuple[str, ...]
    manager: str

    def describe(self) -> str:
        return "remove the package(s) {0} with {1}".format(" and ".join(self.names), self.manager)
