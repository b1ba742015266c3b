# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the copying of checkpoints."""

from __future__ import annotations

from typing import Optional, Tuple

from ...checkpoints import destination
from ...checkpoints.settings import MSI, SAS_FILE, SPN, Settings
from ...core import artefact
from ...core.node_packages import Package, for_machine
from ...core.options import option, options, state
from ...core.resource import NodeError


@options
class Desired(Settings):
    """:raises NodeError: something of it cannot be."""

    _for_absent = ()

    present: bool = state(
        "V(absent) removes what was written and installed here. What is in the store stays, and so does an azcopy that "
        "was there before."
    )
    packages: Tuple[Package, ...] = option(
        (), "Files of the package C(azcopy) and of what it needs, to install.", inner=Package
    )
    distribution: bool = option(
        False,
        "Install azcopy, where there is none, from the package sources of the node: Microsoft's repository or a mirror "
        "of it, which is set up elsewhere.",
    )
    source: str = option(
        "",
        "azcopy's tarball, or the program itself, as URL or as absolute path on the node. It is installed as "
        "C(/usr/local/bin/azcopy).",
        needs=("sha256",),
        secret=True,
    )
    sha256: str = option("", "Its checksum.", needs=("source",))

    def __post_init__(self) -> None:
        if not self.present:
            return
        if self.destination:
            object.__setattr__(self, "destination", destination.checked(self.destination, "option destination"))
        ways = [name for name in ("packages", "distribution", "source") if getattr(self, name)]
        if len(ways) > 1:
            raise NodeError("option " + ways[1], "azcopy would come twice, by {0} too".format(ways[0]), "leave one out")
        needed = {SAS_FILE: ("sas_file",), SPN: ("tenant_id", "application_id", "secret_file")}
        for name in needed.get(self.auth, ()):
            if not getattr(self, name):
                raise NodeError("option " + name, "auth {0} needs it".format(self.auth), "give it")
        for auth, names in (*needed.items(), (MSI, ("msi_client_id",))):
            for name in names if auth != self.auth else ():
                if getattr(self, name):
                    raise NodeError("option " + name, "auth {0} has no use for it".format(self.auth), "leave it out")
        if self.source:
            object.__setattr__(self, "sha256", artefact.Source(self.source, self.sha256).sha256)

    @property
    def archive(self) -> Optional[artefact.Source]:
        return artefact.Source(self.source, self.sha256) if self.source else None

    def packages_for(self, machine: str) -> Tuple[Package, ...]:
        """:raises NodeError: there is none of a name for this machine, or more than one."""
        return for_machine(self.packages, machine) if self.present else ()
