# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make quick` runs, and what it leaves to `make test`; the tests mirror the library, so that it finds them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Iterator

import pytest

from tools.test_run import quick, results
from tools.test_run.parts import ROOT

UNIT = ROOT / quick.TESTS
PLAN = "plugins/module_utils/resources/rdma/plan.py"


def packages(top: Path) -> Iterator[str]:
    for path in sorted(top.rglob("*.py")):
        yield path.parent.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("top", ["plugins", "tools"])
def test_each_directory_of_tests_names_a_package(top: str) -> None:
    found = sorted({path.parent.relative_to(UNIT).as_posix() for path in (UNIT / top).rglob("*.py")})
    assert len(found) > 10 and [one for one in found if not (ROOT / one).exists()] == []


def test_the_tests_of_a_plugin_are_named_after_it() -> None:
    for kind in quick.KINDS:
        names = [path.stem for path in (ROOT / "plugins" / kind).glob("*.py")]
        files = sorted((UNIT / "plugins" / kind).glob("test_*.py"))
        assert [one.name for one in files if not any(quick.is_named_after(str(one), name) for name in names)] == []


def test_there_are_tests_of_each_package_tool_and_role() -> None:
    library = {*packages(ROOT / "plugins/module_utils"), *packages(ROOT / "plugins/plugin_utils")}
    tools = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tools").iterdir() if path.is_dir()}
    roles = {path.relative_to(ROOT).as_posix() for path in (ROOT / "roles").iterdir()}
    assert len(library) > 60 and len(tools) > 10 and len(roles) > 20
    paths = {one + "/some.py" for one in {*library, *tools, *roles} if not one.endswith("__pycache__")}
    known = quick.tests()
    assert [one for one in sorted(paths) if all(quick.distance(test, one) == quick.UNRELATED for test in known)] == []


def test_names_are_unique_and_those_with_a_duration_are_files() -> None:
    names = Counter(path.stem for path in UNIT.rglob("test_*.py"))
    assert [name for name, number in names.items() if number > 1] == []
    durations = json.loads(quick.DURATIONS.read_text(encoding="utf-8"))
    assert set(durations) <= set(names) and min(durations.values()) >= 1


def test_the_nearest_tests_run_first_and_then_the_shortest() -> None:
    package = "plugins/module_utils/resources/rdma/"
    nearest = {"plugins/modules/test_rdma.py", package + "test_rdma_plan.py"}
    others = ["plugins/module_utils/core/test_a.py", "plugins/module_utils/core/test_b.py"]
    known = sorted([*nearest, *others, "plugins/module_utils/resources/rdma_other/test_c.py"])
    seconds = {"test_rdma": quick.BUDGET_SECONDS - 10, "test_rdma_plan": 9.0, "test_a": 0.9, "test_b": 0.8, "test_c": 1}
    assert quick.choose([PLAN], known, seconds) == [
        others[1],
        package + "test_rdma_plan.py",
        "plugins/modules/test_rdma.py",
    ]
    assert quick.choose(["README.md"], known, seconds) == [
        one for one in known if one != "plugins/modules/test_rdma.py"
    ]
    # A changed test file runs, however long it takes.
    slow = dict(seconds, test_a=1000.0)
    assert others[0] in quick.choose(["tests/unit/" + others[0]], known, slow)
    assert others[0] not in quick.choose([PLAN, "tests/unit/" + others[1]], known, slow)


@pytest.mark.parametrize(
    "path, test, distance",
    [
        ("tests/unit/tools/docs/test_pages.py", "tools/docs/test_pages.py", 0),
        (PLAN, "plugins/modules/test_rdma.py", 1),
        (PLAN, "plugins/module_utils/resources/rdma/test_rdma_plan.py", 2),
        ("roles/rdma/tasks/main.yml", "plugins/modules/test_rdma.py", 1),
        ("roles/rdma/tasks/main.yml", "plugins/module_utils/resources/rdma/test_rdma_plan.py", 2),
        ("roles/monitoring/tasks/main.yml", "tools/monitoring/test_server.py", 2),
        ("plugins/modules/rdma.py", "plugins/modules/test_rdma.py", 1),
        ("plugins/modules/rdma.py", "plugins/modules/test_hpcx.py", 9),
        ("plugins/modules/node.py", "plugins/module_utils/core/test_host.py", 9),
        ("plugins/module_utils/core/options.py", "plugins/module_utils/core/test_options_of_section.py", 1),
        ("plugins/module_utils/core/options.py", "plugins/module_utils/core/test_host.py", 2),
        ("plugins/module_utils/core/options.py", "plugins/module_utils/core/artefact/test_artefact_fetch.py", 3),
        ("plugins/module_utils/core/options.py", "plugins/modules/test_rdma.py", 9),
        ("playbooks/site.yml", "playbooks/test_site_play.py", 1),
        ("tools/test_run/quick.py", "tools/test_run/test_quick.py", 1),
        ("tools/fleet/loopback_fleet/cli.py", "tools/fleet/test_fleet_nodes.py", 2),
        (
            "tests/unit/plugins/module_utils/jobs/hooks/slurm_stand_in.py",
            "plugins/module_utils/jobs/hooks/test_breaker.py",
            2,
        ),
        ("README.md", "tools/docs/test_readme.py", 9),
    ],
)
def test_how_far_a_test_is_from_a_change(path: str, test: str, distance: int) -> None:
    assert quick.distance(test, path) == distance


def test_only_what_was_changed_is_linted() -> None:
    found = quick.commands(["plugins/modules/rdma.py", "README.md"], ["plugins/modules/test_rdma.py"])
    assert found["ruff"] == ["ruff", "check", "plugins/modules/rdma.py"]
    assert list(found) == ["ruff", "format", "mypy", "docs", "unit"]
    assert found["unit"][-1] == "tests/unit/plugins/modules/test_rdma.py"
    assert list(quick.commands(["README.md"], [])) == ["docs", "unit"]


def test_durations_are_those_of_all_tests_of_a_file(tmp_path: Path) -> None:
    case = '<testcase classname="tests.unit.tools.test_run.{0}" name="x" time="{1}"/>'
    cases = [case.format("test_a", 0.5), case.format("test_a.TestClass", 1), case.format("test_b", 2)]
    (tmp_path / "junit.xml").write_text("<testsuite>{0}</testsuite>".format("".join(cases)))
    assert results.seconds_by_file(tmp_path.glob("*.xml")) == {"test_a": 1.5, "test_b": 2.0}
