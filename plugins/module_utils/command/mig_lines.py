# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of ``gpunode mig``, made of what it prints as JSON. Pure, but for ``show``."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import sys
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..core.resource import printable
from . import by_gpu
from .output import painter, table, wrapped

Line = Tuple[str, str]  # how it is painted, and its text
Row = Mapping[str, Any]
# All memory slices of a GPU together take so many columns.
_DRAWN = 72
_WIDTH = 80
_CHANGE = "nothing was changed; declare it for mig_layout, and run 'gpunode converge --only mig_layout'"
_SHORT = {"copy": "CE", "decoder": "DEC", "encoder": "ENC", "jpeg": "JPG", "ofa": "OFA"}


def show(lines: Iterable[Line]) -> None:
    paint = painter(sys.stdout)
    for kind, text in lines:
        print(paint(text, kind) if kind else text)


# list -------------------------------------------------------------------------------------------------


def listed(rows: Sequence[Row], absent: Optional[str], wrong: Sequence[str]) -> List[Line]:
    lines: List[Line] = [] if absent is None else [("", wrapped(absent))]
    for row in rows:
        lines += _gpu(row)
    return lines + [("bad", wrapped("declared: " + printable(text))) for text in wrong]


def _gpu(row: Row) -> List[Line]:
    waits = {"gpu_reset": "after a reset of the GPU: reboot the node", "clients": "when no process has the GPU"}
    mode = {True: "MIG on", False: "MIG off", None: "no MIG"}[row["mig"]]
    if row["waits_for"]:
        mode += ", {0} {1}".format("on" if row["mig_pending"] else "off", waits[row["waits_for"]])
    lines: List[Line] = [("strong", wrapped("{0}: {1}, {2}".format(_label(row), printable(row["name"] or "?"), mode)))]
    if row["mig"]:
        busy = [one["gi"] for one in row["instances"] if one["clients"] or any(c["in_use"] for c in one["compute"])]
        drawn = [(one["start"], one["size"], one["profile"], one["gi"] in busy) for one in row["instances"]]
        lines += [("", text) for text in drawing(row["memory_slices"], drawn)]
        if row["usable_percent"] is not None:
            used = sum(one["multiprocessors"] for one in row["instances"])
            text = "  {0} of {1} multiprocessors are in instances: {2:.2f} %"
            lines.append(("", text.format(used, row["multiprocessors"], row["usable_percent"])))
        lines += _instances(row["instances"])
    lines += [("", _cut("  on the whole GPU: " + client["told"])) for client in row["clients"]]
    return lines + _declared(row["declared"])


def _label(row: Row) -> str:
    return "GPU {0} ({1})".format(row["index"], row["pci_address"])


def drawing(slices: int, placed: Sequence[Tuple[int, int, str, bool]]) -> List[str]:
    """The memory slices of a GPU with their numbers; an instance is (start, size, profile, in use)."""
    if not slices:
        return []
    width = _DRAWN // slices
    cells, at = "  |", 0
    for start, size, profile, used in sorted(placed):
        cells += "".join(" " * (width - 1) + "|" for dummy in range(at, start))
        inner = size * width - 1
        cells += (profile[: inner - 1] + "*" if used else profile[:inner]).ljust(inner) + "|"
        at = start + size
    cells += "".join(" " * (width - 1) + "|" for dummy in range(at, slices))
    return ["   " + "".join(str(number).ljust(width) for number in range(slices)).rstrip(), cells]


def _instances(instances: Sequence[Row]) -> List[Line]:
    """A line for each GPU instance, and below it one for each compute instance and for each process."""
    if not instances:
        return [("", "  no instances")]
    rows = [
        [
            "  {0}".format(one["gi"]),
            one["profile"],
            _span(one["start"], one["size"]),
            one["multiprocessors"],
            _memory(one["memory_used_bytes"], one["memory_total_bytes"]),
        ]
        for one in instances
    ]
    head, *made = table(("  GI", "PROFILE", "SLICES", "SMs", "MEMORY"), rows)
    lines: List[Line] = [("", head)]
    for text, one in zip(made, instances):
        lines.append(("", text))
        for compute in one["compute"]:
            told = "      CI {0}  {1}c  {2}".format(
                compute["ci"], compute["slices"], compute["uuid"] or "UUID not told"
            )
            lines.append(("", told))
            lines += _clients(compute["clients"])
        if not one["compute"]:
            lines.append(("warning", "      no compute instance: no program can use it"))
        lines += _clients(one["clients"])
    return lines


def _clients(clients: Sequence[Row]) -> List[Line]:
    return [("", _cut("        " + client["told"])) for client in clients]


def _cut(text: str) -> str:
    """Users name their processes and units: nothing of it may reach the terminal raw, or fill it."""
    return printable(text)[:_WIDTH].rstrip()


def _span(start: int, size: int) -> str:
    return str(start) if size == 1 else "{0}-{1}".format(start, start + size - 1)


def _memory(used: Optional[int], total: int) -> str:
    return "{0}/{1:.1f} GiB".format("-" if used is None else "{0:.1f}".format(used / 1024**3), total / 1024**3)


def _declared(declared: Optional[Row]) -> List[Line]:
    if declared is None:
        return []
    told = "  declared: " + printable(declared["wish"])
    if declared["as_declared"]:
        return [("good", wrapped(told + ", as it is", indent="    "))]
    lines: List[Line] = [("bad", wrapped(told + ", which it is not:", indent="    "))]
    every = [*declared["differences"], *declared["refusals"]]
    every += [] if every else declared["notes"]
    return lines + [("", wrapped("    " + printable(text), indent="      ")) for text in every]


# profiles ---------------------------------------------------------------------------------------------


def of_profiles(rows: Sequence[Row], absent: Optional[str]) -> List[Line]:
    """One table for all GPUs of which the same is to be told."""
    lines: List[Line] = [] if absent is None else [("", wrapped(absent))]
    alike: Dict[str, List[Row]] = {}
    for row in rows:
        same = {name: value for name, value in row.items() if name not in ("index", "uuid", "pci_address")}
        alike.setdefault(repr(sorted(same.items())), []).append(row)
    for found in alike.values():
        first = found[0]
        numbers = by_gpu.ranges(str(row["index"]) for row in found)
        told = "GPU {0}: {1}".format(numbers, printable(first["name"] or "?"))
        if first["mig"] is None:
            lines.append(("strong", told + ", no MIG"))
            continue
        told += ", {0} compute slices, {1} memory slices".format(first["compute_slices"], first["memory_slices"])
        if first["multiprocessors"]:
            told += ", {0} SMs".format(first["multiprocessors"])
        lines.append(("strong", wrapped(told)))
        if first["profiles"]:
            lines += [("", text) for text in _profiles(first["profiles"])]
        if not first["mig"]:
            text = "MIG is off: none can be made before it is on" if first["profiles"] else "the driver tells more"
            lines.append(("faint", "{0}{1}".format(text, "" if first["profiles"] else " when MIG is on")))
    return lines


def _profiles(profiles: Sequence[Row]) -> List[str]:
    names = [name for name in _SHORT if any(name in one["engines"] for one in profiles)]
    rows = [
        [
            one["id"],
            one["name"],
            "{0}+{1}".format(one["compute_slices"], one["memory_slices"]),
            "{0:.1f} GiB".format(one["memory_mib"] / 1024),
            one["multiprocessors"] or None,
            "/".join(str(one["engines"].get(name, "-")) for name in names),
            _starts(one["starts"]),
            None if one["free"] is None else "{0} of {1}".format(one["free"], one["most"]),
        ]
        for one in profiles
    ]
    engines = "/".join(_SHORT[name] for name in names) or "ENGINES"
    return table(("ID", "PROFILE", "SLICES", "MEMORY", "SMs", engines, "STARTS", "FREE"), rows)


def _starts(starts: Sequence[int]) -> str:
    return by_gpu.ranges(str(start) for start in starts)


# plan -------------------------------------------------------------------------------------------------


def planned(document: Row) -> List[Line]:
    lines: List[Line] = [] if document["message"] is None else [("", wrapped(document["message"]))]
    steps = [step["description"] for step in document["actions"] if step["action"] != "remember"]
    lines += [("", wrapped(text)) for text in by_gpu.grouped(by_gpu.labelled(printable(step)) for step in steps)]
    for after_reset, how in ((True, "after a reset of the GPU"), (False, "then")):
        later = [
            by_gpu.labelled(step["description"])
            for gpu in document["gpus"]
            for step in gpu["then"]
            if gpu["needs_reset"] is after_reset
        ]
        lines += [("", wrapped(text)) for text in by_gpu.grouped((gpu, how + ": " + told) for gpu, told in later)]
    done = [(str(gpu["index"]), "as wished already, nothing to do") for gpu in document["gpus"] if gpu["as_wished"]]
    lines += [("good", text) for text in by_gpu.grouped(done)]
    lines += _drawn(document["gpus"])
    refused = [by_gpu.labelled(one["message"]) for one in document["refusals"]]
    lines += [("bad", wrapped(text)) for text in by_gpu.grouped((gpu, "refused: " + told) for gpu, told in refused)]
    notes = by_gpu.grouped(by_gpu.labelled(printable(note)) for note in document["notes"])
    lines += [("", wrapped("note: " + note)) for note in notes]
    if steps:
        lines.append(("faint", wrapped(_CHANGE)))
    return lines


def _drawn(gpus: Sequence[Row]) -> List[Line]:
    """What there is afterwards; GPUs that come to the same are drawn once."""
    alike: Dict[Tuple[str, ...], List[str]] = {}
    for gpu in gpus:
        if gpu["after"] and not gpu["as_wished"]:
            placed = [(one["start"], one["size"], one["profile"], False) for one in gpu["after"]]
            alike.setdefault(tuple(drawing(gpu["memory_slices"], placed)), []).append(str(gpu["index"]))
    lines: List[Line] = []
    for drawn, numbers in alike.items():
        lines += [("strong", "GPU {0} then".format(by_gpu.ranges(numbers))), *(("", text) for text in drawn)]
    return lines
