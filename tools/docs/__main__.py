# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes, or with --check compares, the generated parts of the documentation: `python -m tools.docs [--check]`.

These are the variable tables of the roles' READMEs, the pages under docs/modules and docs/pictures, the index of roles
and modules, the limits by product, the tables of metrics, the examples of pods, and the man page, the
completions and the version of gpunode; and .gitattributes, which lists the generated files.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path
from typing import Any, Dict, List, Sequence

from ..monitoring import alerts, kubernetes, rules
from . import (
    attributes,
    command,
    completion_bash,
    completion_fish,
    completion_zsh,
    man_page,
    metrics,
    modules,
    options,
    pictures,
    pods,
    roles,
)
from .markup import table, to_markdown

ROOT = Path(__file__).resolve().parents[2]
# The node command is built from the library alone, which has no galaxy.yml.
VERSION_FILE = '''# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Generated from galaxy.yml by "make docs"; change it there.
"""The version of this command, which is that of the collection."""

VERSION = "{0}"
'''


class DocsError(Exception):
    """A failure told in one sentence."""


def between(text: str, name: str, content: str, path: str) -> str:
    """Put the content between the two markers of that name."""
    begin, end = "<!-- begin {0} -->".format(name), "<!-- end {0} -->".format(name)
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise DocsError("{0}: the markers {1} and {2} must stand in it once, in this order".format(path, begin, end))
    head, rest = text.split(begin)
    return "{0}{1}\n{2}\n{3}{4}".format(head, begin, content, end, rest.split(end)[1])


def role_folders(root: Path) -> List[Path]:
    return sorted(path for path in (root / "roles").iterdir() if (path / "meta").is_dir())


def index(root: Path, documented: Dict[str, Dict[str, Any]]) -> str:
    role_rows = [
        ("[{0}](../roles/{0}/README.md)".format(role.name), roles.short_description(role))
        for role in role_folders(root)
    ]
    module_rows = [
        ("[{0}](modules/{0}.md)".format(name), to_markdown(entry["doc"]["short_description"]))
        for name, entry in sorted(documented.items())
    ]
    return "{0}\n\n{1}".format(
        table(("Role", "What it does"), role_rows), table(("Module", "What it does"), module_rows)
    )


def product_limits(root: Path) -> str:
    """Of all figures that have limits by product."""
    data = command.library(root, "health.data.product_limits")
    rows = []
    for one in sorted(data.PRODUCTS, key=lambda one: list(data.SHARES).index(one.figure)):
        limit = data.threshold_of(one)
        figures = ["" if value is None else "{0:.4g}".format(value) for value in (limit.warn, limit.fail)]
        value = ("{0:g}" if one.proven else "{0:g}, unproven").format(one.value)
        rows.append(("`{0}`".format(one.figure), "`{0}`".format(one.kind), value, *figures, one.source))
    header = ("figure", "GPU, as NVML names it", "a healthy one reaches", "warn below", "fail below", "source")
    return table(header, rows)


def health_section(root: Path) -> str:
    """The options of the declaration's section health, which is no resource and has no module of its own."""
    core = command.library(root, "core.options")
    known = core.described(command.library(root, "node.wish").Verdict)
    specs = core.argument_spec_of(known)
    described = {name: dict(specs[name], description=options.helped(one)) for name, one in known.items()}
    return table(("Option", "Type", "Default", "Meaning"), roles.rows(described))


def of_command(root: Path) -> Dict[Path, str]:
    """What lies beside the node command's code, so that an installed collection has it, too."""
    described = command.load(root)
    version = str(roles.load(root / "galaxy.yml").get("version") or "")
    folder = root / "plugins" / "module_utils" / "command" / "data"
    return {
        folder / "gpunode.1": man_page.page(described, version),
        folder / "gpunode.bash": completion_bash.script(described),
        folder / "gpunode.zsh": completion_zsh.script(described),
        folder / "gpunode.fish": completion_fish.script(described),
        folder.parent / "version.py": VERSION_FILE.format(version),
    }


def of_monitoring(root: Path) -> Dict[Path, str]:
    """Rules and alerts of the role monitoring, and the table of the alerts' thresholds."""
    role, page = root / "roles" / "monitoring", root / "docs" / "monitoring.md"
    thresholds = table(("Threshold", "Default", "Meaning"), alerts.rows())
    return {
        role / "files" / "gpu_node.rules.yml": rules.text(),
        role / "files" / "gpu_node.alerts.yml": alerts.text(),
        role / "files" / "alert_thresholds.yml": alerts.thresholds(),
        role / "templates" / "gpu_node.alerts.yml.j2": alerts.template(),
        page: between(page.read_text(encoding="utf-8"), "thresholds", thresholds, "docs/monitoring.md"),
    }


def generate(root: Path) -> Dict[Path, str]:
    """Every generated file with its whole text; those of :mod:`.options` are there already."""
    documented = modules.load(root)
    files: Dict[Path, str] = {}
    for role in role_folders(root):
        path = role / "README.md"
        if not path.is_file():
            raise DocsError("{0}: a role needs a page for its user".format(path.relative_to(root)))
        files[path] = between(
            path.read_text(encoding="utf-8"), "variables", roles.variables(role), str(path.relative_to(root))
        )
    for name, entry in documented.items():
        files[root / "docs" / "modules" / (name + ".md")] = modules.page(name, entry)
    files.update(of_command(root))
    files.update(pictures.generate(root))
    files.update(pods.generate(root))
    reference = root / "docs" / "reference.md"
    files[reference] = between(
        reference.read_text(encoding="utf-8"), "index", index(root, documented), "docs/reference.md"
    )
    active = root / "docs" / "health_active.md"
    files[active] = between(
        active.read_text(encoding="utf-8"), "product limits", product_limits(root), "docs/health_active.md"
    )
    page = root / "docs" / "metrics.md"
    text = between(page.read_text(encoding="utf-8"), "gpus", metrics.of_gpus(root), "docs/metrics.md")
    files[page] = between(text, "dcgm", metrics.of_dcgm(root), "docs/metrics.md")
    files.update(of_monitoring(root))
    files.update(kubernetes.generate(root))
    declaration = root / "docs" / "declaration.md"
    files[declaration] = between(
        declaration.read_text(encoding="utf-8"), "health", health_section(root), "docs/declaration.md"
    )
    return files


def stale_pages(root: Path) -> List[Path]:
    """Pages of modules that are gone."""
    return sorted(path for path in (root / "docs" / "modules").glob("*.md") if path.stem not in modules.names(root))


def current(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def compare(root: Path, files: Dict[Path, str], stale: Sequence[Path] = ()) -> int:
    for path in stale:
        print("{0}: its module is gone".format(path.relative_to(root)))
    different = [path for path, text in files.items() if current(path) != text]
    for path in different:
        name = str(path.relative_to(root))
        lines = difflib.unified_diff(
            current(path).splitlines(), files[path].splitlines(), name, name + " (generated)", lineterm=""
        )
        print("\n".join(lines))
    if stale or different:
        print("docs: {0} files differ from what is generated; run make docs.".format(len(stale) + len(different)))
        return 1
    print("docs: {0} files are as generated.".format(len(files)))
    return 0


def write(root: Path, files: Dict[Path, str], stale: Sequence[Path] = ()) -> int:
    for path in stale:
        path.unlink()
        print("{0}: removed".format(path.relative_to(root)))
    for path, text in files.items():
        if current(path) != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print("{0}: written".format(path.relative_to(root)))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.docs", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("--check", action="store_true", help="write nothing; end with status 1 if something differs")
    act = compare if parser.parse_args().check else write
    try:
        # The pages are made of what the modules and the roles say, so these come first.
        of_options = options.generate(ROOT)
        if act(ROOT, of_options):
            return 1
        files = generate(ROOT)
        files.update(attributes.generate(ROOT, {**of_options, **files}))
        return act(ROOT, files, stale_pages(ROOT))
    except DocsError as error:
        print("docs: {0}.".format(error), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
