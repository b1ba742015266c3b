# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of modules in the words of the user of a role."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.variables import roles


def with_variables(message: str, action: str) -> str:
    tasks = roles.tasks(action.rpartition(".")[2])

    def named(match: re.Match[str]) -> str:
        found = dict.fromkeys(filter(None, (task.variable(match.group(1)) for task in tasks)))
        return "{0} ({1})".format(" or ".join(found), match.group(0)) if found else match.group(0)

    return re.sub(r"\boption (\w+)", named, message)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"with_variables": with_variables}
