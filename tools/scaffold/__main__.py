# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create the files of a new resource, check or command: `python -m tools.scaffold KIND NAME`.

What it creates is complete: it passes all tests but one, which fails until somebody has described what the new thing
must do. The templates are the files below ``templates/KIND/``, at their paths in the repository, with ``$name``.
"""

from __future__ import annotations

import argparse
import keyword
import re
import string
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Sequence

import yaml

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = Path(__file__).resolve().parent / "templates"


@dataclass(frozen=True)
class Insertion:
    """``line`` goes into the file ``path``: before the first line that begins with ``before``, or (``sorted_after``)
    into the run of lines that follows the line ``sorted_after``, in alphabetical order."""

    path: str
    line: str
    before: str = ""
    sorted_after: str = ""


@dataclass(frozen=True)
class Kind:
    """``steps``: what is left to do by hand, in this order."""

    insertions: tuple[Insertion, ...]
    steps: tuple[str, ...]


_LIBRARY = "plugins/module_utils/"
_PASSIVE = _LIBRARY + "health/checks/of_node_passive.py"
_TEST = ".venv/bin/python -m pytest -q -p no:cacheprovider "
KINDS: Mapping[str, Kind] = {
    "resource": Kind(
        (
            Insertion(
                _LIBRARY + "core/registry.py",
                '    Registration("$name"),',
                before="    # Last: a drain for an event",
            ),
        ),
        (
            "Describe what it must do: the last test of tests/unit/plugins/module_utils/resources/$name.",
            "Write options.py, observe.py, plan.py (pure) and, for steps of its own, apply.py in "
            + _LIBRARY
            + "resources/$name.",
            "Put its registration (" + _LIBRARY + "core/registry.py) into its place in the order of a converge, with "
            "what it requires. It stays disabled until a site sets gpu_node_$name.",
            "Describe it: plugins/modules/$name.py, roles/$name, docs/$name.md, a link in README.md; then make docs.",
            "Run its tests: "
            + _TEST
            + "tests/unit/plugins/module_utils/resources/$name tests/unit/plugins/modules/test_$name.py",
            "Add a fault to tests/e2e, and run make quick.",
        ),
    ),
    "check": Kind(
        (
            Insertion(_PASSIVE, "    $name,", sorted_after="from . import ("),
            Insertion(_PASSIVE, "        $name,", before="    )\n    for check in module.CHECKS"),
            Insertion(
                "docs/health_checks.md",
                "| `$name` | passive | what a pass means | `example` | warn |",
                before="| `drift_files`",
            ),
        ),
        (
            "Describe the fault that it must find: the last test of "
            "tests/unit/plugins/module_utils/health/checks/test_$name.py.",
            "Write look (reads) and judge (pure) in " + _LIBRARY + "health/checks/$name.py; limits go to health/data/ "
            "with their sources.",
            "Move it to its place in the order of a report (of_node_passive.py, docs/health_checks.md).",
            "Choose its level: Cost.QUICK runs before each job and must cost little; then it belongs into of_node.py.",
            "Describe it in docs/health_checks.md, and correct the number of checks in README.md and docs/health*.md "
            "(tests/unit/tools/docs/test_readme.py names the lines); then make docs.",
            "Run its test: " + _TEST + "tests/unit/plugins/module_utils/health/checks/test_$name.py",
            "Run make quick.",
        ),
    ),
    "command": Kind(
        (
            Insertion(_LIBRARY + "command/main.py", '    "$name": "$words",', before='    "help": "the options'),
            Insertion("tools/hardware/commands.py", '    ("$name", 20),', before='    ("health --list'),
            Insertion(
                "docs/gpunode.md",
                "| `gpunode $name` | $words | no |",
                before="| `gpunode lease [status]`",
            ),
        ),
        (
            "Describe what it must print: the last test of "
            "tests/unit/plugins/module_utils/command/test_gpunode_$name.py.",
            "Write add_arguments and run in "
            + _LIBRARY
            + "command/$name.py, and its help in COMMANDS of main.py, in its place.",
            "If it changes a node: move it to LEFT_OUT in tools/hardware/commands.py, and say so in docs/gpunode.md.",
            "Add an example to EXAMPLES in main.py; then make docs.",
            "Run its test: " + _TEST + "tests/unit/plugins/module_utils/command/test_gpunode_$name.py",
            "Run make quick.",
        ),
    ),
}


class ScaffoldError(Exception):
    """A failure in one sentence."""


def create(root: Path, kind: str, name: str) -> list[str]:
    """Write all files of a new ``kind`` and return their paths, which are relative to ``root``.

    :raises ScaffoldError: the name is invalid or taken, or a place in a file was not found; nothing was written.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or keyword.iskeyword(name):
        remedy = "use lower-case letters, digits and single underscores, as in node_labels"
        raise ScaffoldError("{0!r}: it is not a valid name; {1}".format(name, remedy))
    words = name.replace("_", " ")
    version = yaml.safe_load((root / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    imports = ", ".join(sorted(("main", name)))
    values = {"name": name, "words": words, "Title": words.capitalize(), "version": version, "imports": imports}
    files = {}
    for template in sorted((TEMPLATES / kind).rglob("*.in")):
        path = string.Template(str(template.relative_to(TEMPLATES / kind))).substitute(values)[: -len(".in")]
        files[path] = string.Template(template.read_text(encoding="utf-8")).substitute(values)
    taken = [path for path in files if (root / path).exists()]
    if taken:
        raise ScaffoldError("{0}: it exists; choose another name".format(taken[0]))
    pages = (root / "docs/health_checks.md").read_text(encoding="utf-8") if kind == "check" else ""
    if re.search(r"^\|[^|\n]*`{0}`".format(name), pages, re.MULTILINE):
        raise ScaffoldError("{0}: there is a check of this name; choose another name".format(name))
    for one in KINDS[kind].insertions:
        text = files.get(one.path) or (root / one.path).read_text(encoding="utf-8")
        files[one.path] = inserted(text, one, string.Template(one.line).substitute(values))
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return sorted(files)


def inserted(text: str, one: Insertion, line: str) -> str:
    """Pure. :raises ScaffoldError: the place is not in the text exactly once."""
    anchor = "\n" + (one.before or one.sorted_after + "\n")
    if text.count(anchor) != 1:
        place = anchor.strip("\n")
        raise ScaffoldError("{0}: {1!r} must be in it once; correct tools/scaffold".format(one.path, place))
    at = text.index(anchor) + 1
    if one.sorted_after:
        at += len(anchor) - 1
        while text[at:].split("\n", 1)[0] < line and text.startswith(line[:4], at):
            at = text.index("\n", at) + 1
    return text[:at] + line + "\n" + text[at:]


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.scaffold", description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=tuple(KINDS))
    parser.add_argument("name", help="lower-case letters, digits and underscores, such as node_labels")
    arguments = parser.parse_args(words)
    try:
        files = create(ROOT, arguments.kind, arguments.name)
    except ScaffoldError as error:
        print("tools.scaffold: {0}.".format(error), file=sys.stderr)
        return 1
    print("\n".join(files))
    steps = [string.Template(one).substitute(name=arguments.name) for one in KINDS[arguments.kind].steps]
    print("\nNow:")
    print("\n".join("{0}. {1}".format(number, one) for number, one in enumerate(steps, 1)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
