# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that is installed on a node runs each command, hook and check, with each Python that nodes may have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Dict, List, Mapping, Sequence

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import exit_status, main
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.node_runtime.archive_node import (
    COPIED,
    INSTALLED,
    Answer,
    Command,
    Node,
    pythons,
)

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import zipapp

PYTHONS = pythons()
if not PYTHONS:
    pytest.skip("needs a Python that is not below /usr/local", allow_module_level=True)
OLDEST, NEWEST = list(PYTHONS)[0], list(PYTHONS)[-1]
DOCUMENTED = {value for name, value in vars(exit_status).items() if name.isupper()} - {exit_status.WRONG_USE}
JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": "0", "SLURM_JOB_GPUS": "0,1", "SLURMD_NODENAME": "gpu01"}
MODULE = json.dumps({"arguments": {"state": "present"}, "check_mode": False, "profile": None})
WISH = "/root/wish.json"
# Each command, in the order of a run: its words behind its name.
WORDS: Dict[str, Sequence[str]] = {
    "help": ("clocks max",),
    "info": ("",),
    "topo": ("--draw", "--svg"),
    "scratch": ("status",),
    "clocks list": ("",),
    "clocks max": ("",),
    "clocks set": ("--graphics 1005",),
    "clocks reset": ("",),
    "mig list": ("",),
    "mig profiles": ("",),
    "mig plan": ("3g+2x2g",),
    "pin": ("--ranks 8 --launcher srun",),
    "pin check": ("nothing-of-this-name",),
    "share advise": ("--seconds 2",),
    "timeline": ("/root/timeline.json",),
    "board": ("--logdir /root --program /none",),
    "metrics": ("", "write"),
    "labels": ("",),
    "image": ("",),
    "checkpoint plan": ("--bytes 800G",),
    "checkpoint put": ("step-1 /root/timeline.json --dry-run --to https://store.example/c",),
    "checkpoint get": ("step-1 /root/got --dry-run --to https://store.example/c",),
    "checkpoint list": ("--to https://store.example/c",),
    "profile suggest": ("",),
    "health": ("--active --json", "--list"),
    "declaration": ("check " + WISH,),
    "converge": ("--declaration " + WISH,),
    "apply": ("",),
    "hook prolog": ("",),
    "hook epilog": ("",),
    "hook health": ("",),
    "hook proof": ("",),
    "hook resume": ("",),
    "boot": ("status",),
    "lease": ("status",),
    "events": ("once",),
    "remedy": ("--check",),
    "remedy status": ("",),
    "remedy release": ("--by me",),
    "history": ("",),
    "diagnose": ("-o /root/out.tar.gz --without bug_report --without verdict --timeout 60",),
    "cleanup": ("",),
    "reset": ("--check",),
    "undo": ("--yes",),
}
# An installation writes the pages of people's shells; a converge what its resources own.
OWNED = ("etc/gpu_node/", "etc/systemd/", "etc/fish/", "opt/gpu_node/", "run/gpu_node/", "var/lib/gpu_node/", "local/")
WRITTEN = ("root/out.tar.gz",)
IMPORT_ALL = """
import importlib, io, sys, zipfile, zipimport
sys.path.insert(0, sys.argv[1])
archive = zipfile.ZipFile(sys.argv[1])
if "library.pyz" in archive.namelist():  # installed: its __main__ makes the library importable
    begin = zipimport.zipimporter(sys.argv[1])
    exec(begin.get_source("__main__").partition("from gpu_node.command")[0], {"__loader__": begin})
    archive = zipfile.ZipFile(io.BytesIO(archive.read("library.pyz")))
names = [name for name in archive.namelist() if name.startswith("gpu_node/")]
assert len(names) > 500
for name in names:
    if name.endswith(".py"):
        importlib.import_module(name[:-3].replace("/", ".").replace(".__init__", ""))
"""


@pytest.fixture(scope="module")
def archive() -> bytes:
    return zipapp.build()


@pytest.fixture
def node(request: pytest.FixtureRequest, nvml_simulator, tmp_path: Path, archive: bytes) -> Node:
    made = Node(tmp_path / "node", PYTHONS[request.param], archive, nvml_simulator("nd96asr_v4", "gpu.count=2"))
    made.write("root/timeline.json", (Path(__file__).parents[4] / "data/timeline/horovod_0.28.1_mpi.json").read_text())
    made.write(WISH, json.dumps({"health_gate": {"timer": False}, "gpu_settings": {}, "node_profile": {}}))
    return made


def install(node: Node) -> Command:
    """As Ansible's modules do it."""
    return Command([node.python, "-I", COPIED, "module", "node_runtime"], MODULE)


def import_all(python: str, path: str) -> Command:
    return Command([python, "-I", "-W", "error", "-c", IMPORT_ALL, path])


def faults(answers: Sequence[Answer]) -> List[str]:
    found = [answer.fault() for answer in answers]
    found += [
        "{0}: status {1}: {2}{3}".format(answer.words, answer.status, answer.out[-500:], answer.error[-500:])
        for answer in answers
        if answer.status not in DOCUMENTED
    ]
    return [one for one in found if one]


def commands(program: Sequence[str], names: Sequence[str] = tuple(WORDS)) -> List[Command]:
    return [
        Command([*program, *name.split(), *words.split()], environment=JOB) for name in names for words in WORDS[name]
    ]


def stray(node: Node, before: Mapping[str, str]) -> List[str]:
    """What was written elsewhere."""
    after = node.files()
    changed = [path for path in {*before, *after} if before.get(path) != after.get(path)]
    return sorted(path for path in changed if not (path + "/").startswith(OWNED) and path not in WRITTEN)


def test_the_table_has_every_command_of_the_parser() -> None:
    parsers = {one.prog.partition(" ")[2]: one for one in main.every(main.parser())}
    known = {name for name, one in parsers.items() if one.commands() is None or not one.commands().required}
    assert known - {"module"} == set(WORDS)


@pytest.mark.parametrize(
    "node",
    [OLDEST, *(pytest.param(one, marks=pytest.mark.soak) for one in PYTHONS if one != OLDEST)],
    indirect=True,
)
def test_the_installed_file_runs_every_command_and_hook_and_writes_only_its_own_files(node: Node) -> None:
    before = node.files()
    assert faults(node.run([install(node), *commands(["gpunode"])])) == []
    assert stray(node, before) == []


@pytest.mark.parametrize("node", [NEWEST], indirect=True)
def test_the_newest_python_runs_the_main_commands(node: Node) -> None:
    words = (*commands(["gpunode"], ("health", "hook prolog")), Command(["gpunode", "health", "--quick"]))
    assert faults(node.run([install(node), import_all(node.python, INSTALLED), *words])) == []


@pytest.mark.parametrize("node", [OLDEST], indirect=True)
def test_each_python_imports_every_file_of_the_archive_without_a_warning(node: Node) -> None:
    """From source: without bytecode, or with that of another Python."""
    for python in PYTHONS.values():
        if python != PYTHONS[NEWEST]:
            node.python = python
            assert faults(node.run([import_all(python, COPIED)])) == []


@pytest.mark.soak
@pytest.mark.parametrize("node", PYTHONS, indirect=True)
def test_the_controllers_file_runs_every_command_without_bytecode(node: Node) -> None:
    assert faults(node.run(commands([node.python, "-I", COPIED]))) == []


@pytest.mark.soak
@pytest.mark.parametrize("node", PYTHONS, indirect=True)
def test_each_check_runs_alone_at_each_level(node: Node) -> None:
    words = [
        ["gpunode", "health", *option, "--only", check.id, "--json"]
        for level, option in ((Cost.QUICK, ["--quick"]), (Cost.PASSIVE, []), (Cost.ACTIVE, ["--active"]))
        for check in registry.checks(level)
    ]
    assert faults(node.run([install(node), *(Command(one, environment=JOB) for one in words)])) == []
