# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page in a real browser: its script runs, its details appear, and nothing that a node has sent does."""

from __future__ import annotations

import html
import os
import random
import re
import shutil
import subprocess

import pytest

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.health_report import model, page
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.health_report.history import Run
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.plugin_utils.health_report.health_fleet import (
    fleet,
    verdict,
    with_finding,
)

# Not chromium-browser: on Ubuntu that starts a snap, which cannot read the test's folder.
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
HOSTILE = '</script><script>document.title="owned"</script><img src=x onerror=document.title="owned">'


@pytest.fixture
def browse(tmp_path):
    """A function that opens a page and returns what is on it once its script has run."""
    program = next((found for found in map(shutil.which, BROWSERS) if found), None)
    if program is None:
        pytest.skip("no browser: install chromium-headless-shell (Debian) or Google Chrome to open the report in one")

    def look(text, fragment="", dark=False, picture=None, width=1100):
        path = tmp_path / "report.html"
        path.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [
                program,
                "--headless",
                "--disable-gpu",
                *(["--no-sandbox"] if os.geteuid() == 0 else []),
                "--user-data-dir={0}".format(tmp_path / "profile"),
                "--enable-logging=stderr",
                "--hide-scrollbars",
                "--blink-settings=preferredColorScheme={0}".format(0 if dark else 1),
                "--window-size={0},1250".format(width),
                *(["--screenshot={0}".format(picture)] if picture else ["--dump-dom"]),
                "file://{0}#{1}".format(path, fragment),
            ],
            capture_output=True,
            timeout=300,
            text=True,
            check=False,
        )
        assert "CONSOLE" not in done.stderr, done.stderr
        return done.stdout

    return look


def test_the_script_runs_and_shows_a_node(browse):
    text = page.page(model.report(fleet(64), {"gpu9001": "it was not reached (timed out)"}), "Fleet")
    shown = browse(text, "gpu0003")
    assert 'data-ready="yes"' in shown
    detail = re.search('<section id="detail"(.*?)</section>', shown, re.DOTALL).group(1)
    assert "hidden" not in detail.split(">")[0]
    words = html.unescape(re.sub("<[^>]+>", " ", detail))
    assert "✗ fail" in words and "it has fallen off the bus (Xid 79)" in words
    assert "6 checks" in words and "3 figures" in words and "No GPU is lost" in words
    assert 'class="fail chosen"' in shown


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_is_as_wide_as_the_window_and_says_nothing_on_the_console(browse, width, dark):
    """A script of the test's own tells how wide it became; the policy of the page would not let it run, so it goes."""
    runs = tuple(Run(1795000000.0 + 86400 * day, {"pass": 60, "fail": 4}, 300, 512) for day in range(30))
    text = page.page(model.report(fleet(64), {"gpu9001": "it was not reached"}), "Fleet", runs)
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    measure = "<script>document.title = document.documentElement.scrollWidth + ' of ' + window.innerWidth</script>"
    shown = browse(text.replace("</body>", measure + "</body>"), "gpu0003", dark=dark, width=width)
    told = re.search(r"<title>(\d+) of (\d+)</title>", shown)
    assert told and int(told.group(1)) <= int(told.group(2)), shown[:300]
    assert "30 runs; 60 of 64 nodes are well now, 300 of 512 GPUs are in use" in shown


def test_a_thousand_nodes_in_dark(browse):
    runs = tuple(Run(1795000000.0 + 86400 * day, {"pass": 990, "fail": 10}, 4000 + day, 8000) for day in range(30))
    shown = browse(page.page(model.report(fleet(1000), {}), "Fleet", runs), "gpu0020", dark=True)
    assert "30 runs; 990 of 1000 nodes are well now" in shown
    assert shown.count("<button") == 1000 and "▲ outlier" in shown


def test_what_a_node_sends_does_not_run(browse):
    content = with_finding(verdict("n", random.Random(1)), thing=HOSTILE, reason=HOSTILE, remedy=HOSTILE)
    content["profile"] = content["results"][0]["seen"] = HOSTILE
    shown = browse(page.page(model.report({"node": content, HOSTILE: content}, {}), "Fleet"), "node")
    assert "<title>Fleet</title>" in shown and "<img" not in shown and "owned" in shown


def test_it_can_be_drawn(browse, tmp_path):
    picture = tmp_path / "report.png"
    browse(page.page(model.report(fleet(64), {}), "Fleet"), picture=picture)
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 20_000
