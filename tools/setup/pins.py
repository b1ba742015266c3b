# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Renews requirements/constraints.txt: the newest versions of all that is installed, ansible-core apart.

Each set of requirements is resolved in a throw-away environment of the Python that it runs on; where the two come to
different versions of a package, the older one is taken, since both must run with it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Tuple

from . import environments

HEADER = "# Exact versions of everything that is installed, ansible-core apart. Renewed by: make pins\n"


def resolve(environment: environments.Environment, interpreter: environments.Interpreter) -> Dict[str, str]:
    """Install without constraints and tell what came of it."""
    print("pins: {0} on Python {1}.{2} ...".format(environment.folder, *interpreter.version), flush=True)
    with tempfile.TemporaryDirectory(prefix="gpu_node-pins-") as folder:
        python = str(Path(folder) / "bin" / "python")
        subprocess.run([interpreter.path, "-m", "venv", folder], check=True)
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for name in environment.requirements:
            command += ["--requirement", str(environments.REQUIREMENTS / name)]
        subprocess.run(command, check=True)
        frozen = subprocess.run([python, "-m", "pip", "freeze"], check=True, capture_output=True, text=True).stdout
    pairs = (line.split("==") for line in frozen.splitlines() if "==" in line)
    return {name: version for name, version in pairs if name != "ansible-core"}


def order(version: str) -> Tuple[Tuple[int, str], ...]:
    """A key that sorts version strings by their numbers."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in version.split("."))


def main() -> int:
    interpreters = environments.probe(environments.candidates())
    versions: Dict[str, str] = {}
    for environment in (environments.MAIN, environments.NEWEST):
        interpreter = environments.choose(environment, interpreters)
        if interpreter is None:
            print("pins: {0}: no Python for it here; both are needed.".format(environment.folder), file=sys.stderr)
            return 1
        for name, version in resolve(environment, interpreter).items():
            versions[name] = min(version, versions.get(name, version), key=order)
    lines = ["{0}=={1}\n".format(name, versions[name]) for name in sorted(versions, key=str.lower)]
    (environments.REQUIREMENTS / "constraints.txt").write_text(HEADER + "".join(lines), encoding="utf-8")
    print("pins: {0} versions written; run make test before you commit them".format(len(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
