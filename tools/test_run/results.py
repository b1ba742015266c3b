# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts what a part did: from the JUnit files it wrote, or as one test when it writes none."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Tuple
from xml.etree import ElementTree

# Of a failure's message in the summary; the part's log has all of it.
LONGEST_REASON = 400
# The first words of a failure's message when the kernel of a virtual node had crashed before it.
KERNEL_CRASHED = "(the kernel of "


@dataclasses.dataclass(frozen=True)
class Count:
    """Numbers of one part; the skipped and failed tests by name with the reason."""

    passed: int = 0
    failed: Tuple[str, ...] = ()
    skipped: Tuple[Tuple[str, str], ...] = ()

    def __add__(self, other: Count) -> Count:
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


def closing_line(count: Count) -> str:
    """The last line of a run."""
    line = "{0} passed, {1} failed".format(count.passed, len(count.failed))
    if count.skipped:
        line += ", {0} skipped".format(len(count.skipped))
    return line


def count_junit(paths: Iterable[Path]) -> Count:
    """Add up the test cases of JUnit files; one that cannot be read (a killed run leaves such) counts as a failure."""
    total = Count()
    for path in sorted(paths):
        try:
            root = ElementTree.parse(str(path)).getroot()
        except (ElementTree.ParseError, OSError) as error:
            total += Count(failed=("{0} cannot be read: {1}".format(path.name, error),))
            continue
        for case in root.iter("testcase"):
            total += count_case(case)
    return total


def count_case(case: ElementTree.Element) -> Count:
    name = "::".join(part for part in (case.get("classname"), case.get("name")) if part)
    for kind in ("failure", "error"):
        bad = case.find(kind)
        if bad is not None:
            why = " ".join((bad.get("message") or "").split())
            return Count(failed=(name + (": " + why[:LONGEST_REASON] if why else ""),))
    skipped = case.find("skipped")
    if skipped is not None:
        reason = (skipped.get("message") or skipped.text or "no reason given").strip()
        return Count(skipped=((name, " ".join(reason.split())),))
    return Count(passed=1)


def count_part(name: str, status: int, junit: bool, folder: Path) -> Count:
    """What a part that ended with this status did. A part that should have run tests and ran none has failed."""
    if not junit:
        return Count(passed=1) if status == 0 else Count(failed=(name,))
    count = count_junit(folder.glob("**/*.xml"))
    if status == 0 and not (count.passed or count.failed or count.skipped):
        return Count(failed=(name + ": ended well but ran no test",))
    if status != 0 and not count.failed:
        return count + Count(failed=("{0}: ended with status {1}".format(name, status),))
    return count


def take_crashed_files(path: Path) -> List[str]:
    """Remove the test files in which a kernel of a virtual node crashed from a JUnit file of end-to-end tests.

    Returns their paths below the clone, as pytest takes them.
    """
    try:
        tree = ElementTree.parse(str(path))
    except (ElementTree.ParseError, OSError):
        return []
    crashed = {
        case.get("classname") or ""
        for case in tree.getroot().iter("testcase")
        for bad in (*case.iter("failure"), *case.iter("error"))
        if (bad.get("message") or "").startswith(KERNEL_CRASHED)
    }
    for suite in tree.getroot().iter("testsuite"):
        for case in [one for one in suite.findall("testcase") if one.get("classname") in crashed]:
            suite.remove(case)
    if crashed:
        tree.write(str(path))
    return sorted(name.replace(".", "/") + ".py" for name in crashed)


def _cases(paths: Iterable[Path]) -> Iterator[Tuple[ElementTree.Element, float]]:
    """The test cases of JUnit files with their seconds."""
    for path in paths:
        try:
            cases = list(ElementTree.parse(str(path)).getroot().iter("testcase"))
        except (ElementTree.ParseError, OSError):
            continue  # counted as a failure already
        yield from ((case, float(case.get("time") or 0)) for case in cases)


def slowest(folders: Iterable[Path], number: int) -> List[str]:
    """The tests that took longest, as "name seconds", out of the JUnit files of parts."""
    paths = (path for folder in folders for path in folder.glob("**/*.xml"))
    found = sorted(((seconds, case.get("name") or "") for case, seconds in _cases(paths)), reverse=True)
    return ["{0} {1:.0f} s".format(name, seconds) for seconds, name in found[:number]]


def seconds_by_file(paths: Iterable[Path]) -> Dict[str, float]:
    """The seconds of each test file, by its name without suffix, out of JUnit files."""
    found: Dict[str, float] = {}
    for case, seconds in _cases(paths):
        names = [part for part in (case.get("classname") or "").split(".") if part.startswith("test_")]
        if names:
            found[names[-1]] = found.get(names[-1], 0.0) + seconds
    return found


def group_skips(skipped: Iterable[Tuple[str, str]]) -> List[str]:
    """One line for each reason, with how many tests it skipped."""
    reasons: List[str] = []
    names: List[List[str]] = []
    for name, reason in skipped:
        if reason not in reasons:
            reasons.append(reason)
            names.append([])
        names[reasons.index(reason)].append(name)
    return [
        "{0} x {1} ({2})".format(len(which), reason, which[0] + (", ..." if len(which) > 1 else ""))
        for reason, which in zip(reasons, names)
    ]
