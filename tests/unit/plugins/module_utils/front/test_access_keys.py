# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The access key in the URL of a file is in nothing that a module gives back, and in nothing that it logs."""

from __future__ import annotations

import json

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.artefact import secrets
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import declarations
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import process

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
    hidden = declarations.secrets({module: arguments})
    done = process(module, arguments, tmp_path, secrets=hidden, logged=True)
    assert "Traceback" not in done.stderr, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["invocation"]["module_args"]
    assert "7Kc0pQz3" not in done.stdout + done.stderr
    assert BARE in done.stdout


def test_a_key_is_hidden_as_a_whole():
    assert declarations.secrets({"beeond": {"auth_secret": "a/key?of=mine"}}) == ["a/key?of=mine"]
    assert declarations.secrets({"beeond": {"auth_secret": "", "word": "beeond"}}) == []


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
