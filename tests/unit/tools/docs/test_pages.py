# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Generated pages: the markup, the markers, and what --check says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost
from ansible_collections.trainyard.gpu_node.tools.docs import __main__ as docs
from ansible_collections.trainyard.gpu_node.tools.docs.markup import table, to_markdown, value
from ansible_collections.trainyard.gpu_node.tools.docs.modules import page


@pytest.mark.parametrize(
    ("markup", "markdown"),
    [
        ("Set O(clocks) to V(max\\) x), see RV(gpus[].uuid).", "Set `clocks` to `max) x`, see `gpus[].uuid`."),
        ("B(never) I(so) C(a`b)", "**never** *so* ``a`b``"),
        (
            "M(trainyard.gpu_node.gpu_info) and M(ansible.builtin.copy)",
            "[gpu_info](gpu_info.md) and `ansible.builtin.copy`",
        ),
        ("L(a page, https://example.org/x,y)", "[a page, https://example.org/x](y)"),
        ("U(https://example.org)", "<https://example.org>"),
        ("NVML(x) is no markup", "NVML(x) is no markup"),
        (["Two\n  lines.", "Two paragraphs."], "Two lines. Two paragraphs."),
        (None, ""),
    ],
)
def test_markup_becomes_markdown(markup: object, markdown: str) -> None:
    assert to_markdown(markup) == markdown


@given(st.text())
def test_no_text_makes_the_markup_fail(text: str) -> None:
    to_markdown(text)


@given(
    st.lists(st.tuples(st.text(st.characters(exclude_characters="\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"))), max_size=4)
)
def test_a_bar_in_a_cell_does_not_end_it(rows: "list[tuple[str]]") -> None:
    for line in table(("A",), rows).splitlines()[2:]:
        assert line.replace("\\|", "").count("|") == 2


@pytest.mark.parametrize(
    ("thing", "text"), [(None, ""), ("", '`""`'), ("max", "`max`"), ([], "`[]`"), (True, "`true`"), (0, "`0`")]
)
def test_values_are_written_as_in_yaml(thing: object, text: str) -> None:
    assert value(thing) == text


def test_only_what_is_between_the_markers_changes() -> None:
    text = "before\n<!-- begin x -->\nold\n<!-- end x -->\nafter\n"
    once = docs.between(text, "x", "new", "page")
    assert once == "before\n<!-- begin x -->\nnew\n<!-- end x -->\nafter\n"
    assert docs.between(once, "x", "new", "page") == once


@pytest.mark.parametrize(
    "text", ["", "<!-- begin x -->", "<!-- end x --><!-- begin x -->", "<!-- begin x -->" * 2 + "<!-- end x -->"]
)
def test_a_page_without_proper_markers_is_told_by_name(text: str) -> None:
    with pytest.raises(docs.DocsError, match=r"README\.md: the markers"):
        docs.between(text, "x", "new", "README.md")


def test_a_page_that_differs_or_is_stale_fails_the_check_until_it_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = tmp_path / "docs" / "modules" / "gone.md"
    stale.parent.mkdir(parents=True)
    stale.write_text("old", encoding="utf-8")
    files = {tmp_path / "docs" / "modules" / "new.md": "# new\n"}
    (tmp_path / "plugins" / "modules").mkdir(parents=True)
    (tmp_path / "plugins" / "modules" / "new.py").write_text("", encoding="utf-8")
    assert docs.stale_pages(tmp_path) == [stale]
    assert docs.compare(tmp_path, {}, [stale]) == 1 and docs.compare(tmp_path, files) == 1
    assert "+# new" in capsys.readouterr().out and stale.exists()
    docs.write(tmp_path, files, [stale])
    assert docs.compare(tmp_path, files, docs.stale_pages(tmp_path)) == 0 and not stale.exists()


def test_a_module_page_tells_options_with_suboptions_and_results_with_what_they_contain() -> None:
    entry = {
        "doc": {
            "short_description": "Do it",
            "description": ["First.", "Second."],
            "options": {
                "b": {
                    "description": "B.",
                    "type": "list",
                    "elements": "dict",
                    "suboptions": {"c": {"description": "C."}},
                },
                "_lent": {"description": "Ours.", "type": "str"},
                "z": {"description": "Z.", "required": True, "choices": ["x", "y"]},
            },
            "attributes": {
                "idempotent": {"description": ["Once.", "Or twice."], "details": "Mostly.", "support": "full"},
                "platform": {"description": "Where.", "platforms": "linux", "support": "full"},
            },
        },
        "examples": "\n- name: x\n",
        "return": {
            "gpus": {
                "description": "All.",
                "type": "list",
                "elements": "dict",
                "contains": {"uuid": {"description": "U."}},
            }
        },
    }
    text = page("thing", entry)
    assert text.index("| `z` | str | required | Z. One of `x`, `y`. |") < text.index("| `b[].c` | str |  | C. |")
    assert "| `gpus[].uuid` |" in text and "```yaml\n- name: x\n```" in text and "- First.\n- Second." in text
    assert "_lent" not in text
    assert "| `idempotent` | full | Once. Or twice. Mostly. |" in text
    assert "| `platform` | linux | Where. |" in text


ROOT = Path(__file__).resolve().parents[4]
PROSE = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
_SOURCE = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.py)`")
# Files of other projects, by the pages that cite them.
_OTHERS = ("azure-slurm-install/install.py", "azure-slurm/slurmcc/cli.py")


@pytest.mark.parametrize("page_path", PROSE, ids=lambda path: path.name)
def test_source_files_named_on_a_page_exist(page_path):
    # The page of the architecture names the files of the library from the library's own directory.
    bases = [ROOT, ROOT / "plugins/module_utils", ROOT / "plugins"] if page_path.name == "architecture.md" else [ROOT]
    names = [name for name in _SOURCE.findall(page_path.read_text(encoding="utf-8")) if name not in _OTHERS]
    missing = [name for name in names if "NAME" not in name and not any((base / name).exists() for base in bases)]
    assert not missing


def test_each_check_has_a_row():
    pages = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("health_checks.md", "health_active.md")]
    first_cells = [line.split("|")[1] for text in pages for line in text.splitlines() if line.startswith("| `")]
    named = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    assert {check.id for check in registry.checks(Cost.ACTIVE)} <= named
