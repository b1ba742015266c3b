# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drawing of a node in text: at most 80 columns, box-drawing characters or ASCII.

A full line joins a GPU with its InfiniBand device, a dotted one tells that this sits on another NUMA node; ``?`` is a
GPU without a number (NVML does not report it), ``!`` marks what does not answer or has its link down.
"""

from __future__ import annotations

import textwrap
from typing import List, Sequence

from .draw_sheet import Box, CoreGroup, Device, Frame, Pair, Sheet

WIDTH = 80
# Two boxes beside each other within a frame: 2 + 37 + 1 + 37 + 2 columns.
_HALF = 37
_TO_ASCII = str.maketrans("┌┐└┘─│━┄…", "++++-|-..")


def text(sheet: Sheet, ascii_only: bool = False) -> str:
    lines = _title(sheet)
    for frame in sheet.frames:
        lines += _frame(frame)
    for note in sheet.notes:
        lines += textwrap.wrap("note: " + note, WIDTH, subsequent_indent="  ")
    drawn = "\n".join(line.rstrip() for line in lines)
    return drawn.translate(_TO_ASCII).encode("ascii", "replace").decode("ascii") if ascii_only else drawn


def _title(sheet: Sheet) -> List[str]:
    return textwrap.wrap("{0}: {1}".format(sheet.title, ", ".join(sheet.facts)), WIDTH, subsequent_indent="  ")


def _frame(frame: Frame) -> List[str]:
    rows: List[str] = []
    boxes = list(frame.boxes)
    half = _HALF if frame.title else _HALF + 2  # no border around them
    while boxes:
        alone = len(boxes) == 1
        width = 2 * half + 1 if alone else half
        drawn = [_box(box, width) for box in boxes[: 1 if alone else 2]]
        boxes = boxes[len(drawn) :]
        height = max(len(lines) for lines in drawn)
        filled = [_stretched(lines, height, width) for lines in drawn]
        rows += [" ".join(parts) for parts in zip(*filled)]
    if frame.title is None:
        return rows
    return _framed(frame.title, "", rows, 2 * _HALF + 5)


def _framed(title: str, right: str, content: Sequence[str], width: int) -> List[str]:
    """Lines within a border whose upper side carries a title on the left and something short on the right."""
    right = " {0} ─".format(right) if right else "─"
    head = "┌─ {0} ".format(_cut(title, width - len(right) - 6))
    top = head + "─" * (width - len(head) - len(right) - 1) + right + "┐"
    body = ["│ {0} │".format(_cut(line, width - 4).ljust(width - 4)) for line in content]
    return [top, *body, "└" + "─" * (width - 2) + "┘"]


def _stretched(lines: List[str], height: int, width: int) -> List[str]:
    empty = "│" + " " * (width - 2) + "│"
    return lines[:-1] + [empty] * (height - len(lines)) + lines[-1:]


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "+"


def _box(box: Box, width: int) -> List[str]:
    inner = width - 4
    content: List[str] = []
    if box.cores:
        content += textwrap.wrap(box.cores, inner, subsequent_indent="  ", break_on_hyphens=False)
    if box.cache:
        content += _caches(box.cache, box.groups, inner)
    content += [_pair(pair, inner) for pair in box.pairs]
    content += [_cut("{0} {1}".format(_named(one), one.detail), inner) for one in box.infiniband]
    if box.nvme:
        content += _listed("NVMe", [_named(one) for one in box.nvme], _sizes(box.nvme), inner)
    return _framed(box.title, box.memory or "", content, width)


def _caches(label: str, groups: Sequence[CoreGroup], width: int) -> List[str]:
    if len(groups) < 2:
        return [label]
    return textwrap.wrap(
        "{0}: {1}".format(label, " ".join("[{0}]".format(group.cpu_list) for group in groups)),
        width,
        subsequent_indent="  ",
        break_on_hyphens=False,
    )


def _pair(pair: Pair, width: int) -> str:
    gpu = "{0} {1}".format(_named(pair.gpu), pair.gpu.detail)
    card = pair.infiniband
    if card is None:
        return gpu
    tail = card.name + (" " + card.detail if len(gpu) + len(card.name) + len(card.detail) + 6 <= width else "")
    line = max(width - len(gpu) - len(tail) - 2, 1)
    return "{0} {1} {2}".format(gpu, ("━" if pair.near else "┄") * min(line, 12), tail)


def _named(one: Device) -> str:
    return one.name + ("!" if one.bad and not one.name.endswith("?") else "")


def _sizes(disks: Sequence[Device]) -> str:
    """The size of the disks where it is the same."""
    details = {one.detail for one in disks}
    only = details.pop() if len(details) == 1 else ""
    return "" if not only else only + " each" if len(disks) > 1 else only


def _listed(kind: str, names: Sequence[str], each: str, width: int) -> List[str]:
    told = "{0} {1}".format(kind, " ".join(names)) + (" ({0})".format(each) if each else "")
    return textwrap.wrap(told, width, subsequent_indent="  ")
