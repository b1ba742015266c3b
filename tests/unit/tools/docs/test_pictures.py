# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pictures of the documentation: light, without scripts, and of checks that exist. The part docs compares them."""

from __future__ import annotations

import random
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.health_report import model, page
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.plugin_utils.health_report.health_fleet import (
    fleet,
    verdict,
    with_finding,
)
from ansible_collections.trainyard.gpu_node.tools.docs import pictures

FOLDER = Path(__file__).resolve().parents[4] / "docs" / "pictures"
DRAWN = sorted(FOLDER.glob("*.svg"))
HOSTILE = '</script><script>alert(1)</script><img src=http://x.invalid/ onerror=alert(1)>"&amp;'


def words(element: ElementTree.Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def test_every_picture_is_shown_in_the_readme() -> None:
    readme = (FOLDER.parents[1] / "README.md").read_text(encoding="utf-8")
    assert {path.name for path in DRAWN} == set(re.findall(r"docs/pictures/([\w.]+)", readme))


def test_every_picture_of_a_dashboard_is_small_and_on_its_page() -> None:
    """Drawn by ``python -m tools.board_pictures``, cut and with 128 colours."""
    page = (FOLDER.parent / "boards.md").read_text(encoding="utf-8")
    found = set(FOLDER.iterdir()) - set(DRAWN)
    assert {path.name for path in found} == set(re.findall(r"\(pictures/([\w.]+)\)", page))
    assert all(path.read_bytes()[:4] == b"\x89PNG" and path.stat().st_size < 150_000 for path in found)


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.name)
def test_a_picture_is_small_runs_nothing_and_loads_nothing(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < 40_000 and "prefers-color-scheme: dark" in text.replace("scheme:dark", "scheme: dark")
    for element in ElementTree.fromstring(text).iter():
        assert element.tag.rpartition("}")[2] not in ("script", "img", "link", "iframe", "use")
        assert not [name for name in element.attrib if name.startswith("on") or name.endswith(("href", "src"))]


def test_the_report_shows_checks_that_exist_and_the_node_its_gpus() -> None:
    report = ElementTree.parse(str(FOLDER / "health_report.svg")).getroot()
    findings = report.findall(".//{http://www.w3.org/1999/xhtml}article")
    shown = {code.text for one in findings for code in one.iter("{http://www.w3.org/1999/xhtml}code") if code.text}
    assert len(shown) >= 4 and shown - {model.OUTLIER} <= {check.id for check in registry.checks(Cost.ACTIVE)}
    drawing = words(ElementTree.parse(str(FOLDER / "node.svg")).getroot())
    assert "NVIDIA A100-SXM4-40GB" in drawing and all("GPU {0} ".format(number) in drawing for number in range(8))


def test_the_picture_of_a_page_says_what_the_page_says_and_runs_nothing() -> None:
    given = fleet(24)
    given["gpu0001"] = with_finding(verdict("gpu0001", random.Random(1)), reason=HOSTILE)
    report = model.report(given, {"gpu9001": "it was not reached (timed out)"})
    made = pictures.picture_of(page.page(report, "A < B"), "A < B")
    picture = ElementTree.fromstring(made)
    assert not [one for one in picture.iter() if one.tag.endswith(("script", "img"))]
    text = words(picture)
    assert all(node.host in text for node in report.nodes if node.outcome != "pass") and "A < B" in text
    assert HOSTILE in text
