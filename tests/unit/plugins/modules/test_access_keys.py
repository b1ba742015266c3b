# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The access key in the URL of a file is in nothing that a module gives back, and in nothing that it logs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.artefact import secrets

# What Ansible logs goes to the output, in front of the result.
RUNNER = """
import importlib, json, os, sys
from ansible.module_utils import basic
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import module as front

module = importlib.import_module("ansible_collections.trainyard.gpu_node.plugins.modules." + sys.argv[1])
arguments = json.loads(sys.argv[3])
if "inject_invocation" in basic.PASS_VARS:
    # This ansible-core gives the arguments back only when it is asked to; older ones always do.
    arguments["_ansible_inject_invocation"] = True
basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode()
basic._ANSIBLE_PROFILE = "legacy"
basic.AnsibleModule.log = lambda self, message, log_args=None: print("logged", message, log_args)
os.geteuid = lambda: 0
front.Host = lambda: Host(sys.argv[2])
front.main(module.RESOURCE)
"""
KEY = "sv=2024&sig=7Kc0pQz3"
BARE = "http://127.0.0.1:9/file.tar.gz"
SOURCE = {"source": BARE + "?" + KEY, "sha256": "0" * 64}


@pytest.mark.parametrize(
    "module, arguments",
    [
        ("hpcx", dict(SOURCE, version="2.24.1")),
        ("hpcx", dict(SOURCE, version="2.24.1", sha256="wrong")),
        ("pyxis", SOURCE),
        ("pyxis", {"prebuilt": [dict(SOURCE, slurm_version="22.05.8")]}),
        ("enroot", {"packages": [dict(SOURCE, name="enroot", version="4.1.2-1")]}),
    ],
)
def test_it_is_neither_given_back_nor_logged(tmp_path, module, arguments):
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, module, str(tmp_path), json.dumps(arguments)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["invocation"]["module_args"]
    assert "7Kc0pQz3" not in done.stdout + done.stderr
    assert BARE in done.stdout


@pytest.mark.parametrize(
    "source, hidden",
    [
        (None, []),
        ("/srv/file?name=12345678", []),
        (BARE, []),
        (BARE + "?v=1", []),
        (BARE + "?" + KEY, [KEY]),
        ("https://someone:password@mirror/file.deb", ["someone:password"]),
        ("https://someone:password@mirror/file.deb?" + KEY, ["someone:password", KEY]),
    ],
)
def test_what_is_hidden_of_a_url(source, hidden):
    assert secrets([source]) == hidden
