# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gres.conf: its lines about GPUs, and which device files stand at which position of ``SLURM_JOB_GPUS``. Pure.

``SLURM_JOB_GPUS`` (and CUDA_VISIBLE_DEVICES of a prolog) has positions in slurmd's list of devices, not the N of
``/dev/nvidiaN``. The list comes about the same way in Slurm 22.05.8, 24.11.5, 25.11.6 and 26.05.3 (``gres.c``:
``gres_g_node_config_load``, ``_merge_config``, ``gres_node_config_load``; 22.05: ``gres_common.c``):

1. Lines that begin with ``Name=`` come first, then lines that begin with ``NodeName=`` and name this node.
2. The node's ``Gres=`` of slurm.conf picks: type by type in its order, of each type as many as it counts. A ``Gres=``
   without types takes all lines in their order. What is left over is not in the list.
3. ``File=`` gives each file a position, in the order written; ``MultipleFiles=`` gives its line one position.
4. With AutoDetect (nvml, nvidia, rsmi ...) and a library that finds GPUs, slurmd sorts again by the order in which that
   library counts them (PCI address), and lines without ``File=`` get the files that were found.

A job with GPUs of two types: its prolog is told those of the last type alone, in any version (``gres_common.c`` sets
the variable once for each type).

What it cannot know: the order after AutoDetect; whether slurmd has read the text as it is now (it does so when it
starts and at ``scontrol reconfigure``); ``Gres=`` of a dynamic node (``slurmd -Z --conf``). Of the first it says so by
:attr:`Devices.reason`; the second and third the caller has to judge.
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence, Tuple

from ..core.frozen import frozen
from . import hosts, syntax

_KEYS = frozenset("autodetect count cpus cores file files flags link links multiplefiles name type".split())
# What Slurm counts of a GPU.
COUNTED = ("gpu", "shard")
# The words of AutoDetect, in the order in which Slurm looks for them (gres.c: _handle_autodetect_flags).
_DETECTORS = ("nvml", "rsmi", "oneapi", "nrt", "nvidia")


def product_type(product: Optional[str]) -> Optional[str]:
    """``NVIDIA A100-SXM4-40GB`` as Slurm sites name it: ``a100``; ``NVIDIA GeForce RTX 4090``: ``rtx4090``."""
    words = [word.lower() for word in re.findall(r"[A-Za-z0-9]+", product or "")]
    words = [word for word in words if word not in ("nvidia", "tesla", "geforce", "quadro")]
    return "".join(words[: 2 if words[0] in ("rtx", "gtx") else 1]) if words else None


@frozen
class Line:
    """One line about GPUs. ``files`` None: File= is no list of names. ``multiple``: they are one GPU's."""

    type: Optional[str] = None
    files: Optional[Tuple[str, ...]] = ()
    multiple: bool = False
    cores: Optional[str] = None
    count: Optional[int] = None


@frozen
class Gpus:
    """gres.conf as one node reads it. ``errors`` are lines that slurmd ends at or passes over. ``shards``: those of
    gres/shard, with which jobs share a GPU."""

    lines: Tuple[Line, ...] = ()
    autodetect: Optional[str] = None
    errors: Tuple[str, ...] = ()
    shards: Tuple[Line, ...] = ()


@frozen
class Devices:
    """``positions``: the device files at 0, 1, 2 ...; empty with the ``reason`` why they cannot be told."""

    positions: Tuple[Tuple[str, ...], ...] = ()
    reason: Optional[str] = None


def gpus(text: syntax.Text, node: str) -> Gpus:
    """The lines of this node (its NodeName, which need not be its host name), in slurmd's order."""
    plain: List[Line] = []
    named: List[Line] = []
    shards: List[Line] = []
    errors = ["it includes {0}, which is not there".format(path) for path in text.missing]
    everywhere: Optional[str] = None
    here: Optional[str] = None
    for line in text.lines:
        row, rest = syntax.pairs(line)
        first = row[0][0] if row else ""
        if first == "autodetect" and len(row) == 1 and not rest:
            everywhere = _detector(row[0][1])
            continue
        if rest or first not in ("name", "nodename") or any(key not in _KEYS for key, dummy in row[1:]):
            errors.append("the line '{0}' is not one that Slurm reads".format(" ".join(line.split())))
            continue
        if first == "nodename" and not hosts.holds(row[0][1], node):
            continue
        keys = dict(row)
        if first == "nodename" and "autodetect" in keys:
            here = _detector(keys["autodetect"])
        if keys.get("name") == "gpu":  # the type of the record is compared with its case
            (named if first == "nodename" else plain).append(_line(keys))
        elif keys.get("name") == "shard":
            shards.append(_line(keys))
    return Gpus(tuple(plain + named), here or everywhere, tuple(errors), tuple(shards))


def _detector(value: str) -> Optional[str]:
    found = next((word for word in _DETECTORS if word in value.lower()), None)
    return found or ("off" if value.lower() == "off" else None)


def _line(keys: Dict[str, str]) -> Line:
    multiple = "multiplefiles" in keys
    listed = keys.get("multiplefiles" if multiple else "file" if "file" in keys else "files", "")
    count = _number(keys["count"]) if "count" in keys else None
    return Line(keys.get("type"), hosts.names(listed), multiple, keys.get("cores", keys.get("cpus")), count)


def _number(word: str) -> Optional[int]:
    """``4``, ``2K``; None for what is no count."""
    found = re.fullmatch(r"([0-9]{1,15})([kmgtp]?)", word.lower())
    return int(found.group(1)) * 1024 ** " kmgtp".index(found.group(2) or " ") if found else None


def entries(gres: str) -> Tuple[Tuple[str, str, int], ...]:
    """``Gres=`` of a node: ``gpu:a100:8(S:0-1),nic:2`` as (("gpu", "a100", 8), ("nic", "", 2))."""
    found = []
    for word in re.sub(r"\([^()]*\)", "", gres).split(","):
        name, *rest = [part for part in word.strip().split(":") if part != "no_consume"] or [""]
        number = _number(rest[-1]) if rest else None
        if name not in ("", "N/A"):
            found.append((name, ":".join(rest if number is None else rest[:-1]), 1 if number is None else number))
    return tuple(found)


def counts(gres: str, of: str = "gpu") -> Tuple[Tuple[Optional[str], int], ...]:
    """``Gres=`` of a node as (type, how many) of its GPUs: ``gpu:a100:4(S:0-1),mps:400`` is ``(("a100", 4),)``."""
    found: Dict[Optional[str], int] = {}
    for name, kind, count in entries(gres):
        if name == of:
            found[kind or None] = found.get(kind or None, 0) + count
    return tuple(found.items())


def by_type(gres: str, of: str) -> Dict[str, int]:
    """The same by types in small letters, as Slurm compares them with ``Gres=``; "" for those without one."""
    found: Dict[str, int] = {}
    for kind, count in counts(gres, of):
        found[(kind or "").lower()] = found.get((kind or "").lower(), 0) + count
    return found


def gres_of(found: Gpus) -> Optional[str]:
    """What ``Gres=`` a node with these lines registers with; None where only slurmd can count."""
    if found.errors or found.autodetect not in (None, "off") or (found.autodetect is None and not found.lines):
        return None
    words: Dict[str, int] = {}
    for name, lines in (("gpu", found.lines), ("shard", found.shards)):
        for line in lines:
            if line.files is None:
                return None
            count = 1 if line.multiple else len(line.files) if name == "gpu" and line.files else line.count or 1
            word = ":".join(filter(None, (name, line.type)))
            words[word] = words.get(word, 0) + count
    return ",".join("{0}:{1}".format(*one) for one in words.items())


def fewer(has: str, gres: str) -> bool:
    """Whether a node with ``has`` lacks GPUs or shards of its ``Gres=``: slurmctld takes it out of service then
    (INVALID_REG), and ignores what there is beyond that. A count without a type is one of all types."""
    for name in COUNTED:
        there = by_type(has, name)
        for kind, count in by_type(gres, name).items():
            if count > (there.get(kind, 0) if kind else sum(there.values())):
                return True
    return False


def devices(found: Gpus, configured: Optional[str] = None) -> Devices:
    """The device files as slurmd counts them.

    ``configured`` is the node's ``Gres=`` of slurm.conf; None when the caller does not know it. Without it the lines
    stand for themselves, which holds for GPUs of one type that are all in ``Gres=``.
    """
    if found.errors:
        return Devices(reason="gres.conf: " + found.errors[0])
    if found.autodetect not in (None, "off"):
        return Devices(reason="gres.conf has AutoDetect={0}, which orders the GPUs anew".format(found.autodetect))
    if any(not line.files for line in found.lines):
        return Devices(reason="a line of gres.conf about GPUs has no list of device files")
    if configured is None:
        if len({(line.type or "").lower() for line in found.lines}) > 1:
            return Devices(reason="gres.conf has GPUs of several types, and the node's Gres= is not known")
        return _numbered([(line, line.files or ()) for line in found.lines])
    wanted = counts(configured)
    if any(kind is None for kind, dummy in wanted) and len(wanted) > 1:
        return Devices(reason="Gres={0} has GPUs with a type and without".format(configured))
    left = list(found.lines)
    chosen: List[Tuple[Line, Tuple[str, ...]]] = []
    for kind, many in wanted:
        for line in list(left):
            if many <= 0 or (kind is not None and (line.type or "").lower() != kind.lower()):
                continue
            left.remove(line)
            files = (line.files or ()) if line.multiple else (line.files or ())[:many]
            chosen.append((line, files))
            many -= 1 if line.multiple else len(files)
    return _numbered(chosen)


def _numbered(chosen: Sequence[Tuple[Line, Tuple[str, ...]]]) -> Devices:
    positions: List[Tuple[str, ...]] = []
    for line, files in chosen:
        positions += [files] if line.multiple else [(file,) for file in files]
    single = [file for line, files in chosen if not line.multiple for file in files]
    twice = next((file for file in single if single.count(file) > 1), None)
    if twice is not None:
        return Devices(reason="gres.conf has {0} twice, at which slurmd ends".format(twice))
    return Devices(tuple(positions))
