# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheels of a bundle: which ones, by ``wheels.json``, and how to get them.

`python -m tools.bundle.wheels` writes that file anew: it asks the package index what each Python on each machine takes,
at the versions that are pinned. A build takes these files and no others, so it gives the same bytes on each machine.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Tuple

ROOT = Path(__file__).resolve().parents[2]
LOCK = Path(__file__).resolve().parent / "wheels.json"
_PINS = ROOT / "tools" / "setup" / "requirements"
#: For each Python the newest tested ansible-core that runs on it.
CORES: Dict[Tuple[int, int], Path] = {
    (3, 11): _PINS / "core_2_19.txt",
    (3, 12): _PINS / "newest.txt",
    (3, 13): _PINS / "newest.txt",
    (3, 14): _PINS / "newest.txt",
}
MACHINES = ("x86_64", "aarch64")
# Of the GNU C library: RHEL 8 has 2.28, Ubuntu 22.04 has 2.35.
_PLATFORMS = ("manylinux_2_28_{0}", "manylinux_2_17_{0}", "manylinux2014_{0}")


class BundleError(Exception):
    """A failure told in one sentence."""


def tag(version: Tuple[int, int], machine: str) -> str:
    return "cp{0}{1}-{2}".format(*version, machine)


def pip(version: Tuple[int, int], machine: str, folder: Path, *words: str) -> None:
    """Fetch wheels for a Python and machine that need not be this one's."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", "{0}.{1}".format(*version)]
    for platform in _PLATFORMS:
        command += ["--platform", platform.format(machine)]
    done = subprocess.run([*command, "--dest", str(folder), *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BundleError(
            "wheels for {0}: pip failed ({1}); check the network and the package index".format(
                tag(version, machine), last
            )
        )


def renew() -> Dict[str, Dict[str, str]]:
    """Each target with the wheels that pip comes to and their SHA-256."""
    found: Dict[str, Dict[str, str]] = {}
    for version, core in CORES.items():
        for machine in MACHINES:
            print("wheels: {0} ...".format(tag(version, machine)), flush=True)
            with tempfile.TemporaryDirectory(prefix="gpu_node-wheels-") as name:
                folder = Path(name)
                pip(version, machine, folder, "-r", str(core), "-c", str(_PINS / "constraints.txt"), "nvidia-ml-py")
                found[tag(version, machine)] = {path.name: sha256(path) for path in sorted(folder.iterdir())}
    return found


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def locked() -> Dict[str, Dict[str, str]]:
    found: Dict[str, Dict[str, str]] = json.loads(LOCK.read_text(encoding="utf-8"))
    return found


def have(folder: Path) -> Dict[str, Dict[str, str]]:
    """Have every wheel of the lock in a folder, fetched where it is not there yet; gives the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = locked()
    for version in CORES:
        for machine in MACHINES:
            wanted = lock[tag(version, machine)]
            missing = [name for name in wanted if not right(folder / name, wanted[name])]
            for name in missing:
                (folder / name).unlink(missing_ok=True)
            if missing:
                print("wheels: {0}: fetching {1} ...".format(tag(version, machine), len(missing)), flush=True)
                words = ["{0}=={1}".format(*name.split("-")[:2]) for name in missing]
                pip(version, machine, folder, "--no-deps", *words)
            for name in missing:
                if not right(folder / name, wanted[name]):
                    raise BundleError(
                        "wheel {0}: the package index has no file of this name and sum; "
                        "run 'python -m tools.bundle.wheels' and look at what changed in wheels.json".format(name)
                    )
    return lock


def right(path: Path, digest: str) -> bool:
    return path.is_file() and sha256(path) == digest


def main() -> int:
    try:
        found = renew()
    except BundleError as error:
        print("wheels: {0}.".format(error), file=sys.stderr)
        return 1
    LOCK.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print("wheels: {0} files for {1} targets".format(len({name for one in found.values() for name in one}), len(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
