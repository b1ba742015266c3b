# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make test` and `make soak` run: one table of parts, read top to bottom.

A part is one command with its own log. Parts of one lane run one after the other; lanes run side by side. A part
counts its tests by the JUnit files it writes, or as one test when it writes none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "build" / "test"
BYTECODE = ROOT / "build" / "bytecode"
# A file system in memory, and what has to be free there.
MEMORY = Path("/dev/shm")  # noqa: S108
MEMORY_BYTES = 1024**3

MAIN = ".venv"
NEWEST = ".venv-newest"
PYTEST = ("{python}", "-m", "pytest", "-v", "-p", "no:cacheprovider", "--junit-xml={junit}")
# The files of a test that passed go with it.
UNIT = (*PYTEST, "-o", "tmp_path_retention_policy=failed")
MAKE_VARIABLES = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
NO_NEWEST = "there is no Python 3.12 or newer for the newest ansible-core (" + NEWEST + ")"

# Lint says first what it finds; then the longest lanes: with fewer slots than lanes, the short ones fill the gaps.
LANES = (
    *("lint", "scratch", "trixie", "converge", "library", "tools", "sanity", "unit"),
    # Short ones, so that no slot is empty for long at the end.
    *("sanity_newest", "unit_newest"),
    *("soak_cuts", "soak_faults", "soak_slurm", "soak_comm", "soak_long", "soak_kubernetes", "soak_life"),
)
# The group that is run by its name alone.
SOAK = "soak"


@dataclasses.dataclass(frozen=True)
class Part:
    """One command of the test run."""

    name: str
    group: str
    lane: str
    command: Tuple[str, ...]
    timeout_seconds: int
    environment: str = MAIN
    # Used where `environment` does not exist; without one the part is skipped, with the reason in the summary.
    fallback: Optional[str] = None
    # The command writes JUnit files into the part's folder ({junit}).
    junit: bool = False
    # Without this path there is nothing to run yet, which the summary says.
    needs: Optional[str] = None
    # The command starts virtual nodes, which are taken down when it has ended, however it ended.
    nodes: bool = False
    # Its temporary files are in memory: tests have the library flush thousands of them to disk, one by one.
    in_memory: bool = False

    def folder(self) -> Path:
        return LOGS / self.name

    def log(self) -> Path:
        return LOGS / (self.name + ".log")

    def temporary(self) -> Path:
        """Its folder for temporary files, which there is where it wants one in memory and memory has it."""
        return MEMORY / "{0}-{1}".format(self.name, os.getpid())

    def has_memory(self) -> bool:
        """Room for it, and programs in it may be started."""
        with contextlib.suppress(OSError):
            told = os.statvfs(str(MEMORY))
            return told.f_bavail * told.f_frsize > MEMORY_BYTES and not told.f_flag & os.ST_NOEXEC
        return False

    def chosen_environment(self) -> Optional[str]:
        for name in (self.environment, self.fallback):
            if name and (ROOT / name / "bin" / "python").exists():
                return name
        return None

    def reason_to_skip(self) -> Optional[str]:
        if self.chosen_environment() is None:
            return NO_NEWEST
        if self.needs and not (ROOT / self.needs).exists():
            return "{0} does not exist".format(self.needs)
        return None

    def arguments(self) -> List[str]:
        """The command with the names in braces filled in."""
        names = {"python": "python", "junit": str(self.folder() / "junit.xml"), "folder": str(self.folder())}
        return [word.format(**names) for word in self.command]

    def variables(self) -> Dict[str, str]:
        """The environment variables of the command: the chosen Python first, and no Ansible setting of the user's."""
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "MOLECULE_"))
        }
        for name in ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", *MAKE_VARIABLES):
            variables.pop(name, None)
        bin_folder = ROOT / (self.chosen_environment() or MAIN) / "bin"
        variables["PATH"] = os.pathsep.join([str(bin_folder), variables.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
        variables["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / ".collections")
        variables["PYTHONUNBUFFERED"] = "1"
        # Hundreds of processes import the same modules; their bytecode is kept, but not among the clone's files.
        variables["PYTHONPYCACHEPREFIX"] = str(BYTECODE)
        # Logs are read in a pager and by the summary.
        variables.update(NO_COLOR="1", ANSIBLE_NOCOLOR="1", PY_COLORS="0", TERM="dumb", COLUMNS="140")
        if self.temporary().is_dir():
            variables["TMPDIR"] = str(self.temporary())
        # Nodes carry the name of the part that started them, so that these and no others are ended with it.
        variables["VIRTUAL_NODE_RUN"] = "{0}-{1}".format(self.name.replace("_", "-"), os.getpid())
        return variables


def static(name: str, *command: str, timeout_seconds: int = 300, needs: Optional[str] = None) -> Part:
    return Part(name, "lint", "lint", command, timeout_seconds, needs=needs)


def ansible_test(kind: str, label: str, environment: str) -> Part:
    group = {"sanity": "sanity", "units": "unit"}[kind]
    command = ("{python}", "-m", "tools.test_run.ansible_test", kind, "{folder}")
    name = "{0}_{1}".format(group, label)
    lane = name if environment == NEWEST else group
    return Part(name, group, lane, command, 3600, environment=environment, junit=True)


def e2e(lane: str, suite: str, environment: str, *tests: str) -> Part:
    """Files of end-to-end tests without those that are for `make soak`."""
    files = tuple("tests/e2e/test_{0}.py".format(name) for name in tests)
    command = PYTEST + files + ("-m", "not soak", "--suite", suite)
    needs = "tests/e2e/conftest.py"
    return Part("e2e_" + lane, "e2e", lane, command, 3600, environment, MAIN, junit=True, nodes=True, needs=needs)


def soak(name: str, lane: str, *command: str, timeout_seconds: int = 5400) -> Part:
    return Part("soak_" + name, SOAK, "soak_" + lane, command, timeout_seconds, junit=True, nodes=True)


def soak_e2e(name: str, lane: str, *tests: str, suite: str = "bookworm", marked: bool = True) -> Part:
    """Files of end-to-end tests: what `make test` leaves out of them, or all of it."""
    files = tuple("tests/e2e/test_{0}.py".format(test) for test in tests)
    return soak(name, lane, *PYTEST, *files, *(("-m", "soak") if marked else ()), "--suite", suite)


def image(suite: str, lane: str) -> Part:
    """The guest image as a part of its own, so that its time is seen, and not charged to the first test."""
    tool = "tools/virtual_node/virtual_node"
    return Part("image_" + suite, "image", lane, (tool, "image", "--suite", suite), 1200, needs=tool)


LIBRARY = ("tests/unit/plugins/module_utils", "tests/unit/plugins/modules")
TOOLS = ("tests/unit/tools", "tests/unit/playbooks", "tests/unit/deploy")
MOLECULE = ("{python}", "-m", "tools.test_run.molecule", "{folder}")

PARTS: Tuple[Part, ...] = (
    # Looks at the files without running them.
    static("ruff", "ruff", "check", "."),
    static("format", "ruff", "format", "--check", "."),
    static("mypy", "{python}", "-m", "tools.test_run.types_check"),
    static("ansible_lint", "ansible-lint", "--offline", "--strict", timeout_seconds=600),
    static("shellcheck", "{python}", "-m", "tools.test_run.shell_check"),
    static("changelog", "antsibull-changelog", "lint"),
    static("docs", "{python}", "-m", "tools.docs", "--check"),
    static("collection", "{python}", "-m", "tools.test_run.collection"),
    # The library and the tools import nothing of Ansible, and modules and plays are run as commands, so plain pytest
    # runs their tests: ansible-test forks for each one. Half of the library's time is waiting, so two share it.
    Part(
        "unit_library",
        "unit",
        "library",
        (*UNIT, "-n", "2", "--dist", "loadfile", *LIBRARY),
        3600,
        junit=True,
        in_memory=True,
    ),
    Part("unit_tools", "unit", "tools", UNIT + TOOLS, 3600, junit=True, in_memory=True),
    # What meets Ansible, on both ends of the supported ansible-core.
    ansible_test("units", "core_2_19", MAIN),
    ansible_test("units", "newest", NEWEST),
    ansible_test("sanity", "core_2_19", MAIN),
    ansible_test("sanity", "newest", NEWEST),
    Part(
        "hardware",
        "hardware",
        "sanity",
        PYTEST + ("tests/hardware",),
        600,
        junit=True,
        needs="tests/hardware/conftest.py",
    ),
    # Real machines, virtual ones. The newest core converges Debian 13; Debian 12 converges itself from the bundle, and
    # jobs of a real Slurm run there. `make soak` has the other way round, and each role by itself (Molecule).
    image("bookworm", "scratch"),
    e2e("scratch", "bookworm", MAIN, "scratch_faults"),
    image("trixie", "trixie"),
    e2e("trixie", "trixie", NEWEST, "lifecycle", "health"),
    e2e("converge", "bookworm", MAIN, "bundle"),
    # Real slurmctld and slurmd of both Debian suites without a virtual machine, so it takes a minute.
    Part(
        "real_slurm",
        "e2e",
        "converge",
        (*PYTEST, "tests/real_slurm", "-m", "not soak"),
        1200,
        junit=True,
        needs="tests/real_slurm/conftest.py",
    ),
    # What takes too long for each test run: whole lives of a node, further faults, fleets, kills and cuts at random.
    soak_e2e("lifecycle", "life", "lifecycle", marked=False),
    soak_e2e("lifecycle_trixie", "life", "lifecycle", suite="trixie", marked=False),
    soak_e2e("bundle", "life", "bundle", "cluster_init", marked=False),
    soak_e2e("scratch", "faults", "scratch_faults"),
    soak_e2e("faults", "faults", "gpu_faults", "gpu_metrics", "health"),
    soak_e2e("virtual_node", "faults", "virtual_node", marked=False),
    soak_e2e(
        "slurm",
        "slurm",
        "slurm",
        "cluster",
        "job_needs",
        "slurm_cloud",
        "cloud_events",
        "slurm_fleet",
        "slurm_return",
        "rolling",
    ),
    soak("real_slurm", "slurm", *PYTEST, "tests/real_slurm", "-m", "soak"),
    # Its first run compiles kube-apiserver: 6.5 minutes of both cores, kept in the cache.
    soak("real_kubernetes", "kubernetes", *PYTEST, "tests/real_kubernetes"),
    soak_e2e("mig", "slurm", "mig_slurm", marked=False),
    soak_e2e("comm", "comm", "comm"),
    soak("molecule", "comm", *MOLECULE),
    soak("cuts", "cuts", *PYTEST, "tests/soak/test_power_cuts.py", "tests/soak/test_reboots.py"),
    soak("fleet", "long", *PYTEST, "tests/soak/test_fleet.py"),
    soak("properties", "long", *UNIT, "--hypothesis-profile", "thorough", *LIBRARY, *TOOLS),
    soak("sanity", "long", "{python}", "-m", "tools.test_run.ansible_test", "sanity_all", "{folder}"),
    soak("planners", "long", *PYTEST, "tests/soak/test_planners.py", "tests/soak/test_soak_health.py"),
    # The dashboards over a real Prometheus; npm installs Grafana's components once (600 MB, in the user's cache).
    soak("boards", "long", *PYTEST, "tests/soak/test_board_pictures.py", timeout_seconds=1800),
    soak("deepspeed", "long", *PYTEST, "tests/soak/test_deepspeed.py"),
    soak("mig_planner", "long", *PYTEST, "-s", "tests/soak/test_mig_transitions.py"),
)


def select(words: Sequence[str], parts: Sequence[Part] = PARTS) -> List[Part]:
    """The parts that the words name, by name or group, in the table's order; no word means all of `make test`."""
    known = {part.name for part in parts} | {part.group for part in parts}
    unknown = [word for word in words if word not in known]
    if unknown:
        raise ValueError(
            "no part or group is called {0}; there are: {1}".format(", ".join(unknown), ", ".join(sorted(known)))
        )
    return [part for part in parts if {part.name, part.group} & set(words) or not words and part.group != SOAK]
