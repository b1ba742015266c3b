# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of pyxis on a node."""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Optional, Tuple

from ...core import artefact
from ...core.managed_files import MARKER, Wanted
from ...core.options import option, options, state
from ...core.resource import NodeError
from .types import DROP_IN, PLUGIN

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
_PATH = r"/[A-Za-z0-9._/+@-]+"


def _texts(given: Mapping[str, Any]) -> Dict[str, str]:
    """YAML makes a bool of yes, and pyxis wants to read it in small letters."""
    return {str(name): str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}


@options
class Prebuilt:
    """A plugin that was built elsewhere, for exactly one version of Slurm."""

    slurm_version: str = option(
        ...,
        "The version of Slurm that it was built for, as C(srun --version) shows it.",
        form=(
            r"\d{2}\.\d{2}\.\d{1,3}(?:[A-Za-z0-9.+~-]{0,32})",
            "version of Slurm",
            "give what 'srun --version' shows, such as 25.11.5",
        ),
    )
    source: str = option(..., "C(spank_pyxis.so), a URL or an absolute path on the node.", secret=True)
    sha256: str = option(..., "Its checksum.")

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha256", self.file.sha256)

    @property
    def file(self) -> artefact.Source:
        return artefact.Source(self.source, self.sha256)


@options
class Desired:
    """``plugstack`` empty: what slurm.conf names, else the usual place."""

    _for_absent = ("plugstack",)

    present: bool = state(
        "V(absent) removes the plugin and what was written for it. Where its line is on a network file system, both "
        "stay, as other nodes read the line."
    )
    source: str = option(
        "",
        "Tarball of pyxis's source, a URL or an absolute path on the node. It is built there for the Slurm that is "
        "installed.",
        secret=True,
        needs=("sha256",),
    )
    sha256: str = option("", "Its checksum.", needs=("source",))
    prebuilt: Tuple[Prebuilt, ...] = option(
        (),
        "Plugins that were built elsewhere. One for the installed version of Slurm is taken instead of building.",
        inner=Prebuilt,
    )
    options: Mapping[str, str] = option(
        {},
        [
            "Options of pyxis, such as V(container_scope). A name or a value that pyxis does not take is refused.",
            "Those that are left out are pyxis's own, as an older pyxis may not know them.",
        ],
        read=_texts,
    )
    plugstack: str = option(
        "",
        "Path of C(plugstack.conf). Empty means the path in C(PlugStackConfig=) of slurm.conf, or the directory of "
        "the slurm.conf that slurmd reads, or C(/etc/slurm/plugstack.conf).",
        form=(_PATH, "absolute path", "give one"),
    )
    restart: bool = option(
        True, "Restart slurmd when something changed and no job runs on the node. Otherwise that is only reported."
    )

    def __post_init__(self) -> None:
        if not self.present:
            return
        if self.source:
            object.__setattr__(self, "sha256", artefact.Source(self.source, self.sha256).sha256)
        for name, value in self.options.items():
            if name not in OPTIONS:
                known = ", ".join(sorted(OPTIONS))
                raise NodeError("option options", "pyxis knows no {0!r}".format(name), "give some of " + known)
            allowed = OPTIONS[name]
            if (value not in allowed) if allowed is not None else not re.fullmatch(_PATH, value):
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
