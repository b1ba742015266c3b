# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""declaration.yml: a file for each node of an inventory, in a folder that has to be named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import ansible_collections.trainyard.gpu_node as collection

(SOURCE,) = {Path(path) for path in collection.__path__ if (Path(path) / "playbooks").is_dir()}
ROOTS = os.pathsep.join(sorted({str(Path(path).parents[2]) for path in collection.__path__}))


def play(tmp_path: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    nodes = {"gpu01": {"rdma_names": "ordered"}, "gpu02": {"gpu_node_comm": []}}
    (tmp_path / "inventory.json").write_text(json.dumps({"gpu_nodes": {"hosts": nodes}}))
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    return subprocess.run(
        [sys.executable, "-m", "ansible.cli.playbook", "-i", str(tmp_path / "inventory.json"), *words]
        + [str(SOURCE / "playbooks" / "declaration.yml")],
        env=dict(clean, ANSIBLE_COLLECTIONS_PATH=ROOTS, ANSIBLE_NOCOLOR="1", ANSIBLE_LOCAL_TEMP=str(tmp_path / "tmp")),
        cwd=str(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_each_node_has_a_file_in_the_folder_that_is_named(tmp_path: Path) -> None:
    done = play(tmp_path)
    assert (
        done.returncode != 0 and done.stdout.count("Nothing was written: add -e gpu_node_declaration_folder=DIR") == 2
    )
    assert "caused by" not in done.stdout
    done = play(tmp_path, "-e", "gpu_node_declaration_folder=made")
    assert done.returncode == 0, done.stdout + done.stderr
    # Relative to the folder that ansible-playbook was started in.
    made = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "made").iterdir()}
    assert set(made) == {"gpu01", "gpu02"}
    assert made["gpu01"]["rdma"] == {"names": "ordered"} and "rdma" not in made["gpu02"]
