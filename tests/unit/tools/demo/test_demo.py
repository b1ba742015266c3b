# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo ends with two files to look at. The node and the plays are stand-ins here; `make demo` has the real ones."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

DEMO = Path(__file__).resolve().parents[4] / "tools" / "demo"
NODE = """#!/bin/sh
case "$*" in
    *status*) echo "demo does not exist" ;;
    *"topo --svg") echo "<svg>the node</svg>" ;;
esac
"""
PLAYBOOK = """#!/bin/sh
echo "$*" >>{0}/plays
[ -z "$GPU_NODE_HEALTH_HTML" ] || echo "<html>$ANSIBLE_CALLBACKS_ENABLED</html>" >"$GPU_NODE_HEALTH_HTML"
"""


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def test_a_file_that_was_not_written_fails_the_demo(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    script(clone / "tools" / "virtual_node" / "virtual_node", NODE)
    script(tmp_path / "bin" / "ansible-playbook", "#!/bin/sh\n")
    shutil.copy2(str(DEMO), str(clone / "tools" / "demo"))
    # Of an earlier demo.
    script(clone / "build" / "demo" / "health.html", "<html></html>")
    environment = dict(os.environ, PATH="{0}:{1}".format(tmp_path / "bin", os.environ["PATH"]))
    done = subprocess.run(
        [str(clone / "tools" / "demo")], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1 and "health.html: it was not written; run 'make demo' again" in done.stderr
    assert "Open in a browser" not in done.stdout


def test_it_ends_with_the_drawing_and_the_report_of_the_node_that_healed_itself(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    script(clone / "tools" / "virtual_node" / "virtual_node", NODE)
    script(tmp_path / "bin" / "ansible-playbook", PLAYBOOK.format(tmp_path))
    shutil.copy2(str(DEMO), str(clone / "tools" / "demo"))
    environment = dict(os.environ, PATH="{0}:{1}".format(tmp_path / "bin", os.environ["PATH"]))
    environment.pop("GPU_NODE_HEALTH_HTML", None)
    done = subprocess.run(
        [str(clone / "tools" / "demo")], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    files = {name: clone / "build" / "demo" / name for name in ("node.svg", "health.html")}
    # Nothing but the picture: a line of the demo's own in it would make it unreadable.
    assert files["node.svg"].read_text(encoding="utf-8") == "<svg>the node</svg>\n"
    assert files["health.html"].read_text(encoding="utf-8") == "<html>trainyard.gpu_node.health_report</html>\n"
    assert all(str(path) in done.stdout for path in files.values())
    plays = (tmp_path / "plays").read_text(encoding="utf-8").splitlines()
    assert ["--check" in play for play in plays] == [True, False, False]
    # The last play, whose verdict is the report, comes after the power loss.
    assert done.stdout.rindex("wipe-disks") < done.stdout.rindex("$ ansible-playbook playbooks/site.yml --skip-tags")
