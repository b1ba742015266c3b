# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Git knows which files are generated: those that "make docs" writes as a whole, and no others."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tools import boards
from tools.docs import attributes

ROOT = Path(__file__).resolve().parents[4]
# JSON and SVG have no comment that says so.
WITHOUT_COMMENT = {"docs/declaration.schema.json", "docs/pictures/health_report.svg", "docs/pictures/node.svg"}


def git(*words, text=""):
    done = subprocess.run(["git", *words], cwd=str(ROOT), input=text, capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


def test_git_knows_the_generated_files():
    paths = [path for path in git("ls-files", "-z", "--cached") if (ROOT / path).is_file()]
    answer = git("check-attr", "-z", "--stdin", "linguist-generated", "diff", text="\0".join(paths))
    values = {(path, name): value for path, name, value in zip(answer[0::3], answer[1::3], answer[2::3])}
    marked = {path for path in paths if values[path, "linguist-generated"] == "set"}
    said = set(WITHOUT_COMMENT) | {"{0}/{1}.json".format(boards.FOLDER, name) for name in boards.NAMES}
    for path in paths:
        if path.startswith(("deploy/", "docs/", "meta/", "plugins/", "roles/")):
            begin = (ROOT / path).read_bytes()[:1000].decode("utf-8", "replace")
            if re.search(r"(?i)generated (by|from)", begin):
                said.add(path)
    assert marked == said
    assert {path for path in paths if values[path, "diff"] == "unset"} == {one for one in marked if ".json" in one}


def test_a_file_of_which_people_write_a_part_is_not_marked(tmp_path):
    made = ("roles/a/defaults/main.yml", "roles/a/README.md", "docs/modules/a.md", "docs/modules/b.md", "docs/x.md")
    texts = {tmp_path / path: "" for path in (*made, "plugins/modules/a.py")}
    texts[tmp_path / "roles/a/README.md"] = "By hand.\n<!-- begin variables -->\n<!-- end variables -->\n"
    for path, text in [*texts.items(), (tmp_path / "docs/by_hand.md", "")]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (answer,) = attributes.generate(tmp_path, texts).values()
    lines = [line.split()[0] for line in answer.splitlines() if not line.startswith(("#", "/" + boards.FOLDER))]
    assert lines == ["/docs/modules/*.md", "/docs/x.md", "/roles/a/defaults/main.yml"]
