# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles' specifications, defaults and pages say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.tools.docs import roles

ROLES = sorted(path for path in (Path(__file__).resolve().parents[4] / "roles").iterdir() if (path / "meta").is_dir())


def test_there_are_roles_to_look_at() -> None:
    assert {"nvme_scratch", "gpu_settings", "node_profile", "node_runtime"} <= {role.name for role in ROLES}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_specification_and_defaults_agree(role: Path) -> None:
    assert roles.disagreements(role) == []


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_role_has_a_page_and_says_what_it_does(role: Path) -> None:
    assert (role / "README.md").is_file()
    assert roles.short_description(role)


def write_role(folder: Path, options: str, defaults: str) -> Path:
    role = folder / "thing"
    for name, text in (("meta/argument_specs.yml", options), ("defaults/main.yml", defaults)):
        (role / name).parent.mkdir(parents=True)
        (role / name).write_text(text, encoding="utf-8")
    return role


@pytest.mark.parametrize(
    ("option", "default", "complaint"),
    [
        ("thing_a: {type: int, default: 1}", "thing_a: 2", "thing_a: specified 1, given 2"),
        ("thing_a: {type: int, default: 1}", "", "thing_a: has a default, and is not in defaults/main.yml"),
        ("thing_a: {type: int}", "thing_a: 2", "thing_a: specified None, given 2"),
        ("thing_a: {type: int, required: true}", "thing_a: 2", "thing_a: required, and has a default"),
        ("other_a: {type: int}", "other_a:", "other_a: does not begin with thing_"),
        ("thing_a: {type: int}", "{thing_a: null, thing_b: 1}", "thing_b: in defaults/main.yml, but not specified"),
    ],
)
def test_each_disagreement_is_found(tmp_path: Path, option: str, default: str, complaint: str) -> None:
    role = write_role(tmp_path, "argument_specs: {main: {options: {" + option + "}}}", default)
    assert complaint in roles.disagreements(role)


@pytest.mark.parametrize("default", ["thing_a:", "thing_a: '{{ other | default(omit) }}'"])
def test_a_default_that_is_computed_or_null_agrees_with_none(tmp_path: Path, default: str) -> None:
    assert roles.disagreements(write_role(tmp_path, "argument_specs: {main: {options: {thing_a: {}}}}", default)) == []


def test_the_table_has_a_row_for_each_variable_and_for_what_is_inside(tmp_path: Path) -> None:
    role = write_role(
        tmp_path,
        "argument_specs: {main: {options: {thing_a: {type: list, elements: dict, required: true, description: One|two, "
        "options: {gpu: {type: int, default: 3, description: Which V(x)}}}}}}",
        "",
    )
    assert roles.variables(role).splitlines()[2:] == [
        "| `thing_a` | list of dict | required | One\\|two |",
        "| `thing_a[].gpu` | int | `3` | Which `x` |",
    ]
