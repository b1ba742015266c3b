# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drawing of a node as an SVG picture that stands alone: no font, style sheet or script from elsewhere.

It has a background of its own, so it can be read on a light page and on a dark one, and takes dark colours where the
reader's system asks for them.
"""

from __future__ import annotations

import textwrap
from typing import List, Sequence, Tuple
from xml.sax.saxutils import escape

from ..core.resource import printable
from .draw_sheet import Box, CoreGroup, Device, Frame, Pair, Sheet

WIDTH = 1040
MARGIN, GAP, PAD = 24, 16, 14
TITLE_HEIGHT, LINE = 34, 18
CELL_WIDTH, CELL_HEIGHT, CELL_GAP = 25, 20, 2
DEVICE_HEIGHT, DEVICE_GAP = 38, 8
# About the width of a character at 12 and at 10 pixels in the fonts that stand behind these names.
_WIDE, _NARROW = 7.2, 5.6

STYLE = """
  text { font-family: system-ui, Helvetica, Arial, 'DejaVu Sans', sans-serif; font-size: 12px; fill: #1f2933 }
  .page { fill: #f7f8fa; stroke: #d5dae1 }
  .frame { fill: #eef1f5; stroke: #c3cad5 }
  .box { fill: #ffffff; stroke: #aeb8c6 }
  .cache { fill: #f0f3f7; stroke: #c9d1dc }
  .core { fill: #d9e2ee; stroke: none }
  .gpu { fill: #dcf0d6; stroke: #5c9a4c }
  .card { fill: #d9e8fb; stroke: #4f86c6 }
  .disk { fill: #fbecd0; stroke: #c08a2e }
  .bad { fill: #fbdcd9; stroke: #c0453a }
  .wire { stroke: #4f86c6; stroke-width: 2; fill: none }
  .title { font-size: 18px; font-weight: 600 }
  .head { font-size: 13px; font-weight: 600 }
  .small { font-size: 10.5px; fill: #4a5563 }
  .number { font-size: 10px; fill: #33404f; text-anchor: middle }
  .right { text-anchor: end }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6ebf1 }
    .page { fill: #14191f; stroke: #323b46 }
    .frame { fill: #1a2129; stroke: #3a4552 }
    .box { fill: #212a34; stroke: #4a5866 }
    .cache { fill: #28333f; stroke: #455362 }
    .core { fill: #3a4a5c }
    .gpu { fill: #24401f; stroke: #6fb35d }
    .card { fill: #1d3654; stroke: #6ea4e0 }
    .disk { fill: #463513; stroke: #d3a24a }
    .bad { fill: #4d211d; stroke: #e0685c }
    .wire { stroke: #6ea4e0 }
    .small { fill: #b3bfcc }
    .number { fill: #d5dde6 }
  }
"""


class _Canvas:
    """Collects elements; all coordinates are whole pixels."""

    def __init__(self) -> None:
        self.elements: List[str] = []

    def rect(self, style: str, x: float, y: float, width: float, height: float, radius: int = 6) -> None:
        self.elements.append(
            '<rect class="{0}" x="{1:.0f}" y="{2:.0f}" width="{3:.0f}" height="{4:.0f}" rx="{5}"/>'.format(
                style, x, y, width, height, radius
            )
        )

    def text(self, style: str, x: float, y: float, content: str) -> None:
        self.elements.append(
            '<text class="{0}" x="{1:.0f}" y="{2:.0f}">{3}</text>'.format(style, x, y, escape(printable(content)))
        )

    def wire(self, x: float, y: float, to_x: float) -> None:
        self.elements.append('<path class="wire" d="M{0:.0f} {1:.0f}H{2:.0f}"/>'.format(x, y, to_x))


def svg(sheet: Sheet) -> str:
    canvas = _Canvas()
    inner = WIDTH - 2 * MARGIN
    y: float = MARGIN + 20
    canvas.text("title", MARGIN, y, sheet.title)
    for line in textwrap.wrap(", ".join(sheet.facts), int(inner / _WIDE)):
        y += LINE + 2
        canvas.text("", MARGIN, y, line)
    y += GAP
    for frame in sheet.frames:
        y += _frame(canvas, frame, MARGIN, y, inner) + GAP
    for note in sheet.notes:
        for line in textwrap.wrap(note, int(inner / _NARROW)):
            y += LINE - 2
            canvas.text("small", MARGIN, y, line)
    y += 16 if sheet.notes else 4
    y += _legend(canvas, sheet, MARGIN, y) + MARGIN
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1:.0f}" width="{0}" height="{1:.0f}" role="img">\n'
        "<title>{2}</title>\n<style>{3}</style>\n"
        '<rect class="page" x="0.5" y="0.5" width="{4}" height="{5:.0f}" rx="10"/>\n'
    ).format(
        WIDTH, y, escape(printable("{0}: {1}".format(sheet.title, ", ".join(sheet.facts)))), STYLE, WIDTH - 1, y - 1
    )
    return head + "\n".join(canvas.elements) + "\n</svg>\n"


def _columns(boxes: Sequence[Box]) -> int:
    """Four small boxes in a row, or two, or one."""
    if len(boxes) == 1:
        return 1
    small = all(sum(len(group.cores) for group in box.groups) <= 16 for box in boxes)
    return 4 if small and len(boxes) >= 4 else 2


def _frame(canvas: _Canvas, frame: Frame, x: float, y: float, width: float) -> float:
    """Draw it and return its height."""
    pad = PAD if frame.title else 0
    top = y
    if frame.title:
        place = len(canvas.elements)
        canvas.text("head", x + pad, y + 22, frame.title)
        y += TITLE_HEIGHT
    columns = _columns(frame.boxes)
    each = (width - 2 * pad - (columns - 1) * GAP) / columns
    for first in range(0, len(frame.boxes), columns):
        row = frame.boxes[first : first + columns]
        height = max(_box_height(box, each) for box in row)
        for number, box in enumerate(row):
            _box(canvas, box, x + pad + number * (each + GAP), y, each, height)
        y += height + GAP
    height = y - GAP + pad - top
    if frame.title:
        behind = _Canvas()
        behind.rect("frame", x, top, width, height, 8)
        canvas.elements[place:place] = behind.elements  # the frame lies under what it holds
    return height


# One box ----------------------------------------------------------------------------------------------


def _box_height(box: Box, width: float) -> float:
    return _box(_Canvas(), box, 0, 0, width, 0)


def _box(canvas: _Canvas, box: Box, x: float, y: float, width: float, height: float) -> float:
    """Draw it and return the height that its content needs."""
    canvas.rect("box", x, y, width, height)
    canvas.text("head", x + PAD, y + 22, box.title)
    if box.memory:
        canvas.text("small right", x + width - PAD, y + 22, box.memory)
    inner, left = width - 2 * PAD, x + PAD
    at = y + TITLE_HEIGHT
    words = ", ".join(word for word in (box.cores, box.cache) if word)
    for line in textwrap.wrap(words, int(inner / _NARROW), break_on_hyphens=False):
        canvas.text("small", left, at + 8, line)
        at += LINE - 3
    if box.groups:
        at += _cores(canvas, box.groups, left, at, inner) + DEVICE_GAP
    for pairs in _sharing(box.pairs):
        at = _pairs(canvas, pairs, left, at, inner)
    at = _row(canvas, "card", box.infiniband, left, at, inner)
    at = _row(canvas, "disk", box.nvme, left, at, inner)
    return at - y + PAD - DEVICE_GAP


def _cores(canvas: _Canvas, groups: Sequence[CoreGroup], x: float, y: float, width: float) -> float:
    """The cores, each with the number of its first CPU, within their caches. Returns the height."""
    fit = max(int((width - 10) // (CELL_WIDTH + CELL_GAP)), 1)
    across = _across(max(len(group.cores) for group in groups), fit, len(groups))
    group_width = across * (CELL_WIDTH + CELL_GAP) - CELL_GAP + 10
    per_row = max(int((width + 6) // (group_width + 6)), 1)
    down = 0.0
    for first in range(0, len(groups), per_row):
        row = groups[first : first + per_row]
        lines = max((len(group.cores) + across - 1) // across for group in row)
        height = lines * (CELL_HEIGHT + CELL_GAP) - CELL_GAP + 10
        for number, group in enumerate(row):
            left = x + number * (group_width + 6)
            canvas.rect("cache", left, y + down, group_width, height, 5)
            for place, core in enumerate(group.cores):
                cell_x = left + 5 + place % across * (CELL_WIDTH + CELL_GAP)
                cell_y = y + down + 5 + place // across * (CELL_HEIGHT + CELL_GAP)
                canvas.rect("core", cell_x, cell_y, CELL_WIDTH, CELL_HEIGHT, 3)
                canvas.text("number", cell_x + CELL_WIDTH / 2, cell_y + 14, str(core[0]))
        down += height + 6
    return down - 6


def _across(cores: int, fit: int, groups: int) -> int:
    """How many cores stand beside each other in a cache: full rows where that works, and room for another cache."""
    most = min(cores, fit)
    if groups > 1 and 2 * most > fit:
        most = (most + 1) // 2
    even = [number for number in range((most + 1) // 2, most + 1) if cores % number == 0]
    return even[-1] if even else most


def _sharing(pairs: Sequence[Pair]) -> List[List[Pair]]:
    """GPUs that follow each other and have the same InfiniBand device beside them."""
    found: List[List[Pair]] = []
    for pair in pairs:
        if pair.near and found and found[-1][0].near and found[-1][0].infiniband == pair.infiniband:
            found[-1].append(pair)
        else:
            found.append([pair])
    return found


def _pairs(canvas: _Canvas, pairs: Sequence[Pair], x: float, y: float, width: float) -> float:
    """GPUs on the left, the one device that they share on the right; returns where the next thing goes."""
    card, near = pairs[0].infiniband, pairs[0].near
    wire = GAP if width < 300 else 2 * GAP
    each = (width - wire) / 2
    top = y
    for pair in pairs:
        detail = pair.gpu.detail
        if card is not None and not near:
            detail = "{0}, nearest {1}".format(detail, card.name)
        _device(canvas, "gpu", Device(pair.gpu.name, detail, pair.gpu.bad), x, y, each if near else width)
        if near:
            canvas.wire(x + each, y + DEVICE_HEIGHT / 2, x + each + wire)
        y += DEVICE_HEIGHT + DEVICE_GAP
    if card is not None and near:
        _device(canvas, "card", card, x + each + wire, top, each, y - top - DEVICE_GAP)
    return y


def _row(canvas: _Canvas, style: str, devices: Sequence[Device], x: float, y: float, width: float) -> float:
    """Devices beside each other, as many as fit; returns where the next thing goes."""
    if not devices:
        return y
    longest = max(max(len(one.name) * _WIDE, len(one.detail) * _NARROW) for one in devices) + 24
    per_row = max(min(int((width + DEVICE_GAP) // (longest + DEVICE_GAP)), len(devices), 4), 1)
    each = (width - (per_row - 1) * DEVICE_GAP) / per_row
    for number, one in enumerate(devices):
        if number and number % per_row == 0:
            y += DEVICE_HEIGHT + DEVICE_GAP
        _device(canvas, style, one, x + number % per_row * (each + DEVICE_GAP), y, each)
    return y + DEVICE_HEIGHT + DEVICE_GAP


def _device(
    canvas: _Canvas, style: str, one: Device, x: float, y: float, width: float, height: float = DEVICE_HEIGHT
) -> None:
    canvas.rect("bad" if one.bad else style, x, y, width, height)
    y += (height - DEVICE_HEIGHT) / 2
    canvas.text(
        "head" if style == "gpu" else "", x + 10, y + (16 if one.detail else 23), _fitting(one.name, width, _WIDE)
    )
    if one.detail:
        canvas.text("small", x + 10, y + 30, _fitting(one.detail, width, _NARROW))


def _fitting(text: str, width: float, letter: float) -> str:
    room = int((width - 16) / letter)
    return text if len(text) <= room else text[: max(room - 1, 1)] + "…"


def _legend(canvas: _Canvas, sheet: Sheet, x: float, y: float) -> float:
    """What the colours mean, of those that were used. Returns the height."""
    boxes = [box for frame in sheet.frames for box in frame.boxes]
    cards = any(box.infiniband or any(pair.near and pair.infiniband for pair in box.pairs) for box in boxes)
    devices = [one for box in boxes for one in (*box.infiniband, *box.nvme, *(pair.gpu for pair in box.pairs))]
    used: List[Tuple[str, str, bool]] = [
        ("core", "core, with its first CPU", any(box.groups for box in boxes)),
        ("cache", "level-3 cache", any(box.cache for box in boxes)),
        ("gpu", "GPU", any(not pair.gpu.bad for box in boxes for pair in box.pairs)),
        ("card", "InfiniBand", cards),
        ("disk", "NVMe", any(box.nvme for box in boxes)),
        ("bad", "does not answer, or link down", any(one.bad for one in devices)),
    ]
    for style, label, shown in used:
        if shown:
            canvas.rect(style, x, y, 14, 14, 3)
            canvas.text("small", x + 20, y + 11, label)
            x += 20 + len(label) * _NARROW + 26
    return 14.0
