# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each place that declares a version of ansible-core declares one that the tests run on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.tools.setup import environments

ROOT = Path(__file__).resolve().parents[4]
ROLES = sorted((ROOT / "roles").glob("*/meta/main.yml"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Makefile", *sorted((ROOT / "docs").rglob("*.md"))]


def pin(requirements: Path) -> tuple[int, int]:
    """Major and minor of the ansible-core that a file pins."""
    (found,) = re.findall(r"(?m)^ansible-core==(\d+)\.(\d+)\.\d+$", requirements.read_text(encoding="utf-8"))
    return int(found[0]), int(found[1])


def pinned(environment: environments.Environment) -> tuple[int, int]:
    (name,) = (one for one in environment.requirements if one.startswith(("core_", "newest")))
    return pin(ROOT / "tools" / "setup" / "requirements" / name)


OLDEST, NEWEST = pinned(environments.MAIN), pinned(environments.NEWEST)
WORDS = "{0}.{1}".format(*OLDEST)


def test_the_collection_and_its_requirements_ask_for_the_oldest_tested_core() -> None:
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text(encoding="utf-8"))
    assert runtime["requires_ansible"] == ">={0}.0".format(WORDS)
    asked = [line for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines() if "core" in line]
    assert "ansible-core>={0}".format(WORDS) in asked


@pytest.mark.parametrize("meta", ROLES, ids=lambda meta: meta.parts[-3])
def test_each_role_asks_for_it_too(meta: Path) -> None:
    assert yaml.safe_load(meta.read_text(encoding="utf-8"))["galaxy_info"]["min_ansible_version"] == WORDS


def test_pages_name_tested_cores_only() -> None:
    named = {
        (path.name, tuple(map(int, found)))
        for path in PAGES
        for found in re.findall(r"ansible-core[` ]*(?:>=)? ?(\d+)\.(\d+)", path.read_text(encoding="utf-8"))
    }
    assert named, "no page names a version of ansible-core: the pattern fits nothing any more"
    assert [one for one in sorted(named) if one[1] not in (OLDEST, NEWEST)] == []


def test_the_program_of_the_bundle_and_its_pages_name_the_pythons_that_the_node_command_runs_on() -> None:
    oldest = (3, 8)
    assert 'target-version = "py{0}{1}"'.format(*oldest) in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    program = (ROOT / "tools" / "bundle" / "converge").read_text(encoding="utf-8")
    tried = re.search(r"for python in python3 (.*); do", program)
    assert tried
    versions = [tuple(map(int, one[len("python") :].split("."))) for one in tried[1].split()]
    assert versions == sorted(versions, reverse=True) and versions[-1] == oldest
    assert "sys.version_info < {0}".format(oldest) in program
    told = "none of 3.8 to {0}.{1} is".format(*versions[0])
    page = (ROOT / "docs" / "bundle.md").read_text(encoding="utf-8")
    assert told in program and told in page and "Python 3.8 or newer" in page
