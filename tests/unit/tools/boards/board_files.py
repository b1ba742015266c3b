# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boards as they are in the role."""

from __future__ import annotations

import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
BOARDS = {one.stem: json.loads(one.read_text()) for one in sorted((ROOT / "roles/monitoring/files/boards").iterdir())}


def panels(board):
    for one in board["panels"]:
        yield from (panel for panel in [one, *one.get("panels", [])] if panel["type"] != "row")


PANELS = [
    pytest.param(name, one, id="{0}: {1}".format(name, one["title"])) for name in BOARDS for one in panels(BOARDS[name])
]


def of_type(*types):
    return [one for one in PANELS if one.values[1]["type"] in types]


def defaults(panel):
    return panel.get("fieldConfig", {}).get("defaults", {})


def overrides(panel):
    """By the name of a field: the properties by id."""
    return {
        one["matcher"]["options"]: {each["id"]: each.get("value") for each in one["properties"]}
        for one in panel.get("fieldConfig", {}).get("overrides", [])
    }


def columns(panel):
    """The headings of a table: of labels by label, and of values."""
    (organized,) = [one["options"] for one in panel["transformations"] if one["id"] == "organize"]
    names = organized["renameByName"]
    shown = [one for one in organized["indexByName"] if not one.startswith("Value")]
    values = {heading for name, heading in names.items() if name.startswith("Value")}
    return {label: names.get(label, label) for label in shown}, values
