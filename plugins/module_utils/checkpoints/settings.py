# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What section ``checkpoint`` of the declaration says, and the defaults of its options. Pure."""

from __future__ import annotations

from typing import Optional

from ..core.options import option, options
from ..placement.transfer import HEADROOM_PERCENT

SECTION = "checkpoint"
MSI, SPN, WORKLOAD, SAS_FILE = AUTHS = ("msi", "spn", "workload", "sas_file")
# One account of 20 Gb/s, and a file for each of eight GPUs.
INGRESS_GBPS = 20.0
FILES_PER_NODE = 8
GBPS_RANGE = (0.001, 10000.0)
FILES_RANGE = (1, 1024)
NODES_RANGE = (1, 100000)
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
class Settings:
    """The options that ``gpunode checkpoint`` needs."""

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

    @property
    def egress_gbps(self) -> float:
        """What the account gives, in Gb/s."""
        return self.account_ingress_gbps if self.account_egress_gbps is None else self.account_egress_gbps
