# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make quick`: what to run after each change, in two minutes on two cores.

Lint of the files that differ from the branch `main`, types, generated docs, and unit tests on one Python: first those
of the changed packages, then all others, the shortest first, as many as fit into the time. `make test` runs the rest.

The tests of a package are in the directory of the same name under `tests/unit`. `make durations` records how long each
test file took in the last `make unit`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import PurePosixPath
from typing import Dict, Iterable, List, Mapping, Sequence, Tuple

from .parts import LOGS, ROOT, Part
from .results import seconds_by_file

TESTS = "tests/unit"
#: Seconds of each test file that took a second or more, by its name, which is unique and survives a move.
DURATIONS = ROOT / "tests" / "durations.json"
#: A file without an entry there.
SHORT_SECONDS = 0.3
#: Of all tests together, on two workers.
BUDGET_SECONDS = 130.0
#: The parts of a test run that run each file once.
RECORDED = ("unit_library", "unit_tools", "unit_core_2_19")
#: Plugins that are one file each: their tests are named after them.
KINDS = ("action", "callback", "filter", "inventory", "lookup", "modules")
UNRELATED = 9


def changed() -> List[str]:
    """Paths that differ from `main`, or from the last commit where there is no such branch; also untracked ones."""
    base = _git("merge-base", "HEAD", "main") or ["HEAD"]
    known = _git("diff", "--name-only", "--diff-filter=d", base[0])
    return sorted({*known, *_git("ls-files", "--others", "--exclude-standard")})


def _git(*words: str) -> List[str]:
    done = subprocess.run(["git", *words], cwd=str(ROOT), capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def tests() -> List[str]:
    """The test files, relative to `tests/unit`. ansible-test runs those of inventory plugins."""
    found = (path.relative_to(ROOT / TESTS).as_posix() for path in (ROOT / TESTS).rglob("test_*.py"))
    return sorted(one for one in found if not one.startswith("plugins/inventory/"))


def directories(path: str) -> Tuple[str, ...]:
    """Pure. Where the tests of a changed file are, relative to `tests/unit`."""
    parts = PurePosixPath(path).parts
    if parts[0] == "roles" or (parts[:2] == ("plugins", "modules")):
        name = PurePosixPath(parts[-1]).stem if parts[0] == "plugins" else parts[1]
        return "plugins/module_utils/resources/" + name, "tools/" + name
    if parts[:2] == ("tests", "unit"):
        return ("/".join(parts[2:-1]),)
    if parts[0] == "plugins":
        return () if parts[1] in KINDS else ("/".join(parts[:-1]),)
    return ("/".join(parts[:2] if parts[0] == "tools" else parts[:1]),)


def plugin(path: str) -> str:
    """Pure. The plugin to which a changed file belongs: the module of a role and of a resource has their name."""
    parts = PurePosixPath(path).parts
    if parts[:3] == ("plugins", "module_utils", "resources") and len(parts) > 4:
        return parts[3]
    if parts[0] == "roles":
        return parts[1]
    return PurePosixPath(path).stem if parts[0] == "plugins" and parts[1] in KINDS else ""


def is_named_after(test: str, name: str) -> bool:
    stem = PurePosixPath(test).stem
    return bool(name) and (stem + "_").startswith("test_{0}_".format(name))


def distance(test: str, path: str) -> int:
    """Pure. How far a test file is from a changed file: 0 is the same file, ``UNRELATED`` the most."""
    if "{0}/{1}".format(TESTS, test) == path:
        return 0
    parts = PurePosixPath(test).parts
    if parts[0] == "plugins" and parts[1] in KINDS and is_named_after(test, plugin(path)):
        return 1
    directory, places = "/".join(parts[:-1]), directories(path)
    if directory in places:
        return 1 if is_named_after(test, PurePosixPath(path).stem) else 2
    return 3 if any(directory.startswith(one + "/") for one in places) else UNRELATED


def choose(paths: Sequence[str], known: Iterable[str], durations: Mapping[str, float]) -> List[str]:
    """Pure. The test files that fit into the time: the nearest first, and of these the shortest."""

    def order(test: str) -> Tuple[int, float]:
        nearest = min((distance(test, path) for path in paths), default=UNRELATED)
        return nearest, durations.get(PurePosixPath(test).stem, SHORT_SECONDS)

    chosen, left = [], BUDGET_SECONDS
    for test in sorted(known, key=order):
        near, seconds = order(test)
        if near == 0 or seconds <= left:
            chosen.append(test)
            left -= seconds
    return sorted(chosen)


def commands(paths: Sequence[str], chosen: Sequence[str]) -> Dict[str, List[str]]:
    """By the word for each."""
    files = [path for path in paths if path.endswith(".py")]
    pytest = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "tmp_path_retention_policy=failed"]
    workers = ["-n", str(max(2, os.cpu_count() or 2)), "--dist", "loadfile"]
    found = {
        "ruff": ["ruff", "check", *files],
        "format": ["ruff", "format", "--check", *files],
        "mypy": ["python", "-m", "tools.test_run.types_check"],
        "docs": ["python", "-m", "tools.docs", "--check"],
        "unit": [*pytest, *workers, *("{0}/{1}".format(TESTS, one) for one in chosen)],
    }
    return found if files else {name: found[name] for name in ("docs", "unit")}


def run(words_of: Mapping[str, Sequence[str]]) -> List[str]:
    """Run the commands side by side and show the output of each when it has ended; returns those that failed."""
    part = Part("quick", "quick", "unit", (), 600, in_memory=True)
    if part.has_memory():
        part.temporary().mkdir(mode=0o755)
    try:
        shown = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        children = {
            name: subprocess.Popen(words, cwd=str(ROOT), env=part.variables(), **(shown if name != "unit" else {}))  # type: ignore[call-overload]
            for name, words in words_of.items()
        }
        failed = []
        for name, child in children.items():
            output = child.communicate()[0]
            print("make quick: {0}\n{1}".format(name, output or ""), end="", flush=True)
            failed += [name] if child.returncode else []
        return failed
    finally:
        shutil.rmtree(part.temporary(), ignore_errors=True)


def record() -> int:
    """Write down the durations of the last run of all unit tests."""
    found = seconds_by_file(path for part in RECORDED for path in (LOGS / part).rglob("*.xml"))
    lines = ['  "{0}": {1:.0f}'.format(*one) for one in sorted(found.items()) if one[1] >= 1]
    DURATIONS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(
        "{0}: {1} of {2} test files took a second or more".format(DURATIONS.relative_to(ROOT), len(lines), len(found))
    )
    return 0


def main() -> int:
    if sys.argv[1:] == ["--record"]:
        return record()
    paths, known, started = changed(), tests(), time.monotonic()
    chosen = choose(paths, known, json.loads(DURATIONS.read_text(encoding="utf-8")))
    failed = run(commands(paths, chosen))
    print("make quick: {0} changed file(s), {1:.0f} s".format(len(paths), time.monotonic() - started))
    left = [test for test in known if test not in chosen]
    near = [test for test in left if any(distance(test, path) < UNRELATED for path in paths)]
    print("left to make test: {0} test files, guests, sanity, other versions".format(len(left)))
    if near:
        print("of what you changed: " + " ".join("{0}/{1}".format(TESTS, test) for test in near))
    if failed:
        print("failed: " + ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
