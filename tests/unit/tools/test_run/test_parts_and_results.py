# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of parts, and the counting of results."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import List

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.tools.test_run import ansible_test, molecule
from ansible_collections.trainyard.gpu_node.tools.test_run.__main__ import summary
from ansible_collections.trainyard.gpu_node.tools.test_run.ansible_test import FIRST, packed
from ansible_collections.trainyard.gpu_node.tools.test_run.parts import (
    LANES,
    LIBRARY,
    PARTS,
    ROOT,
    SOAK,
    TOOLS,
    select,
)
from ansible_collections.trainyard.gpu_node.tools.test_run.results import (
    Count,
    closing_line,
    count_junit,
    group_skips,
    slowest,
)

# The package of the virtual node tool lies beside its command, not in the collection.
sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "tools" / "virtual_node"))

from virtual_machine.settings import check_name

names = st.text(min_size=1, max_size=20)
counts = st.builds(
    Count,
    st.integers(0, 10**6),
    st.lists(names, max_size=5).map(tuple),
    st.lists(st.tuples(names, names), max_size=5).map(tuple),
)


def test_names_of_parts_are_unique_and_no_group_and_their_lanes_exist() -> None:
    assert len({part.name for part in PARTS}) == len(PARTS)
    assert {part.lane for part in PARTS} == set(LANES)
    several = {part.group for part in PARTS if sum(other.group == part.group for other in PARTS) > 1}
    assert not several & {part.name for part in PARTS}


def test_every_part_names_its_virtual_nodes_as_the_tool_wants_it() -> None:
    """The tool refuses a run whose name is not usable as a host name; parts have underscores in theirs."""
    assert {part.name for part in PARTS if check_name(part.variables()["VIRTUAL_NODE_RUN"])} == {p.name for p in PARTS}


def test_words_choose_parts_by_name_and_group_in_the_order_of_the_table() -> None:
    assert select([]) == [part for part in PARTS if part.group != SOAK]
    assert select([SOAK]) == [part for part in PARTS if part.group == SOAK]
    chosen = [part.name for part in select(["unit", "ruff"])]
    assert chosen == ["ruff", "unit_library", "unit_tools", "unit_core_2_19", "unit_newest"]


def test_every_unit_test_runs_with_the_first_environment() -> None:
    places = [*LIBRARY, *TOOLS, *FIRST["units"]]
    files = list((ROOT / "tests" / "unit").rglob("test_*.py"))
    assert len(files) > 150
    left_out = [path for path in files if not any((ROOT / place) in path.parents for place in places)]
    assert left_out == []


def test_each_end_to_end_test_file_runs_in_make_test_or_in_make_soak() -> None:
    named = {word for part in PARTS for word in part.command}
    files = {
        str(path.relative_to(ROOT)) for name in ("e2e", "soak") for path in (ROOT / "tests" / name).glob("test_*.py")
    }
    assert files <= named
    # A mark of a test that `make soak` does not name would be left out everywhere.
    marked = {name for name in files if "mark.soak" in (ROOT / name).read_text(encoding="utf-8")}
    assert marked <= {word for part in PARTS if part.group == SOAK for word in part.command}


def test_an_unknown_word_is_told_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no part or group is called nonsense; there are: .*ruff"):
        select(["ruff", "nonsense"])


@given(counts)
def test_a_run_ends_with_the_one_line_that_is_read_by_machines(count: Count) -> None:
    lines = summary(count, {"short": 1.4, "long": 59.6}, 3, 61.0).splitlines()
    assert lines[2] == "took: long 60 s, short 1 s"
    assert re.match(r"\d+ passed, \d+ failed(, \d+ skipped)?$", lines[-1])
    assert lines[-1] == closing_line(count)
    assert ("skipped" in lines[-1]) == bool(count.skipped)


@given(counts, counts)
def test_counts_add_up(one: Count, two: Count) -> None:
    both = one + two
    assert both.passed == one.passed + two.passed
    assert len(both.failed) == len(one.failed) + len(two.failed)


def test_failures_and_errors_count_alike_and_several_files_add_up(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(
        '<testsuites><testsuite><testcase name="a"><failure/></testcase><testcase name="b"/></testsuite></testsuites>',
        encoding="utf-8",
    )
    (tmp_path / "b.xml").write_text('<testsuite><testcase name="c"><error/></testcase></testsuite>', encoding="utf-8")
    assert count_junit(tmp_path.glob("*.xml")) == Count(1, ("a", "c"))


def test_the_slowest_tests_are_told_first(tmp_path: Path) -> None:
    for part, text in (("a", '<s><testcase name="x" time="1.2"/><testcase name="y" time="70"/></s>'), ("b", "<cut")):
        (tmp_path / part).mkdir()
        (tmp_path / part / "junit.xml").write_text(text, encoding="utf-8")
    folders = [tmp_path / name for name in ("a", "b", "never_run")]
    assert slowest(folders, 5) == ["y 70 s", "x 1 s"] and slowest(folders, 1) == ["y 70 s"]


def test_the_reason_of_a_failure_goes_into_the_summary_on_one_line(tmp_path: Path) -> None:
    text = '<testsuite><testcase name="a"><failure message="assert 1 == 2&#10;  and more"/></testcase></testsuite>'
    (tmp_path / "a.xml").write_text(text, encoding="utf-8")
    assert count_junit(tmp_path.glob("*.xml")).failed == ("a: assert 1 == 2 and more",)


def test_a_scenarios_complaint_names_its_task() -> None:
    output = [
        "TASK [a : One] ****",
        "ok: [molecule]",
        "TASK [a : Two] ****",
        "fatal: [molecule]: FAILED! =>",
        "    msg: No.",
    ]
    assert molecule.complaint(output) == "TASK [a : Two]: fatal: [molecule]: FAILED! => msg: No."
    assert molecule.complaint(["", "E       assert 3 == 4"]) == "E assert 3 == 4"
    assert molecule.complaint([]) == ""


@pytest.mark.parametrize(
    "runs, crashes, why",
    [
        (["", "never"], [0, 0], ""),
        (["the role is wrong", "never"], [0, 0], "the role is wrong"),
        (["unreachable", ""], [0, 1], ""),
        (["unreachable", "the role is wrong"], [1, 2], "the role is wrong"),
        # A crash that was there before, or that the scenario outlived, is no reason to run it again.
        (["the role is wrong", "never"], [1, 1], "the role is wrong"),
        (["", "never"], [0, 1], ""),
    ],
)
def test_a_scenario_runs_again_only_when_the_kernel_of_its_machine_crashed_under_it(
    monkeypatch: pytest.MonkeyPatch, runs: List[str], crashes: List[int], why: str
) -> None:
    outcomes, counts, ended = iter(runs), iter(crashes), []
    monkeypatch.setattr(molecule, "run", lambda name: molecule.Result(name, 1.0, next(outcomes)))
    monkeypatch.setattr(molecule, "kernel_crashes", lambda: ["Oops: int3"] * next(counts))
    monkeypatch.setattr(molecule, "take_down", lambda variables: ended.append(1))
    assert molecule.run_on_a_sound_machine("a").why == why
    assert len(ended) == (next(outcomes, "none left") == "none left")


def test_a_torn_junit_file_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<testsuite><testcase", encoding="utf-8")
    assert len(count_junit(tmp_path.glob("*.xml")).failed) == 1


def test_skips_are_listed_once_for_each_reason() -> None:
    skips = [("a", "no GPU"), ("b", "no network"), ("c", "no GPU")]
    assert group_skips(skips) == ["2 x no GPU (a, ...)", "1 x no network (b)"]


def test_what_the_built_collection_leaves_out_is_not_judged_by_the_sanity_tests() -> None:
    names = [
        "README.md",
        ".gitignore",
        "plugins/modules/a.py",
        "tools/demo",
        "tests/e2e/a.py",
        "tests/unit/plugins/a.py",
    ]
    left = packed(names, [".*", "*/.*", "tools", "tests/e2e"])
    assert left == ["README.md", "plugins/modules/a.py", "tests/unit/plugins/a.py"]


def test_unit_tests_are_judged_by_the_sanity_tests_of_make_soak() -> None:
    judged, all_of_it = (set(ansible_test.files_for(kind)) for kind in ("sanity", "sanity_all"))
    assert {"galaxy.yml", "plugins/modules/node.py", "roles/monitoring/tasks/main.yml"} <= judged
    assert all_of_it - judged == {name for name in all_of_it if name.startswith("tests/")} != set()
    assert not any(name.startswith("tools/") for name in all_of_it)
    (part,) = (part for part in PARTS if "sanity_all" in part.command)
    assert part.group == SOAK


def test_the_import_test_keeps_bytecode_in_each_of_its_environments(tmp_path: Path) -> None:
    folders = [
        tmp_path / ".ansible/test/venv" / name / "3.11/0badcafe/lib/python3.11/site-packages"
        for name in ("sanity", "sanity.import", "sanity.pylint")
    ]
    for folder in folders:
        folder.mkdir(parents=True)
    ansible_test.keep_bytecode(tmp_path, "3.11")
    assert [(folder / "sitecustomize.py").exists() for folder in folders] == [True, True, False]
    assert str(tmp_path / "bytecode") in (folders[0] / "kept_bytecode.pth").read_text(encoding="utf-8")


def test_a_copy_for_ansible_test_follows_the_files_and_keeps_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone, copy = tmp_path / "clone", tmp_path / "copy"
    for name in ("plugins/a.py", "plugins/b.py"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text(name, encoding="utf-8")
    monkeypatch.setattr(ansible_test, "ROOT", clone)
    assert ansible_test.synchronise(["plugins/a.py", "plugins/b.py"], copy) == 2
    assert ansible_test.synchronise(["plugins/a.py", "plugins/b.py"], copy) == 0
    (copy / "tests" / "output").mkdir(parents=True)
    (copy / "tests" / "output" / "x.xml").touch()
    (clone / "plugins" / "a.py").write_text("changed", encoding="utf-8")
    assert ansible_test.synchronise(["plugins/a.py"], copy) == 2
    assert (copy / "plugins" / "a.py").read_text(encoding="utf-8") == "changed"
    assert not (copy / "plugins" / "b.py").exists() and (copy / "tests" / "output" / "x.xml").exists()
