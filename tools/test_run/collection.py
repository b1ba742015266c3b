# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the collection, installs what was built, and runs its plays from there, from a folder that is not the clone.

Shows what a user of the artefact gets: nothing that lies about in a clone is packed, everything that the plays need is.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Dict, List, Sequence

from .ansible_test import ROOT, copy_if_different, files_of_the_clone

# First path segments that may be in the artefact; a new one is added here on purpose or left out in galaxy.yml.
PACKED = {
    *("CHANGELOG.rst", "CONTRIBUTING.md", "FILES.json", "LICENSE", "MANIFEST.json", "README.md", "requirements.txt"),
    *("changelogs", "docs", "extensions", "inventories", "meta", "playbooks", "plugins", "roles", "tests"),
}
REQUIRED = {"README.md", "LICENSE", "meta", "playbooks", "plugins", "roles", "docs"}
# No file of a collection of text comes near this.
LARGEST_BYTES = 512 * 1024
JUNK = re.compile(r"(^|/)(__pycache__|\.[^/]+|[^/]+\.(pyc|tar\.gz|retry|log|swp|orig))(/|$)")
# What a used clone has lying about.
LITTER = (
    *(".ansible/x", ".collections/x", ".env", ".git/config", ".hypothesis/x", ".idea/x", ".mypy_cache/x", ".vscode/x"),
    *(
        ".venv-newest/stamp",
        ".venv/bin/python",
        "build/test/x.log",
        "changelogs/.plugin-cache.yaml",
        "playbooks/x.retry",
    ),
    *(
        "plugins/module_utils/__pycache__/x.pyc",
        "tests/output/junit/x.xml",
        "tools/x",
        "trainyard-gpu_node-0.0.1.tar.gz",
    ),
)
# Hidden files that belong there.
NOT_JUNK = re.compile(r"(^|/)\.(gitkeep|keep)$")


def run(command: Sequence[str], folder: Path, environment: Dict[str, str]) -> str:
    print("$ {0}".format(" ".join(command)), flush=True)
    answer = subprocess.run(
        command,
        cwd=str(folder),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
    )
    print(answer.stdout, flush=True)
    if answer.returncode != 0:
        raise SystemExit("collection: {0} ended with status {1}".format(command[0], answer.returncode))
    return answer.stdout


def litter(folder: Path) -> None:
    """Put down litter; none of it may be packed."""
    for name in LITTER:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("litter\n", encoding="utf-8")


def problems(archive: Path) -> List[str]:
    """What is wrong with the artefact's list of files."""
    with tarfile.open(str(archive)) as tar:
        members = tar.getmembers()
    names = [member.name for member in members]
    tops = {name.split("/")[0] for name in names}
    found = ["{0}: packed, but no part of the collection".format(name) for name in sorted(tops - PACKED)]
    found += ["{0}: missing".format(name) for name in sorted(REQUIRED - tops)]
    found += ["{0}: litter is packed".format(name) for name in names if JUNK.search(name) and not NOT_JUNK.search(name)]
    found += ["{0}: a link".format(member.name) for member in members if member.issym() or member.islnk()]
    found += ["{0}: {1} bytes".format(member.name, member.size) for member in members if member.size > LARGEST_BYTES]
    return found


def environment_for(home: Path) -> Dict[str, str]:
    keep = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return dict(keep, HOME=str(home), ANSIBLE_COLLECTIONS_PATH=str(home / "collections"), ANSIBLE_NOCOLOR="1")


def check(work: Path) -> None:
    source, home = work / "source", work / "home"
    home.mkdir()
    for name in files_of_the_clone():
        copy_if_different(ROOT / name, source / name)
    litter(source)
    environment = environment_for(home)
    run(["ansible-galaxy", "collection", "build", "--output-path", str(work)], source, environment)
    archive = next(work.glob("trainyard-gpu_node-*.tar.gz"))
    found = problems(archive)
    if found:
        raise SystemExit("collection: {0}:\n{1}".format(archive.name, "\n".join("  " + line for line in found)))
    print("{0}: {1} KiB".format(archive.name, archive.stat().st_size // 1024))
    run(["ansible-galaxy", "collection", "install", str(archive), "-p", str(home / "collections")], home, environment)
    shutil.rmtree(str(source))
    installed = home / "collections" / "ansible_collections" / "trainyard" / "gpu_node"
    plays = ["trainyard.gpu_node." + play.stem for play in sorted((installed / "playbooks").glob("*.yml"))]
    run(["ansible-playbook", "--syntax-check", "-i", "node1,", *plays], home, environment)
    for inventory in sorted((installed / "inventories").iterdir()):
        run(["ansible-inventory", "-i", str(inventory), "--graph"], home, environment)
    run(
        ["ansible-doc", "-t", "module", "--metadata-dump", "--no-fail-on-errors", "trainyard.gpu_node"],
        home,
        environment,
    )


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="gpu_node-collection-") as folder:
        check(Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
