# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode share advise``: how the GPUs are used, and how they can be shared."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import sys
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ..core.frozen import frozen, plain
from ..core.host import Host
from ..core.machine import short_name
from ..core.resource import Misuse, printable
from ..facts.nvml.identity import Identity
from ..facts.nvml.selectors import select
from ..facts.nvml.session import Fault, Survey
from ..facts.nvml.status import Status
from ..facts.sysfs import format_cpulist
from ..gpus.sharing.figures import FIGURES, figure
from ..gpus.sharing.judge import judge, summed
from ..gpus.sharing.look import Part, look, parts
from ..gpus.sharing.types import MIG, NOT_ENOUGH_SEEN, TIME_SLICE, Advice, Use
from .arguments import add_gpu, gpu_selectors, seconds_from
from .exit_status import DONE, NOT_DONE
from .output import painter, print_json, table, wrapped

HEAD = ("GPU", "ADDRESS", "BUSY", "SM", "MEMORY", "PROC", "ADVICE")
_GIB = 1024**3
DETAILS = """For each GPU, from what was measured while it worked:
  dedicated        what runs fills it, or leaves too little for a second one
  time-slice x N   N such workloads can take turns (Kubernetes: replicas;
                   Slurm: shards), for a loss, and nothing keeps them apart
  mig N x PROFILE  N such workloads can have an instance each (MIG)
  not enough seen  it was idle, is divided already, or the look was too short

What was not running was not seen. Nothing is changed. ^C ends the look, and
what was seen until then counts.

exit status: 0 looked at, 1 a GPU or the driver does not answer, 2 wrong use

examples:
  gpunode share advise                 all GPUs, for a minute
  gpunode share advise --seconds 3600 --interval 5
                                       an hour of a notebook user
  gpunode share advise 0 1 --json      two of them, for programs
"""
# A look of a day, every half a minute.
MOST_SECONDS, MOST_INTERVAL, MOST_SAMPLES = 86400, 60, 3600
# NVML's counters of activity should be read more than 0.1 seconds apart.
LEAST_INTERVAL = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "How the GPUs of this node can be shared."
    what = parser.add_subparsers(metavar="advise", required=True)
    told = "advise on each GPU: dedicated, time-slicing or shards, or MIG"
    one = what.add_parser(
        "advise",
        help=told,
        description="Look at the GPUs for a while, and advise on each how to share it.",
        epilog=DETAILS,
    )
    one.add_argument("gpus", nargs="*", metavar="GPU", help="only these, as with --gpu")
    add_gpu(one)
    one.add_argument(
        "--seconds",
        type=seconds_from(1, MOST_SECONDS),
        default=60.0,
        metavar="SECONDS",
        help="how long to look (default: 60)",
    )
    one.add_argument(
        "--interval",
        type=seconds_from(LEAST_INTERVAL, MOST_INTERVAL),
        default=1.0,
        metavar="SECONDS",
        help="from one sample to the next (default: 1)",
    )


@frozen
class Judged:
    """One GPU: how it was used, what is advised, and why it did not answer to the end."""

    identity: Identity
    use: Use
    advice: Optional[Advice]
    fault: Optional[Fault]


def run(host: Host, arguments: argparse.Namespace) -> int:
    """Status 1 when a GPU or the driver did not answer.

    :raises Misuse: a GPU is named that there is not, or more samples are asked for than are kept.
    """
    selectors = gpu_selectors([*(arguments.gpu or ()), *arguments.gpus])
    if arguments.seconds / arguments.interval > MOST_SAMPLES:
        raise Misuse(
            "--seconds {0:g} --interval {1:g}".format(arguments.seconds, arguments.interval),
            "these are more than {0} samples".format(MOST_SAMPLES),
            "choose an interval of {0:.1f} or more".format(arguments.seconds / MOST_SAMPLES + 0.05),
        )
    if sys.stderr.isatty() and not arguments.json:
        print("looking for {0:g} s; ^C ends it".format(arguments.seconds), file=sys.stderr)
    found = look(host, selectors, arguments.seconds, arguments.interval)
    if found.status is Status.NO_GPU:
        select((), selectors)
    judged = _judged(found)
    if arguments.json:
        print_json(_document(found, judged, arguments.interval))
    else:
        paint = painter(sys.stdout)
        lines = _lines(found, judged, arguments.interval)
        print("\n".join(paint(text, kind) if kind else text for kind, text in lines))
    return DONE if found.status in (Status.OK, Status.NO_GPU) else NOT_DONE


def _judged(found: Survey[Part]) -> List[Judged]:
    judged = []
    for visit in found.visits:
        gpu, samples = parts(visit)
        use = summed(samples)
        # What was seen of a GPU that fell off the bus is no ground to put more on it.
        advice = None if gpu is None or visit.fault is not None else judge(gpu, use)
        judged.append(Judged(visit.identity, use, advice, visit.fault))
    return judged


def _layouts(judged: Sequence[Judged]) -> List[Dict[str, Any]]:
    """What mig_layout takes, one entry for all GPUs that are to be divided alike."""
    alike: Dict[Tuple[str, int], List[str]] = {}
    for one in judged:
        if one.advice is not None and one.advice.kind == MIG and one.advice.mig is not None:
            key = (one.advice.mig.profile, one.advice.mig.count)
            alike.setdefault(key, []).append(one.identity.pci_address or str(one.identity.index))
    return [
        {"gpus": gpus, "instances": [{"profile": profile, "count": count}]} for (profile, count), gpus in alike.items()
    ]


def _replicas(judged: Sequence[Judged]) -> Optional[int]:
    """One number for a node, as neither Kubernetes nor Slurm has one for each GPU: that of the fullest."""
    advised = [one.advice for one in judged if one.advice is not None and one.advice.kind == TIME_SLICE]
    return min((one.time_slice.replicas for one in advised if one.time_slice is not None), default=None)


def _document(found: Survey[Part], judged: Sequence[Judged], interval: float) -> Dict[str, Any]:
    gpus = []
    for one in judged:
        fault = None if one.fault is None else dict(plain(one.fault), message=str(one.fault))
        gpus.append(dict(plain(one.identity), seen=plain(one.use), advice=plain(one.advice), fault=fault))
    return {
        "status": found.status.value,
        "message": found.message,
        "interval_seconds": interval,
        "gpus": gpus,
        "layouts": _layouts(judged),
        "replicas": _replicas(judged),
        "figures": plain(FIGURES),
    }


# Text -------------------------------------------------------------------------------------------------


def _lines(found: Survey[Part], judged: Sequence[Judged], interval: float) -> List[Tuple[str, str]]:
    told: List[Tuple[str, str]] = []
    if judged:
        rows = table(HEAD, [_row(one) for one in judged])
        told.append(("", wrapped(_heading(judged, interval))))
        told.append(("strong", rows[0]))
        told += [("bad" if one.fault else "", row) for one, row in zip(judged, rows[1:])]
        told.append(("faint", "mean/highest of the samples; SM: multiprocessors with work; memory: highest"))
        told += [("", wrapped(_why(one, one.advice))) for one in judged if one.advice is not None]
        told += [("", line) for line in _settings(judged)]
    if found.status is not Status.OK:
        told.append(("bad" if judged else "", wrapped(found.message)))
    told += [("warning", wrapped("note: " + note)) for note in _notes(judged)]
    if interval > figure("sample_seconds") and any(one.use.sm_percent is None for one in judged):
        note = "note: a driver tells of the last second at most, and the samples are {0:g} s apart".format(interval)
        told.append(("warning", wrapped(note)))
    return told


def _heading(judged: Sequence[Judged], interval: float) -> str:
    counts: Dict[str, int] = {}
    for one in judged:
        if one.identity.name is not None:
            counts[one.identity.name] = counts.get(one.identity.name, 0) + 1
    what = ", ".join("{0} x {1}".format(count, name) for name, count in counts.items()) or "GPUs"
    seen = max(one.use.seconds for one in judged)
    node = short_name()
    return printable("{0}: {1}, seen for {2:.0f} s, every {3:g} s".format(node, what, seen, interval))


def _row(one: Judged) -> Sequence[object]:
    use = one.use
    if one.fault is not None:
        return [one.identity.index, one.identity.pci_address, "DOES NOT ANSWER"]
    memory = None
    if use.memory_peak_bytes is not None and use.memory_total_bytes is not None:
        memory = "{0:.1f}/{1:.1f} GiB".format(use.memory_peak_bytes / _GIB, use.memory_total_bytes / _GIB)
    return [
        one.identity.index,
        one.identity.pci_address,
        _pair(use.busy_percent, use.busy_peak_percent),
        _pair(use.sm_percent, use.sm_peak_percent),
        memory,
        use.processes,
        None if one.advice is None else _named(one.advice),
    ]


def _pair(mean: Optional[float], highest: Optional[float]) -> Optional[str]:
    return None if mean is None or highest is None else "{0:.0f}/{1:.0f}%".format(mean, highest)


def _named(advice: Advice) -> str:
    if advice.kind == MIG and advice.mig is not None:
        return "mig {0} x {1}".format(advice.mig.count, advice.mig.profile)
    if advice.kind == TIME_SLICE and advice.time_slice is not None:
        return "time-slice x {0}".format(advice.time_slice.replicas)
    return "not enough seen" if advice.kind == NOT_ENOUGH_SEEN else advice.kind


def _why(one: Judged, advice: Advice) -> str:
    return "GPU {0}, {1}: {2}".format(one.identity.index, _named(advice), "; ".join(advice.reasons))


def _notes(judged: Sequence[Judged]) -> Iterator[str]:
    """Each once, with the GPUs that it is about."""
    about: Dict[str, List[int]] = {}
    for one in judged:
        for note in () if one.advice is None else one.advice.notes:
            about.setdefault(note, []).append(one.identity.index)
    for note, indexes in about.items():
        yield "GPU {0}: {1}".format(format_cpulist(indexes), note)


def _settings(judged: Sequence[Judged]) -> List[str]:
    """What to set for the advice, as it is written."""
    lines: List[str] = []
    replicas = _replicas(judged)
    if replicas is not None:
        lines += ["", "for all whole GPUs of this node, one of:"]
        lines.append("  slurm_hooks_shards_per_gpu: {0}".format(replicas))
        lines.append("  replicas: {0}  # sharing.timeSlicing of NVIDIA's Kubernetes device plugin".format(replicas))
    layouts = _layouts(judged)
    if layouts:
        lines += ["", "mig_layout_layouts:"]
        for layout in layouts:
            (asked,) = layout["instances"]
            lines.append("  - gpus: [{0}]".format(", ".join('"{0}"'.format(gpu) for gpu in layout["gpus"])))
            lines.append("    instances: [{{profile: {0}, count: {1}}}]".format(asked["profile"], asked["count"]))
    return lines
