# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The registrations of the resources."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.registry import Registration
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import declarations

LIBRARY = Path(__file__).resolve().parents[5] / "plugins" / "module_utils"
# Installs the node command itself; it is converged before the resources and is in no declaration.
NOT_REGISTERED = {"node_runtime"}
EVERY = (*registry.NAMES, *registry.OF_CLUSTER)


def test_each_package_of_a_resource_is_registered():
    packages = {path.parent.name for path in (LIBRARY / "resources").glob("*/__init__.py")}
    assert packages - NOT_REGISTERED == set(EVERY) and len(EVERY) == len(set(EVERY))


def test_no_package_beside_them_is_a_resource():
    found = [path for path in LIBRARY.rglob("*.py") if "\nRESOURCE = Resource(" in path.read_text("utf-8")]
    assert {path.relative_to(LIBRARY).parts[0] for path in found} == {"resources"}


@pytest.mark.parametrize("name", EVERY)
def test_a_resource_has_the_name_of_its_registration(name):
    assert registry.resource(name).name == name


@pytest.mark.parametrize("name", registry.NAMES)
def test_a_registration_is_consistent(name):
    one, before = registry.RESOURCES[name], registry.NAMES[: registry.NAMES.index(name)]
    assert set(one.requires) <= set(before), "what it requires is converged before it"
    assert set(one.then) <= set(registry.NAMES) - set(before)
    assert one.at_boot or not one.then
    assert (registry.resource(name).at_boot is not None) == one.at_boot


def test_a_new_resource_is_disabled_until_a_variable_enables_it(monkeypatch):
    added = {**registry.RESOURCES, "burn_in": Registration("burn_in")}
    monkeypatch.setattr(registry, "RESOURCES", added)
    monkeypatch.setattr(registry, "NAMES", tuple(added))
    monkeypatch.setattr(declarations, "ALL", (*added, "health"))
    monkeypatch.setattr(declarations, "DESCRIBED", {**declarations.DESCRIBED, "burn_in": {}})
    monkeypatch.setattr(registry, "resource", lambda name: type("Resource", (), {"of_cluster": False}))

    def sections(**variables):
        return declarations.of_playbooks(variables, variables.__getitem__, False)

    assert "burn_in" not in sections() and "burn_in" not in sections(gpu_node_burn_in=False)
    assert "burn_in" in sections(gpu_node_burn_in=True)
    assert sections(gpu_node_burn_in="yes")["node_profile"]["asked"] == ["burn_in"]
