# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the labels of a node."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from ...core.options import option, options, state
from ...core.resource import NodeError
from ...metrics.labels import settings
from ...metrics.labels.rules import VALID_INTERVALS


def _sharing(given: Any) -> Mapping[str, Any]:
    from ...metrics.labels import sharing  # seldom wanted

    return sharing.plain(sharing.read(given))


@options
class Desired:
    """:raises NodeError: something of it cannot be."""

    _for_absent = ("file",)

    present: bool = state("V(absent) removes the timer and the file of labels, and the labels go with the file.")
    file: str = option(
        "",
        [
            "File of the labels, in a folder that the local source of Node Feature Discovery reads.",
            "Empty is C({0}/{1}) where that folder is there, and nothing elsewhere.".format(
                settings.FOLDER, settings.NAME
            ),
        ],
        form=(
            r"|/(?!(?:.*/)?\.\.(?:/|$))[A-Za-z0-9._/+@-]*(?<=/)[A-Za-z0-9_+@-][A-Za-z0-9._+@-]*",
            "absolute path of a file that Node Feature Discovery reads",
            "use letters, digits and ._/+@- after a slash, and a name that begins with no dot",
        ),
    )
    interval_seconds: int = option(
        settings.INTERVAL_SECONDS, "Time between two looks at the node.", bounds=settings.INTERVAL_RANGE, unit="seconds"
    )
    valid_seconds: Optional[int] = option(
        None,
        [
            "How long the labels hold when they are not written again.",
            "Two and a half intervals if not given, so that one late look costs no label.",
        ],
        bounds=settings.VALID_RANGE,
        unit="seconds",
    )
    gfd: bool = option(
        False,
        "Write the labels C(nvidia.com/*) of NVIDIA's GPU feature discovery, for a cluster that does not run it. "
        "Refused where its file is there.",
    )
    mig_strategy: str = option(
        settings.MIG_NONE,
        "The MIG strategy of NVIDIA's device plugin, which its labels depend on. For O(gfd=true).",
        choices=settings.STRATEGIES,
    )
    sharing: Mapping[str, Any] = option(
        {},
        "How NVIDIA's device plugin shares GPUs on this node, as a config of M(trainyard.gpu_node.gpu_sharing): "
        "C(time_slicing) or C(mps), each with resources and their replicas, and C(rename). For O(gfd=true).",
        read=_sharing,
        example={"time_slicing": {"nvidia.com/gpu": 4}},
    )

    @property
    def valid(self) -> int:
        given = self.valid_seconds
        return int(self.interval_seconds * VALID_INTERVALS) if given is None else given

    def __post_init__(self) -> None:
        if not self.present:
            return
        if self.valid <= self.interval_seconds:
            raise NodeError(
                "option valid_seconds",
                "{0} s is not longer than interval_seconds ({1}), so the labels would come and go".format(
                    self.valid, self.interval_seconds
                ),
                "give two intervals or more, or leave it out",
            )
        for name, given in (("mig_strategy", self.mig_strategy != settings.MIG_NONE), ("sharing", self.sharing)):
            if given and not self.gfd:
                reason = "it only counts for the labels of gfd"
                raise NodeError("option " + name, reason, "set gfd to true, or leave it out")
