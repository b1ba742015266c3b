# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of commands that only root may read are in no archive, no error and no journal."""

from __future__ import annotations

import fnmatch

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import declaration, secrets
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.remedies.types import Redeploy
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.diagnose import gather, parts
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.diagnose.secrets import Filter
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.diagnose.types import Context

SECRET = "Zq7Rk2Lw9Tx4Vb8N"
COMMANDS = {
    "on_expiry": ["/usr/local/bin/hand-back", "node7", SECRET],
    "redeploy_command": ["curl", "-u", "ops:" + SECRET, "https://cloud/redeploy"],
    "keepalive": ["mysql", "-p" + SECRET, "--token=" + SECRET, "-H", "X-Site: " + SECRET],
}


def test_the_archive_has_neither_the_file_nor_an_argument(tmp_path):
    host = Host(str(tmp_path))
    for name, keys in (("node_lease", ("on_expiry",)), ("health_gate", ("redeploy_command", "keepalive"))):
        content = {key: COMMANDS[key] for key in keys}
        declaration.apply(host, declaration.Declare(name, content, keys))
    hide = Filter(gather._known(host)).text
    for argv in COMMANDS.values():
        assert SECRET not in hide("it ran " + " ".join(argv)) and SECRET not in hide(repr(argv))
    patterns = [
        pattern
        for part in parts.every(Context("gpu01", 0.0, 24, "1"))
        for pattern in getattr(part.source, "patterns", getattr(part.source, "paths", ()))
    ]
    assert patterns and not any(fnmatch.fnmatch(declaration.PRIVATE, pattern) for pattern in patterns)
    assert declaration.PATH in patterns


def test_ordinary_words_paths_and_numbers_of_a_command_are_no_secrets():
    assert secrets.of_arguments(["curl", "--silent", "-o", "/dev/null", "443", "--request=post"]) == []


def test_no_sentence_about_a_private_command_has_its_arguments():
    assert SECRET not in Redeploy(tuple(COMMANDS["redeploy_command"]), 900).describe()
    with pytest.raises(NodeError) as caught:
        secrets.run(Host(), ["sh", "-c", "echo {0} >&2; exit 3".format(SECRET), SECRET], 20.0)
    assert SECRET not in str(caught.value) and str(caught.value).startswith("sh: ended with status 3")
