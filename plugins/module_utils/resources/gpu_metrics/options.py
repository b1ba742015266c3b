# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the metrics of GPUs."""

from __future__ import annotations

from typing import Tuple

from ...core.options import option, options, state
from ...core.resource import NodeError
from ...facts.dcgm import FIELD
from ...metrics.settings import AUTO, DCGM, NVML, SOURCES, Settings

_FILE = r"/(?!(?:.*/)?\.\.(?:/|$))[A-Za-z0-9._/+@-]*[A-Za-z0-9._+@-]"
_PROM = (
    "|" + _FILE + r"\.prom",
    "absolute path of a file .prom",
    "use letters, digits and ._/+@- after a slash, and end it with .prom, as node exporter reads no other",
)
_YML = ("|" + _FILE, "absolute path of a file", "use letters, digits and ._/+@- after a slash")
_HOST = r"(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,252}|\[[0-9A-Fa-f:]{2,45}\])"
_PORT = r"[1-9][0-9]{0,4}"


@options
class Desired(Settings):
    """:raises NodeError: something of it cannot be."""

    _for_absent = ("textfile", "owners_textfile")

    present: bool = state(
        [
            "V(absent) removes what was written for it: the timer and the file of metrics, or the exporter's fields "
            "and its drop-in. A dcgm-exporter that runs goes on as its package has it."
        ]
    )
    source: str = option(
        AUTO,
        [
            "Who tells of the GPUs.",
            "V(dcgm) configures NVIDIA's dcgm-exporter, which has to be installed. V(nvml) has a timer write a file "
            "for the textfile collector of Prometheus' node exporter, and leaves nothing running.",
            "V(auto) is V(dcgm) where the exporter's unit is installed, and V(nvml) elsewhere.",
        ],
        choices=SOURCES,
    )
    textfile: str = option(
        "",
        [
            "File of the metrics for O(source=nvml), in a folder that is there.",
            "Empty is C(gpu_node_gpus.prom) in the folder that the distribution's node exporter reads: "
            "C(/var/lib/prometheus/node-exporter), or C(/var/lib/node_exporter/textfile_collector).",
        ],
        form=_PROM,
    )
    owners: bool = option(
        True,
        [
            "Report the user, account and partition of each job of Slurm that has a GPU, as the metric "
            "C(gpu_node_job_info), with either source. Prolog and epilog of M(trainyard.gpu_node.slurm_hooks) write "
            "it. Everybody who can query Prometheus can read these names.",
            "Needs O(jobs=true).",
        ],
    )
    owners_textfile: str = option(
        "",
        [
            "File of the metric for O(owners), in a folder that is there and that Prometheus' node exporter reads.",
            "Empty is C(gpu_node_jobs.prom) in the folder of O(textfile), or in the folder that the distribution's "
            "node exporter reads. Without such a folder nothing is written.",
        ],
        form=_PROM,
    )
    fields: Tuple[str, ...] = option(
        (),
        [
            "Fields that dcgm-exporter tells beside the usual ones, such as C(DCGM_FI_DEV_FAN_SPEED) or "
            "C(DCGM_FI_DEV_PCIE_TX_THROUGHPUT counter). With a minus before it a field is left out.",
            "A field that this DCGM has none of keeps the exporter from starting. For O(source=dcgm).",
        ],
        form=(FIELD, "field of DCGM", "use a name such as DCGM_FI_DEV_FAN_SPEED, with a minus to leave it out"),
    )
    listen: str = option(
        ":9400",
        "Address and port of dcgm-exporter. For O(source=dcgm).",
        form=("(?:{0})?:{1}".format(_HOST, _PORT), "address and port", "use ADDRESS:PORT, or :PORT for all addresses"),
    )
    host_engine: str = option(
        "localhost:5555",
        [
            "Where DCGM's host engine listens. The one of the unit nvidia-dcgm listens there.",
            "Empty has the exporter bring one of its own, which reads each GPU a second time where nvidia-dcgm runs.",
        ],
        form=("|{0}:{1}".format(_HOST, _PORT), "address and port", "use HOST:PORT"),
    )
    web_config: str = option(
        "",
        "File with TLS and users of dcgm-exporter, as Prometheus' exporters have it (C(tls_server_config), "
        "C(basic_auth_users)). You write it; it has to be there. For O(source=dcgm).",
        form=_YML,
    )

    def __post_init__(self) -> None:
        if not self.present:
            return
        if self.activity_seconds * 2 > self.interval_seconds:
            raise NodeError(
                "option activity_seconds",
                "{0:g} s is more than half of interval_seconds ({1})".format(
                    self.activity_seconds, self.interval_seconds
                ),
                "give a longer interval_seconds, or count for a shorter time",
            )
        for one in ("listen", "host_engine"):
            port = getattr(self, one).rpartition(":")[2]
            if port and int(port) > 65535:
                raise NodeError("option " + one, "there is no port {0}".format(port), "use one up to 65535")
        ours, theirs = ("textfile",), ("fields", "web_config")
        for wrong, names in ((DCGM, ours), (NVML, theirs)):
            for name in names:
                if self.source == wrong and getattr(self, name):
                    raise NodeError(
                        "option " + name,
                        "it means nothing with source: {0}".format(wrong),
                        "leave it out, or give another source",
                    )
