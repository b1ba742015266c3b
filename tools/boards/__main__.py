# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes, or with --check compares, the boards for Grafana: ``python -m tools.boards [--check]``.

They are roles/monitoring/files/boards/*.json.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Dict

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard

from . import FOLDER, NAMES

ROOT = Path(__file__).resolve().parents[2]


def board(name: str) -> str:
    """A board as Grafana imports it: without ids of the database, in the order of the SDK."""
    made = importlib.import_module("tools.boards." + name).make()
    # As Grafana's library reads it: with the defaults that a builder leaves out.
    read = dashboard.Dashboard.from_json(json.loads(json.dumps(made, cls=JSONEncoder)))
    return json.dumps(read, cls=JSONEncoder, indent=2, ensure_ascii=False) + "\n"


register_default_plugins()


def generate() -> Dict[str, str]:
    return {"{0}/{1}.json".format(FOLDER, name): board(name) for name in NAMES}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.boards")
    parser.add_argument("--check", action="store_true", help="write nothing; end with status 1 if something differs")
    check = parser.parse_args().check
    different = []
    for name, text in generate().items():
        path = ROOT / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        different.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in different:
        print("{0}: {1}".format(name, "differs; run python -m tools.boards" if check else "written"))
    return 1 if check and different else 0


if __name__ == "__main__":
    sys.exit(main())
