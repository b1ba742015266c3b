# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A declaration that goes with a bundle or a spec, where many can read it: it is a right one, and keeps no secret."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError  # noqa: E402
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import wish  # noqa: E402
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import declarations  # noqa: E402

__all__ = ["ROOT", "BundleError", "NodeError", "checked", "declarations", "wish"]

_SECRET = re.compile(r"-----BEGIN ([A-Z]+ )*PRIVATE KEY-----|\$ANSIBLE_VAULT;[0-9]")


class BundleError(Exception):
    """A failure told in one sentence, without its full stop."""


def checked(text: str, where: str) -> str:
    """The declaration as the node keeps it.

    :raises BundleError: it is none, an option is wrong, or it has a secret in it.
    """
    try:
        sections = wish.parse(text, where)
        wish.desired(sections, {})
    except NodeError as error:
        raise BundleError("{0}: {1}".format(where, error).rstrip(".")) from error
    # JSON writes the end of a line inside a text as \n.
    if declarations.secrets(sections) or _SECRET.search(text):
        raise BundleError(
            "{0}: it has an access key or a private key, which everybody who has the file could read; "
            "keep it in /etc/gpu_node/declaration.json of the nodes".format(where)
        )
    return wish.text(sections)
