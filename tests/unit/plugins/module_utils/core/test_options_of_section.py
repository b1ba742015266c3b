# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on a node reads its section of the declaration with the class of the options, whatever the section has."""

from __future__ import annotations

import ast
import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import host, registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import (
    as_section,
    described,
    invalid,
    of,
    of_section,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import drift
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Outcome

LIBRARY = pathlib.Path(host.__file__).resolve().parents[1]
SECTIONS = tuple(one.name for one in registry.RESOURCES.values() if one.settings)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def missing(one):
    return one.default if one.unset is None else one.unset


@pytest.mark.parametrize("section", SECTIONS)
def test_the_options_of_the_resource_are_those_that_the_node_reads(section):
    assert issubclass(registry.resource(section).options, drift.settings_of(section))


@pytest.mark.parametrize("section", SECTIONS)
@given(data=st.data())
def test_no_section_stops_what_reads_it(section, data):
    cls = drift.settings_of(section)
    content = data.draw(st.dictionaries(st.sampled_from([*described(cls), "scontrol", "x"]), VALUES))
    found = of_section(cls, content)
    assert of_section(cls, json.loads(json.dumps(as_section(cls, found)))) == of_section(cls, as_section(cls, found))
    for name, one in described(cls).items():
        if content.get(name) is None:
            assert getattr(found, one.field) == missing(one)


@pytest.mark.parametrize("section", SECTIONS)
def test_the_node_refuses_the_values_that_a_converge_refuses(section):
    cls = drift.settings_of(section)
    wrong = {"bool": (1, "yes"), "int": (True, "3", 1.5), "float": ("x", True), "str": (3, ["x"]), "list": ("x y", 3)}
    wrong["raw"] = (True, "no such word", [1], {})
    for name, one in described(cls).items():
        # People write a list of indexes as a text, or as a number.
        values = list(wrong[one.kind]) if one.whole is None else [{}, True, [[]]]
        if one.bounds:
            values += [one.bounds[0] - 1, one.bounds[1] + 1]
        if one.choices:
            values += ["no such choice"] if one.kind == "str" else [["no such choice"]]
        for value in values:
            with pytest.raises(NodeError):
                of(cls, {name: value})
            assert [error.thing for error in invalid(cls, {name: value})] == ["option " + name], value
            empty = one.kind == "list" and one.choices and isinstance(value, list)
            assert getattr(of_section(cls, {name: value}), one.field) == (() if empty else missing(one))


def test_unknown_entries_of_a_set_of_choices_are_dropped_and_no_others_take_their_place():
    gate = drift.settings_of("health_gate")
    assert of_section(gate, {"remedies": ["reset_gpu", "format_disks"]}).remedies == ("reset_gpu",)
    assert of_section(drift.settings_of("cleanup"), {"kinds": ["everything"]}).kinds == ()


@pytest.mark.parametrize(
    "section, name, value",
    [
        ("slurm_hooks", "grace_seconds", -5),
        ("beeond", "port_shift", 999999),
        ("checkpoint", "nodes", True),
        ("health_gate", "drain_after", 99),
        ("gpu_settings", "clocks", "fast"),
    ],
)
def test_drift_reports_an_invalid_option_and_its_valid_neighbour_is_silent(section, name, value, tmp_path):
    node = host.Host(str(tmp_path))
    found = drift.judge(drift.look(Evidence(node, {section: {name: value}}, {})), None)
    assert [(one.code, one.key, one.outcome) for one in found.findings] == [
        ("invalid_option", "{0}.{1}".format(section, name), Outcome.WARN)
    ]
    valid = as_section(drift.settings_of(section), drift.settings_of(section)())
    assert drift.look(Evidence(node, {section: valid}, {})).invalid == ()


def classes_of(options):
    """The classes of which these options consist: with bases, and with the options of an option."""
    found = {(one.__module__.rpartition("module_utils.")[2], one.__name__) for one in options.__mro__}
    return found.union(*(classes_of(one.inner) for one in described(options).values() if one.inner is not None))


def second_classes(trees, resources):
    """Pure. The classes that have at least four options of a resource again, and no more fields beside them.

    A step of a plan has the values that it sets; a field whose value is a name takes an option from elsewhere.
    """
    known = set().union(*map(classes_of, resources))
    names = [{one.field for one in described(options).values()} for options in resources]
    found = []
    for module, tree in trees.items():
        for one in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            lines = [line for line in one.body if isinstance(line, ast.AnnAssign)]
            fields = {line.target.id for line in lines if not isinstance(line.value, ast.Name)}
            alike = max(len(fields & options) for options in names)
            is_step = "Action" in [getattr(base, "id", "") for base in one.bases]
            if alike >= 4 and 2 * alike >= len(fields) and not is_step and (module, one.name) not in known:
                found.append("{0}.{1}".format(module, one.name))
    return sorted(found)


def test_no_second_class_has_the_options_of_a_resource():
    trees = {}
    for path in LIBRARY.rglob("*.py"):
        module = ".".join(path.relative_to(LIBRARY).with_suffix("").parts).replace(".__init__", "")
        trees[module] = ast.parse(path.read_text(encoding="utf-8"))
    resources = [registry.resource(name).options for name in (*registry.NAMES, *registry.OF_CLUSTER)]
    assert second_classes(trees, resources) == []
    lease = ast.parse("class Lease:\n    until: float\n    reset: bool\n    motd: bool\n    reservation: bool\n")
    assert second_classes({"core.lease": lease}, resources) == ["core.lease.Lease"]
