# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The profiles of a site: a folder on the controller with a YAML file for each, named as the profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError


def read(given: Any) -> Any:
    """The profiles by name where a folder is given; anything else as it is.

    :raises NodeError: there is no such folder, or a file in it is no YAML.
    """
    if not isinstance(given, str) or not given:
        return given or {}
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise NodeError("option profiles", "there is no folder {0!r} on the controller".format(given), "correct it")
    return {path.stem: _load(path) for path in sorted(folder.iterdir()) if path.suffix in (".yml", ".yaml")}


def _load(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = "it cannot be read ({0})".format(" ".join(str(error).split()))
        raise NodeError("profile {0}".format(path), reason, "correct it") from error
