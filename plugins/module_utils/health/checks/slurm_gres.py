# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gres.conf of Slurm against the GPUs and MIG instances that there are, whoever wrote it. The comparison is that of
slurm_hooks, without cores and types, which harm no job.
"""

from __future__ import annotations

from typing import Tuple, Union

from ...core.frozen import frozen
from ...core.resource import NodeError
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

_REMEDY = "run the role slurm_hooks, which writes it or has the lines for it (gres_lines), then restart slurmd"


@frozen
class Seen:
    """``missing``: device files that gres.conf names for this node and that are not there; ``differences`` in words."""

    path: str
    files: int
    missing: Tuple[str, ...] = ()
    differences: Tuple[str, ...] = ()


def look(evidence: Evidence) -> Union[Seen, str]:
    """A text says why there is nothing to compare."""
    # Not at the top: a check before each job does not come here, and would pay for the import.
    from ...slurm import gres_conf, places, slurm_conf, syntax, this_node

    host = evidence.host
    here = this_node.here(host)
    path = here.place.beside("gres.conf")
    text = syntax.read(path, host.read) if path is not None else None
    if path is None or text is None or places.program(host, "slurmd") is None:
        return "this node has no slurmd, or no gres.conf"
    conf = here.text
    if conf is not None and "gpu" not in slurm_conf.words(conf, "GresTypes"):
        return "slurm.conf has no gpu in GresTypes=, so slurmd reads no gres.conf"
    from ...gpus.mig.devices import instances_of
    from ...slurm import gres_compare as compare  # only where there is something to compare

    theirs = gres_conf.gpus(text, here.node_name)
    files = dict.fromkeys(file for line in theirs.lines for file in line.files or ())
    seen = Seen(path, len(files), tuple(file for file in files if not host.exists(file)))
    try:
        state = evidence.mig
    except NodeError:
        return seen  # gpu_driver tells
    if state.failed:
        return seen  # what is not known of a GPU is no difference; other checks tell of it
    if state.absent is not None and not files:
        return "there is no GPU here, and gres.conf has none for this node"
    ours = []
    for gpu in state.gpus:
        instances = instances_of(host, gpu)
        if gpu.minor is None or (gpu.mode and instances is None):
            return seen
        file = "/dev/nvidia{0}".format(gpu.minor)
        ours += [compare.Line(file)] if instances is None else []
        ours += [compare.Line(file, None, (), one.files) for one in instances or ()]
    on = ["/dev/nvidia{0}".format(gpu.minor) for gpu in state.gpus if gpu.mode]
    return Seen(path, seen.files, seen.missing, compare.differences(ours, theirs, None, on))


def judge(seen: Union[Seen, str], dummy: Expected) -> Judgement:
    if isinstance(seen, str):
        return Judgement(not_applicable=seen)
    told = "{0} device files".format(seen.files)
    if seen.missing:
        reason = "it names {0}, which is not there, and slurmd ends at that when it starts".format(
            ", ".join(seen.missing)
        )
        return Judgement(told, (_finding(Outcome.FAIL, seen.path, reason, "missing"),))
    reason = "; ".join(seen.differences)
    return Judgement(told, (_finding(Outcome.WARN, seen.path, reason, "differs"),) if reason else ())


def _finding(outcome: Outcome, path: str, reason: str, code: str) -> Finding:
    return Finding(outcome, path, reason, _REMEDY, Remedy.CONFIGURE, key=path, code=code)


CHECKS = (
    Check("slurm_gres", "gres.conf names the GPUs that there are", Cost.PASSIVE, judge, look, "settings", seconds=20.0),
)
