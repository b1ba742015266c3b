# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One Markdown page for each module, from its DOCUMENTATION, EXAMPLES and RETURN."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

from .markup import meaning, option_type, paragraphs, table, to_markdown, value

GENERATED = "<!-- Generated from the module by `make docs`; change it there. -->"


def names(root: Path) -> List[str]:
    return sorted(path.stem for path in (root / "plugins" / "modules").glob("[!_]*.py"))


def load(root: Path) -> Dict[str, Dict[str, Any]]:
    """What ansible-doc reads from all modules of the clone, doc fragments included."""
    wanted = names(root)
    if not wanted:
        return {}
    environment = {name: text for name, text in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment.update(ANSIBLE_COLLECTIONS_PATH=str(root / ".collections"), ANSIBLE_NOCOLOR="1")
    answer = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-doc"), "--type", "module", "--json"]
        + ["trainyard.gpu_node." + name for name in wanted],
        cwd=str(root),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise SystemExit(
            "docs: ansible-doc ended with status {0}: {1}".format(answer.returncode, answer.stderr.strip())
        )
    found = {name.rpartition(".")[2]: entry for name, entry in json.loads(answer.stdout).items()}
    missing = sorted(set(wanted) - set(found))
    if missing:
        raise SystemExit(
            "docs: ansible-doc cannot read the documentation of {0}: {1}".format(
                ", ".join(missing), answer.stderr.strip()
            )
        )
    return found


def option_rows(options: Dict[str, Any], prefix: str = "") -> List[Tuple[str, str, str, str]]:
    rows = []
    # Ansible-doc sorts by name; what is required comes first.
    for name, option in sorted(options.items(), key=lambda item: (not item[1].get("required"), item[0])):
        if name.startswith("_"):
            continue  # what the two sides of a module tell each other
        default = "required" if option.get("required") else value(option.get("default"))
        rows.append(("`{0}{1}`".format(prefix, name), option_type(option), default, meaning(option)))
        inner = "[]." if option.get("type") == "list" else "."
        rows += option_rows(option.get("suboptions") or {}, prefix + name + inner)
    return rows


def return_rows(results: Dict[str, Any], prefix: str = "") -> List[Tuple[str, str, str, str]]:
    rows = []
    for name, result in results.items():
        rows.append(
            ("`{0}{1}`".format(prefix, name), option_type(result), to_markdown(result.get("returned")), meaning(result))
        )
        inner = "[]." if result.get("type") == "list" else "."
        rows += return_rows(result.get("contains") or {}, prefix + name + inner)
    return rows


def attribute_rows(attributes: Dict[str, Any]) -> List[Tuple[str, str, str]]:
    return [
        (
            "`{0}`".format(name),
            to_markdown(attribute.get("platforms") if name == "platform" else attribute.get("support")),
            " ".join(line for key in ("description", "details") for line in paragraphs(attribute.get(key) or [])),
        )
        for name, attribute in sorted(attributes.items())
    ]


def page(name: str, entry: Dict[str, Any]) -> str:
    """The whole page of one module."""
    doc = entry["doc"]
    parts = [GENERATED, "# {0}".format(name), to_markdown(doc["short_description"]) + "."]
    parts.append("\n".join("- " + line for line in paragraphs(doc.get("description"))))
    if doc.get("options"):
        parts += ["## Options", table(("Option", "Type", "Default", "Meaning"), option_rows(doc["options"]))]
    else:
        parts += ["## Options", "This module has no options."]
    if doc.get("attributes"):
        parts += ["## Attributes", table(("Attribute", "Support", "Meaning"), attribute_rows(doc["attributes"]))]
    if doc.get("notes"):
        parts += ["## Notes", "\n".join("- " + line for line in paragraphs(doc["notes"]))]
    if entry.get("examples"):
        parts += ["## Examples", "```yaml\n{0}\n```".format(entry["examples"].strip("\n"))]
    if entry.get("return"):
        parts += ["## Return values", table(("Key", "Type", "Returned", "Meaning"), return_rows(entry["return"]))]
    return "\n\n".join(parts) + "\n"
