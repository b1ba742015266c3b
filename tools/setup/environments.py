# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the Python environments of a clone and the link tree that Ansible resolves ``trainyard.gpu_node`` through.

``.venv`` has ansible-core 2.19 and the linters, ``.venv-newest`` the newest ansible-core; both have what the tests
need. A stamp in each holds the hash of what it was made from, so a second run only compares.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from . import unpacked

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = Path(__file__).resolve().parent / "requirements"
LINK_TREE = Path(".collections/ansible_collections/trainyard/gpu_node")
# Where interpreters lie beside the ones in PATH.
PYENV_VERSIONS = Path.home() / ".pyenv" / "versions"

Version = Tuple[int, int]


class SetupError(Exception):
    """A failure told in one sentence."""


@dataclasses.dataclass(frozen=True)
class Interpreter:
    """A Python that was run and said which version it is."""

    path: str
    version: Version


@dataclasses.dataclass(frozen=True)
class Environment:
    """One virtual environment: its folder, what goes in, and the Python versions it can have, best first."""

    folder: str
    requirements: Tuple[str, ...]
    versions: Tuple[Version, ...]


# 3.11 first for the older core, so that the oldest supported Python of a controller is what the tests run on.
MAIN = Environment(".venv", ("core_2_19.txt", "tests.txt", "linters.txt"), versions=((3, 11), (3, 12), (3, 13)))
# Where the only Python is newer than ansible-core 2.19 knows (Ubuntu 26.04 has 3.14), the newest core goes there too.
MAIN_TOO_NEW = Environment(".venv", ("newest.txt", "tests.txt", "linters.txt"), versions=((3, 14),))
NEWEST = Environment(".venv-newest", ("newest.txt", "tests.txt"), versions=((3, 13), (3, 12), (3, 14)))


def candidates() -> List[str]:
    """Paths that may be a Python of 3.11 or newer; nothing is run for this, so that a warm start stays fast."""
    found: List[str] = []
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    if PYENV_VERSIONS.is_dir():
        folders += sorted(version / "bin" for version in PYENV_VERSIONS.iterdir())
    for folder in folders:
        # An activated environment of this clone must not be made out of itself;
        # pyenv's shims fail for versions that are not chosen; the real ones are found in its versions folder.
        if folder.name == "shims" or ROOT in folder.parents:
            continue
        for minor in range(11, 15):
            path = folder / "python3.{0}".format(minor)
            if path.exists() and str(path) not in found:
                found.append(str(path))
    base = os.path.realpath(sys.executable)
    return found if base in found else [*found, base]


def probe(paths: Sequence[str]) -> List[Interpreter]:
    """Run each candidate; one that does not run, or has no venv module, is left out."""
    script = "import ensurepip, venv, sys; print(*sys.version_info[:2])"
    found: List[Interpreter] = []
    for path in paths:
        try:
            answer = subprocess.run([path, "-c", script], capture_output=True, text=True, timeout=30, check=False)
        except OSError:
            continue
        match = re.match(r"(\d+) (\d+)$", answer.stdout.strip())
        if answer.returncode == 0 and match:
            found.append(Interpreter(path, (int(match.group(1)), int(match.group(2)))))
    return found


def choose(environment: Environment, interpreters: Sequence[Interpreter]) -> Optional[Interpreter]:
    """The first interpreter of the best version the environment can have; None when there is none."""
    for version in environment.versions:
        for interpreter in interpreters:
            if interpreter.version == version:
                return interpreter
    return None


def first_possible(
    choices: Sequence[Environment], interpreters: Sequence[Interpreter]
) -> Optional[Tuple[Environment, Interpreter]]:
    """The first of the environments that one of the interpreters can carry."""
    for environment in choices:
        interpreter = choose(environment, interpreters)
        if interpreter:
            return environment, interpreter
    return None


def fingerprint(environment: Environment) -> str:
    """Hash of what is installed. The interpreters in PATH are no part of it: they differ between a shell with an
    activated environment, one without, and a CI system, and none of that is a reason to install anew."""
    digest = hashlib.sha256()
    for name in environment.requirements + ("constraints.txt",):
        digest.update((REQUIREMENTS / name).read_bytes())
    digest.update(repr(environment.versions).encode())
    return digest.hexdigest()


def is_current(environment: Environment, wanted: str) -> bool:
    """True if the environment stands as wanted and its interpreter is still there."""
    stamp = ROOT / environment.folder / "stamp"
    python = ROOT / environment.folder / "bin" / "python"
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted and python.exists()


def build(environment: Environment, interpreter: Interpreter, wanted: str) -> None:
    """Make the environment anew and install into it; the stamp comes last, so that an interrupted run is repeated."""
    folder = ROOT / environment.folder
    started = time.monotonic()
    label = "{0} (Python {1}.{2}, {3})".format(
        environment.folder, *interpreter.version, " + ".join(name[: -len(".txt")] for name in environment.requirements)
    )
    print("setup: {0}: installing ...".format(label), flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    log = ROOT / "build" / "setup" / (environment.folder.lstrip(".") + ".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    commands = [[interpreter.path, "-m", "venv", str(folder)], pip_install(environment, folder)]
    with log.open("w", encoding="utf-8") as stream:
        for command in commands:
            run_logged(command, stream.fileno(), log, label, started)
    (folder / "stamp").write_text(wanted, encoding="utf-8")
    print("setup: {0}: ready after {1:.0f} s".format(label, time.monotonic() - started), flush=True)


def pip_install(environment: Environment, folder: Path) -> List[str]:
    command = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--progress-bar=off",
    ]
    command += ["--constraint", str(REQUIREMENTS / "constraints.txt")]
    for name in environment.requirements:
        command += ["--requirement", str(REQUIREMENTS / name)]
    return command


def run_logged(command: Sequence[str], output: int, log: Path, label: str, started: float) -> None:
    """Run one command into the log, with a line of progress every ten seconds; its failure ends in one sentence."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    while True:
        try:
            status = child.wait(timeout=10)
            break
        except subprocess.TimeoutExpired:
            print("setup: {0}: {1:.0f} s ...".format(label, time.monotonic() - started), flush=True)
        except BaseException:
            child.terminate()
            child.wait()
            raise
    if status != 0:
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        print("\n".join("    " + line for line in tail), file=sys.stderr)
        raise SetupError(
            "{0}: {1} ended with status {2}; check the network and the package index, the whole log is {3}".format(
                label, " ".join(command[1:4]), status, log
            )
        )


def links_wanted(root: Path) -> Dict[str, str]:
    """Name and relative target of each link: every top-level entry of the clone but hidden ones and what is built."""
    ups = "/".join([".."] * len(LINK_TREE.parts))
    return {
        entry.name: "{0}/{1}".format(ups, entry.name)
        for entry in sorted(root.iterdir())
        if not entry.name.startswith(".") and entry.name != "build" and not entry.name.endswith(".tar.gz")
    }


def make_link_tree(root: Path) -> bool:
    """A folder of links, one for each top-level entry, so that Ansible finds the collection in the clone itself.

    One link to the root would do for ansible-playbook, but then the tree contains itself, and tools that walk it
    never end. A link that leads elsewhere is replaced, one without an entry goes. True if anything changed.
    """
    folder = root / LINK_TREE
    folder.mkdir(parents=True, exist_ok=True)
    wanted = links_wanted(root)
    changed = False
    for entry in folder.iterdir():
        if entry.is_symlink() and os.readlink(entry) == wanted.get(entry.name):
            continue
        if not entry.is_symlink():
            raise SetupError("{0}: something that is not a link is in its place; remove it".format(entry))
        entry.unlink()
        changed = True
    for name, target in wanted.items():
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(target)
            changed = True
    return changed


def unpacked_python() -> List[Interpreter]:
    """Debian 13's Python from the cache, for a machine whose own are too old; none where it cannot be had."""
    print(
        "setup: {0}: no Python 3.12 or newer is installed; unpacking Debian 13's ...".format(NEWEST.folder), flush=True
    )
    try:
        return probe([str(unpacked.python())])
    except unpacked.UnpackError as error:
        print("setup: {0}; what needs {1} is skipped".format(error, NEWEST.folder), file=sys.stderr)
        return []


def unpacked_programs() -> List[str]:
    """Unpack Debian packages into the environment; where that fails, their tests say that they are skipped."""
    folder = Path(MAIN.folder) / "debian"
    try:
        return [str(folder)] if unpacked.programs(ROOT / folder) else []
    except unpacked.UnpackError as error:
        print("setup: {0}; its tests are skipped".format(error), file=sys.stderr)
        return []


def unpacked_launchers() -> List[str]:
    """Launchers of PyPI for the tests of pinning; where one cannot be had, the tests run those that are there."""
    lines = (REQUIREMENTS / "launchers.txt").read_text(encoding="utf-8").splitlines()
    done = []
    for wanted in [line for line in lines if line and not line.startswith("#")]:
        folder = Path(MAIN.folder) / wanted.replace("==", "-")
        if (ROOT / folder).exists():
            continue
        command = [str(ROOT / MAIN.folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--prefix", str(ROOT / folder), wanted]
        if subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode:
            shutil.rmtree(ROOT / folder, ignore_errors=True)
            print(
                "setup: {0}: pip failed (its words are above); its tests are left out".format(wanted), file=sys.stderr
            )
        else:
            done.append(str(folder))
    return done


def main() -> int:
    started = time.monotonic()
    done = []
    try:
        interpreters: Optional[List[Interpreter]] = None
        for choices in ((MAIN, MAIN_TOO_NEW), (NEWEST,)):
            if any(is_current(environment, fingerprint(environment)) for environment in choices):
                continue
            if interpreters is None:
                interpreters = probe(candidates())
            chosen = first_possible(choices, interpreters)
            if chosen is None and NEWEST in choices:
                chosen = first_possible(choices, unpacked_python())
            if chosen:
                environment, interpreter = chosen
                build(environment, interpreter, fingerprint(environment))
                done.append(environment.folder)
            elif NEWEST not in choices:
                raise SetupError("Python: none of 3.11 to 3.14 was found with its venv module; install one of them")
        done += unpacked_programs()
        done += unpacked_launchers()
        if make_link_tree(ROOT):
            done.append(str(LINK_TREE))
    except SetupError as error:
        print("setup: {0}.".format(error), file=sys.stderr)
        return 1
    if done:
        print("setup: ready after {0:.1f} s: {1}".format(time.monotonic() - started, ", ".join(done)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
