# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the boards' files to pictures and texts."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Dict, List, Sequence

from . import components, exporters, fleet, prometheus
from .browser import Browser

ROOT = Path(__file__).resolve().parents[2]
BOARDS = ROOT / "roles/monitoring/files/boards"
OUT = ROOT / "build" / "boards"
STEP = prometheus.INTERVAL
#: The chosen value of each variable that has one value, by the board.
CHOSEN: Dict[str, Dict[str, str]] = {
    "node": {"cluster": "alpha", "hostname": "gpu009"},
    "job": {"cluster": "alpha", "hpc_job": "4712"},
}


def database(folder: Path) -> Path:
    """The blocks of the fleet, kept until the fleet or the rules change."""
    parts = [Path(str(one.__file__)) for one in (fleet, exporters, prometheus)]
    digest = hashlib.sha256(b"".join(one.read_bytes() for one in [*parts, prometheus.RULES])).hexdigest()
    data, whole = folder / "data", folder / "whole"
    if not (whole.is_file() and whole.read_text(encoding="utf-8") == digest):
        prometheus.clear(folder)
        samples = folder / "fleet.om"
        with samples.open("w", encoding="utf-8") as stream:
            stream.writelines(fleet.openmetrics())
        prometheus.fill(data, samples, fleet.START, fleet.END)
        samples.unlink()
        whole.write_text(digest, encoding="utf-8")
    return data


def variables(board: Any, chosen: Dict[str, str], address: str) -> "tuple[Dict[str, str], Dict[str, List[str]]]":
    """What each variable is replaced by in a query, and all values of each."""
    text: Dict[str, str] = {}
    values: Dict[str, List[str]] = {}
    for one in board["templating"]["list"]:
        name = one["name"]
        if one["type"] != "query":
            continue
        query = one["query"]["query"]
        for known, value in text.items():
            query = query.replace("$" + known, value)
        values[name] = prometheus.label_values(address, query, fleet.START, fleet.END)
        if name in chosen:
            text[name] = chosen[name]
        elif one.get("includeAll"):
            text[name] = one.get("allValue") or "({0})".format("|".join(values[name]))
        else:
            text[name] = (values[name] or [""])[0]
    return text, values


def draw(names: Sequence[str] = (), out: Path = OUT, boards: Path = BOARDS, width: int = 1600) -> Dict[str, Any]:
    """Draw the boards; what is in each panel, by the name of the board."""
    out.mkdir(parents=True, exist_ok=True)
    page = components.page(out / "page")
    data = database(out / "prometheus")
    found: Dict[str, Any] = {}
    with prometheus.serve(data) as address, Browser() as browser:
        for path in sorted(boards.glob("*.json")):
            if names and path.stem not in names:
                continue
            board = json.loads(path.read_text(encoding="utf-8"))
            text, values = variables(board, CHOSEN.get(path.stem, {}), address)
            options = {"prometheus": address, "from": fleet.START, "to": fleet.END, "step": STEP, "width": width}
            options.update(variables=text, values=values)
            browser.open(page)
            browser.size(width, 1000)
            told = browser.evaluate("draw({0}, {1})".format(json.dumps(board), json.dumps(options)))
            browser.size(width, told["height"])
            (out / (path.stem + ".png")).write_bytes(browser.picture())
            found[path.stem] = told["panels"]
            content = json.dumps(told["panels"], indent=1, ensure_ascii=False) + "\n"
            (out / (path.stem + ".json")).write_text(content, encoding="utf-8")
    return found
