# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""validate.yml: which nodes it tests, and where it runs, by patterns and limits. Nothing is started in check mode."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ansible_collections.trainyard.gpu_node as collection

(SOURCE,) = {Path(path) for path in collection.__path__ if (Path(path) / "playbooks").is_dir()}
ROOTS = os.pathsep.join(sorted({str(Path(path).parents[2]) for path in collection.__path__}))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "words, host, nodes",
    [
        ((), "n1", {"n1", "n2", "n3", "n4"}),
        (("--limit", "n3,n4"), "n3", {"n3", "n4"}),
        (("-e", "gpu_node_hosts=n2:n4"), "n2", {"n2", "n4"}),
        (("-e", "gpu_node_hosts=gpu_nodes[0:1]"), "n1", {"n1", "n2"}),
        (("-e", "gpu_node_validate_from=login"), "login", {"n1", "n2", "n3", "n4"}),
        (("-e", "gpu_node_validate_from=login", "--limit", "login"), "login", {"n1", "n2", "n3", "n4"}),
        (("-e", "gpu_node_validate_from=login", "--limit", "login,n2,n3"), "login", {"n2", "n3"}),
    ],
)
def test_the_nodes_of_pattern_and_limit_are_tested_from_the_first_of_them(tmp_path, words, host, nodes):
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    groups = {"gpu_nodes": {"hosts": {"n{0}".format(number): here for number in range(1, 5)}}}
    groups["others"] = {"hosts": {"login": here}}
    (tmp_path / "inventory.json").write_text(json.dumps(groups))
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    done = subprocess.run(
        [sys.executable, "-m", "ansible.cli.playbook", "-i", str(tmp_path / "inventory.json"), "--check", *words]
        + ["-e", "gpu_node_validate_folder={0}".format(tmp_path), str(SOURCE / "playbooks" / "validate.yml")],
        env=dict(clean, ANSIBLE_COLLECTIONS_PATH=ROOTS, ANSIBLE_NOCOLOR="1", ANSIBLE_LOCAL_TEMP=str(tmp_path / "tmp")),
        cwd=str(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (ran,) = re.findall(r"(?m)^ok: \[(\w+)\] => ", done.stdout)
    tested = re.search(r'"msg": (\[[^]]*\])', done.stdout)
    assert ran == host and {node for pair in json.loads(tested.group(1)) for node in pair.split(", ")} == nodes
