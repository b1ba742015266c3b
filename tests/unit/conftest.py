# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures for all unit tests: machines with simulated GPUs.

``nvml_simulator(machine)`` gives a :class:`Simulator`; NVIDIA's own binding reads it in every process that is started
with its ``env``. A process loads the library once, so tests look at it from processes of their own.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, Iterator, List

import pytest
from hypothesis import HealthCheck, settings

from ansible_collections.trainyard.gpu_node.tests.unit import forked

# How long an input takes says nothing about it on a machine that runs guests beside the unit tests.
# `make soak` tries more examples of each property.
settings.register_profile("thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("busy_machine", settings.get_profile("thorough"), max_examples=25)
settings.load_profile("busy_machine")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "sampled(number): `make test` runs this many of its parameter sets; `make soak` runs all of them"
    )
    config.addinivalue_line("markers", "soak: is long; `make soak` runs it, `make test` leaves it out")


def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    """Leave out what is for `make soak`: long tests, and of each sampled test all but the given number of parameter
    sets, evenly spread, with the first and the last one."""
    if config.getoption("--hypothesis-profile", None) == "thorough":
        return
    groups: Dict[str, List[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out = {item.nodeid for item in items if item.get_closest_marker("soak")}
    for group in groups.values():
        number = min(group[0].get_closest_marker("sampled").args[0], len(group))  # type: ignore[union-attr]
        kept = {round(place * (len(group) - 1) / max(number - 1, 1)) for place in range(number)}
        left_out.update(item.nodeid for place, item in enumerate(group) if place not in kept)
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]


@pytest.fixture(scope="module")
def kept_bytecode() -> Iterator[None]:
    """For tests that start plays: processes of this module keep the bytecode that Ansible compiles, and use it."""
    tests = pathlib.Path(__file__).resolve().parents[1]
    folder = pathlib.Path(sys.pycache_prefix or str(tests / "output")) / "kept"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tests / "unit/kept_bytecode"), prepend=os.pathsep)
        patch.setenv("KEPT_BYTECODE", str(folder))
        yield


SOURCE = pathlib.Path(__file__).resolve().parents[2] / "tools" / "nvml_simulator"


class Simulator:
    """One simulated machine, in a folder of its own."""

    def __init__(self, built: pathlib.Path, state: pathlib.Path) -> None:
        self.built = built
        self.state = state
        self.library = built / "libnvidia-ml.so.1"
        #: What a process needs in its environment, from its start on, to see this machine.
        self.env: Dict[str, str] = {"LD_LIBRARY_PATH": str(built), "NVML_SIMULATOR_STATE": str(state)}

    def control(self, *arguments: str, check: bool = True, **environment: str) -> str:
        """Run ``nvml-simulator`` and return what it printed.

        :raises AssertionError: with its own words, when it refuses.
        """
        done = self.run_control(*arguments, **environment)
        assert done.returncode == 0 or not check, "nvml-simulator {0}: {1}".format(" ".join(arguments), done.stderr)
        return done.stdout

    def run_control(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(self.built / "nvml-simulator"), *arguments],
            env=self.environment(**environment),
            capture_output=True,
            timeout=30,
            text=True,
            check=False,
        )

    def environment(self, **more: str) -> Dict[str, str]:
        """The whole environment of a process on this machine, with this interpreter's module path."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NVML_SIMULATOR_")}
        return dict(kept, PYTHONPATH=os.pathsep.join(path for path in sys.path if path), **dict(self.env, **more))

    def start(self, code: str, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        """Start ``code`` in a Python process on this machine; it has ``sys.argv[1:]``."""
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            env=self.environment(**environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def python(self, code: str, *arguments: str, timeout: float = 60, **environment: str) -> Any:
        """Run ``code`` in a fork (forked.py) on this machine and return the JSON document that it prints.

        :raises AssertionError: with its error output, when it fails.
        """
        done = forked.run(
            [sys.executable, "-c", code, *arguments],
            env=self.environment(**environment),
            timeout=timeout,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    def preloaded(self, code: str, *arguments: str, timeout: float = 60, **environment: str) -> Any:
        """In a new interpreter the library is loaded by its path first and then found by its SONAME.

        This is how code that forks workers sees the simulator in a process whose environment was not prepared.
        """
        first = "import ctypes; ctypes.CDLL({0!r}, mode=ctypes.RTLD_GLOBAL)\n".format(str(self.library))
        process = self.start(first + code, *arguments, **dict(environment, LD_LIBRARY_PATH=""))
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        assert process.returncode == 0, errors
        return json.loads(output) if output.strip() else None


def source_digest() -> str:
    """A name for the simulator's source as it is now."""
    digest = hashlib.sha256()
    for path in sorted(path for path in SOURCE.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(SOURCE)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


@pytest.fixture(scope="session")
def nvml_simulator_built() -> pathlib.Path:
    """The folder with the library and the control program, compiled once for each state of the source.

    Kept in the user's cache: ansible-test runs each test in a process of its own, which would compile it each time.
    """
    compiler = os.environ.get("CC") or next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    if compiler is None or shutil.which("make") is None:
        pytest.skip("the NVML simulator needs a C compiler and make: install gcc and make")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or str(pathlib.Path.home() / ".cache"))
    folder = cache / "trainyard-gpu-node" / "nvml_simulator"
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()  # the control program compares paths with its own
    built = folder / source_digest()
    with open(str(folder / "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.is_dir():
            with tempfile.TemporaryDirectory(dir=str(folder)) as half:
                done = subprocess.run(
                    ["make", "--silent", "-j2", "-C", str(SOURCE), "OUT={0}".format(half), "CC={0}".format(compiler)],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, done.stdout
                os.chmod(half, 0o755)
                shutil.copytree(half, str(built) + ".new", dirs_exist_ok=True)
            os.replace(str(built) + ".new", str(built))
    return built


@pytest.fixture(scope="session")
def nvml_simulator(
    nvml_simulator_built: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Simulator]:
    """A function that makes machines: ``nvml_simulator("nd96asr_v4", "gpu.count=4")``."""

    def make(machine: str = "nd96asr_v4", *settings: str) -> Simulator:
        simulator = Simulator(nvml_simulator_built, tmp_path_factory.mktemp(machine.replace("/", "_")))
        options = [word for setting in settings for word in ("--set", setting)]
        simulator.control("init", machine, *options)
        return simulator

    return make
