# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The language of what users read: task names and short descriptions start with a verb, and some words are not used."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterator, List, Tuple

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[4]
READ = ("docs", "plugins", "playbooks", "roles", "inventories", "README.md", "CONTRIBUTING.md")
# Each with the field's word for it.
NOT_USED = {
    r"\bmend(s|ed|ing)?\b": "correct, repair",
    r"\bcomes? again\b": "recurs",
    r"\bsomebody's\b": "another owner's, of a user",
    r"\bwhat is meant\b": "what is wanted",
}
VERBS = frozenset(
    "Ask Bring Build Check Choose Collect Compare Compute Configure Converge Count Divide Drain End Fail Find Group "
    "Install Keep Label List Look Make Name Note Order Put Record Remove Render Report Require Resume Return Run Set "
    "Share Show Stop Take Tell Test Undo Write".split()
)


def texts() -> Iterator[Tuple[Path, str]]:
    for name in READ:
        top = ROOT / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.suffix in (".md", ".py", ".yml", ".j2") and "__pycache__" not in path.parts:
                yield path.relative_to(ROOT), path.read_text(encoding="utf-8")


@pytest.mark.parametrize("word", NOT_USED)
def test_the_words_of_the_field_are_used(word: str) -> None:
    found = [
        "{0}:{1}: {2}".format(path, number, line.strip())
        for path, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(word, line, re.IGNORECASE)
    ]
    assert not found, "use {0}: {1}".format(NOT_USED[word], found)


def names(node: Any) -> Iterator[str]:
    """Names of plays and tasks, in blocks too."""
    for entry in node if isinstance(node, list) else []:
        if isinstance(entry, dict):
            if isinstance(entry.get("name"), str):
                yield entry["name"]
            for part in ("tasks", "block", "rescue", "always", "handlers", "pre_tasks", "post_tasks"):
                yield from names(entry.get(part))


def short_descriptions(text: str) -> List[str]:
    return [found.strip("'\"") for found in re.findall(r"^ *short_description: (.+)$", text, re.MULTILINE)]


def test_names_of_tasks_and_short_descriptions_start_with_a_verb() -> None:
    found = []
    seen = 0
    for path, text in texts():
        told: List[str] = []
        if path.suffix == ".yml" and (path.parts[0] == "playbooks" or "tasks" in path.parts):
            told += names(yaml.safe_load(text))
        if path.parts[0] == "plugins" or path.name == "argument_specs.yml":
            told += short_descriptions(text)
        seen += len(told)
        found += ["{0}: {1}".format(path, name) for name in told if name.split(" ")[0].rstrip(",") not in VERBS]
    assert seen > 100 and not found, found
