# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the copying of checkpoints."""

from __future__ import annotations

from typing import Optional, Tuple

from ...core import artefact
from ...core.node_packages import Package, for_machine
from ...core.options import option, options, state
from ...core.resource import NodeError
from ...pinning.transfer import HEADROOM_PERCENT
from .. import destination
from ..settings import (
    AUTHS,
    FILES_PER_NODE,
    FILES_RANGE,
    GBPS_RANGE,
    INGRESS_GBPS,
    MSI,
    NODES_RANGE,
    SAS_FILE,
    SPN,
    Settings,
)

_ID = (
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "identifier",
    "write it as in 00000000-0000-0000-0000-000000000000",
)
_PATH = r"/(?!(?:.*/)?\.\.(?:/|$))[A-Za-z0-9._/+@-]+"
_FOLDER = ("|" + _PATH, "absolute path of a folder", "use letters, digits and ._/+@- after a slash")
_SECRET = (
    "|~?" + _PATH,
    "path of a file",
    "give an absolute one, or one that begins with ~/ for a file of each user",
)


@options
class Desired:
    """:raises NodeError: something of it cannot be."""

    _for_absent = ()

    present: bool = state(
        "V(absent) removes what was written and installed here. What is in the store stays, and so does an azcopy that "
        "was there before."
    )
    destination: str = option(
        "",
        "URL of the container, or of a folder in it, without any access key. Empty leaves it to C(gpunode checkpoint "
        "--to).",
    )
    auth: str = option(
        MSI,
        [
            "How azcopy proves who it is. V(msi) is the identity of the machine, V(workload) that of a pod.",
            "V(spn) is a service principal, whose secret is read from O(secret_file).",
            "V(sas_file) is a shared access signature, which is read from O(sas_file).",
        ],
        choices=AUTHS,
    )
    msi_client_id: str = option("", "Client id of a user-assigned identity. Empty for that of the system.", form=_ID)
    sas_file: str = option(
        "",
        "File with the signature alone, C(sv=...&sig=...), of the user who copies or of root, mode 0600. V(~/) is the "
        "home folder of whoever copies. The file itself is not managed.",
        form=_SECRET,
    )
    tenant_id: str = option("", "Tenant of a service principal.", form=_ID)
    application_id: str = option("", "Application id of a service principal.", form=_ID)
    secret_file: str = option("", "File with its secret, as for O(sas_file).", form=_SECRET)
    account_ingress_gbps: float = option(
        INGRESS_GBPS,
        "What the storage account takes, in gigabits per second. All nodes share it.",
        bounds=GBPS_RANGE,
        unit="Gb/s",
    )
    account_egress_gbps: Optional[float] = option(
        None,
        "What it gives, for bringing checkpoints back. As O(account_ingress_gbps) if not given.",
        bounds=GBPS_RANGE,
        unit="Gb/s",
    )
    nodes: int = option(1, "How many nodes copy to this account at the same time.", bounds=NODES_RANGE)
    files_per_node: int = option(
        FILES_PER_NODE, "How many files a node copies at the same time, an azcopy for each.", bounds=FILES_RANGE
    )
    headroom_percent: float = option(
        HEADROOM_PERCENT, "What of the account's limit stays unused.", bounds=(0, 90), unit="%"
    )
    keep: int = option(
        0,
        "How many whole checkpoints of a run stay in the store when one of it was added: those whose names differ only "
        "in the number at their end. V(0) keeps all. What is not whole is never removed.",
        bounds=(0, 100000),
    )
    work_folder: str = option(
        "",
        "Folder for the plans and logs of azcopy, in a folder of each user. Empty for the scratch, or C(/var/tmp) "
        "where there is none.",
        form=_FOLDER,
    )
    metrics_folder: str = option(
        "",
        "Folder of the textfile collector. Who copies and may write there leaves figures of the last copy.",
        form=_FOLDER,
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

    @property
    def settings(self) -> Settings:
        """What ``gpunode checkpoint`` goes by."""
        egress = self.account_ingress_gbps if self.account_egress_gbps is None else self.account_egress_gbps
        same = [name for name in Settings.__annotations__ if name != "account_egress_gbps"]
        return Settings(account_egress_gbps=egress, **{name: getattr(self, name) for name in same})
