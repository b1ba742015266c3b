# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rights that the documentation lists, as rules of RBAC: a table of resources and verbs, or a ClusterRole in YAML.

So an account of these tests has what a reader would give it, and a right that the page forgets fails a test.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from pathlib import Path
from typing import Any, Collection, Dict, List, Set, Tuple

import yaml

DOCS = Path(__file__).resolve().parents[2] / "docs"
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")
# "configmaps, of the namespace of the plugin"; "daemonsets of `apps`, of the same namespace"; "pods (all namespaces)".
_LEFT = re.compile(
    r"(?P<resources>[a-z/]+(?:(?:, | and )(?!of\b)[a-z/]+)*)(?: of `(?P<group>[a-z0-9.]+)`)?(?P<place>.*)"
)


@dataclasses.dataclass(frozen=True)
class Rights:
    """Rules of a ClusterRole, and those of a Role in the namespace of the GPU operator."""

    everywhere: Tuple[Dict[str, Any], ...]
    inside: Tuple[Dict[str, Any], ...]

    def pairs(self, groups: Collection[str]) -> Set[Tuple[str, str]]:
        """(verb, resource) of the rules of these groups; "" is the core of Kubernetes."""
        return {
            (verb, resource)
            for rule in (*self.everywhere, *self.inside)
            if set(rule["apiGroups"]) & set(groups)
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }


def of_table(page: str) -> Rights:
    """Of the table with the header "| resources | verbs |"."""
    text = (DOCS / page).read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| resources \| verbs \|\n\|[-| ]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    everywhere: List[Dict[str, Any]] = []
    inside: List[Dict[str, Any]] = []
    for row in table.splitlines():
        left, right = (cell.strip() for cell in row.strip("|").split("|"))
        found = _LEFT.fullmatch(left)
        assert found is not None, "{0}: {1!r} is not a list of resources".format(page, left)
        verbs = [verb for verb in re.findall(r"[a-z]+", right.partition("(")[0]) if verb in _VERBS]
        assert verbs, "{0}: {1!r} has no verb".format(page, row)
        rule = {"apiGroups": [found.group("group") or ""], "resources": re.split(", | and ", found.group("resources"))}
        (
            inside if "namespace of" in found.group("place") or "same namespace" in found.group("place") else everywhere
        ).append({**rule, "verbs": verbs})
    return Rights(tuple(everywhere), tuple(inside))


def of_yaml(page: str) -> Rights:
    """Of the indented ClusterRole of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    (block,) = re.findall(r"^    kind: ClusterRole\n(?:    .*\n)+", text, re.MULTILINE)
    return Rights(tuple(yaml.safe_load(textwrap.dedent(block))["rules"]), ())


def of_commands(page: str) -> Rights:
    """Of the line for the commands of kubernetes.json, in the table "| for | right |"."""
    text = (DOCS / page).read_text(encoding="utf-8")
    (line,) = re.findall(r"^\| the commands of `kubernetes\.json` \| (.*) \|$", text, re.MULTILINE)
    rules = []
    for verbs, resource in re.findall(r"((?:`[a-z]+`(?: and )?)+) of `([a-z/]+)`", line):
        rules.append({"apiGroups": [""], "resources": [resource], "verbs": re.findall(r"`([a-z]+)`", verbs)})
    assert rules
    return Rights(tuple(rules), ())
