# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variable table of a role's README, from its argument specification."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, List, Tuple

import yaml

from .markup import meaning, option_type, table, to_markdown, value


def load(path: Path) -> Dict[str, Any]:
    """A YAML file as a mapping; a missing or empty one is an empty mapping."""
    if not path.is_file():
        return {}
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded if isinstance(loaded, dict) else {}


def specification(role: Path) -> Dict[str, Any]:
    """The argument specification of the role's main entry point."""
    main = load(role / "meta" / "argument_specs.yml").get("argument_specs", {}).get("main", {})
    return main if isinstance(main, dict) else {}


def options(role: Path) -> Dict[str, Dict[str, Any]]:
    return dict(specification(role).get("options") or {})


def defaults(role: Path) -> Dict[str, Any]:
    return load(role / "defaults" / "main.yml")


def short_description(role: Path) -> str:
    info = load(role / "meta" / "main.yml").get("galaxy_info", {})
    return to_markdown(info.get("description") or specification(role).get("short_description"))


def rows(settings: Dict[str, Dict[str, Any]], prefix: str = "") -> List[Tuple[str, str, str, str]]:
    found = []
    for name, option in settings.items():
        default = "required" if option.get("required") else value(option.get("default"))
        found.append(("`{0}{1}`".format(prefix, name), option_type(option), default, meaning(option)))
        inner = "[]." if option.get("type") == "list" else "."
        found += rows(option.get("options") or {}, prefix + name + inner)
    return found


def variables(role: Path) -> str:
    """The text between the markers of the role's README."""
    settings = options(role)
    if not settings:
        return "This role has no variables."
    made = table(("Variable", "Type", "Default", "Meaning"), rows(settings))
    return re.sub(r"\]\((\w+\.md)\)", r"](../../docs/modules/\1)", made)


def disagreements(role: Path) -> List[str]:
    """Where the specification and defaults/main.yml of a role do not say the same.

    A default that the specification leaves out is an expression whose value the description tells; without one the
    variable is left to the module, or to the one who sets it.
    """
    settings, given = options(role), defaults(role)
    found = ["{0}: in defaults/main.yml, but not specified".format(name) for name in sorted(set(given) - set(settings))]
    for name, option in settings.items():
        if not name.startswith(role.name + "_"):
            found.append("{0}: does not begin with {1}_".format(name, role.name))
        if option.get("required") and name in given:
            found.append("{0}: required, and has a default".format(name))
        computed = isinstance(given.get(name), str) and "{{" in given[name]
        if name in given and not computed and given[name] != option.get("default"):
            found.append("{0}: specified {1!r}, given {2!r}".format(name, option.get("default"), given.get(name)))
        if name not in given and "default" in option:
            found.append("{0}: has a default, and is not in defaults/main.yml".format(name))
    return found
