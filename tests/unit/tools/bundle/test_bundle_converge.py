# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program `converge` of a bundle, under the real paths of a machine; the node command only notes how it was run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict, Tuple

import pytest

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import zipapp
from ansible_collections.trainyard.gpu_node.tests.unit.tools.cluster_init.cluster_init_machine import Machine
from ansible_collections.trainyard.gpu_node.tools.bundle import __main__ as bundle

COMMAND = b"""
import json, os, sys
told = {"words": sys.argv[1:], "environment": dict(os.environ), "umask": os.umask(0), "folder": os.getcwd()}
told["flags"] = [sys.flags.isolated, sys.dont_write_bytecode]
json.dump(told, open("/ran", "w"))
sys.exit(int(open("/answer").read()) if os.path.exists("/answer") else 0)
"""
CALL = "import subprocess, sys\nsys.exit(subprocess.call(sys.argv[1:]))\n"
DECLARATION = {"rdma": {}}


class Unpacked(Machine):
    """A machine with a bundle in /bundle. /programs comes first in the PATH of `converge`."""

    def __init__(self, root: Path, files: Dict[str, bytes]) -> None:
        super().__init__(root)
        self.write("runner.py", CALL)
        files = dict(files, converge=files["converge"].replace(b"\nPATH=", b"\nPATH=/programs:", 1))
        files.pop("SHA256SUMS")
        for name, content in files.items():
            path = root / "bundle" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        (root / "bundle" / "converge").chmod(0o755)
        self.sum()

    def sum(self) -> None:
        folder = self.root / "bundle"
        (folder / "SHA256SUMS").unlink(missing_ok=True)
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        done = subprocess.run(["sha256sum", *names], cwd=str(folder), capture_output=True, check=True)
        (folder / "SHA256SUMS").write_bytes(done.stdout)

    def run(self, *words: str, before: Tuple[str, ...] = (), folder: str = "/") -> Tuple[int, str]:
        (self.root / "ran").unlink(missing_ok=True)
        script = 'cd "$1" && shift && exec "$@"'
        done = self.runner("sh", "-c", script, "sh", folder, "env", *before, "/bundle/converge", *words)
        return done.returncode, done.stdout + done.stderr

    def ran(self) -> Dict[str, Any]:
        return dict(json.loads(self.read("ran") or "{}"))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Unpacked:
    monkeypatch.setattr(zipapp, "build", lambda: COMMAND)
    for name, text in (("node.json", json.dumps(DECLARATION)), ("hpcx.tbz", "hpcx"), ("enroot.deb", "enroot")):
        (tmp_path / name).write_text(text)
    files = bundle.contents(tmp_path / "node.json", [tmp_path / "hpcx.tbz", tmp_path / "enroot.deb"])
    return Unpacked(tmp_path / "root", files)


def artefacts(machine: Machine) -> Dict[str, str]:
    return {path.name: path.read_text() for path in (machine.root / "opt/gpu_node/artefacts").glob("*")}


def test_the_node_command_is_run_with_the_words_and_its_status_is_that_of_all(machine: Unpacked) -> None:
    assert machine.run("--install", "--only", "a b") == (0, "")
    ran = machine.ran()
    assert ran["words"] == ["converge", "--declaration", "/bundle/declaration.json", "--install", "--only", "a b"]
    assert ran["flags"] == [1, True] and ran["umask"] == 0o022
    assert artefacts(machine) == {"hpcx.tbz": "hpcx", "enroot.deb": "enroot"}
    machine.write("answer", "75")
    assert machine.run()[0] == 75


def test_nothing_of_whoever_starts_it_reaches_the_node_command(machine: Unpacked) -> None:
    names = ("PYTHONPATH", "PYTHONHOME", "ANSIBLE_LIBRARY", "LD_PRELOAD", "BASH_ENV", "HOME", "PATH")
    given = tuple("{0}=/home/evil".format(name) for name in names if name not in ("PATH", "LD_PRELOAD"))
    machine.run(before=(*given, "PATH=/home/evil:/usr/bin:/bin", "SUDO_UID=1000", "JOURNAL_STREAM=8:1"))
    environment = machine.ran()["environment"]
    assert not [text for text in environment.values() if "evil" in text]
    assert set(environment) - {"LC_CTYPE"} == {"PATH", "HOME", "SUDO_UID", "JOURNAL_STREAM"}
    machine.run()
    assert set(machine.ran()["environment"]) - {"LC_CTYPE"} == {"PATH", "HOME"}


@pytest.mark.parametrize("name", ["converge", "gpunode.pyz", "version", "declaration.json", "artefacts/hpcx.tbz"])
def test_a_changed_byte_is_refused_and_named_before_anything_runs(machine: Unpacked, name: str) -> None:
    content = bytearray((machine.root / "bundle" / name).read_bytes())
    content[-1] ^= 1
    (machine.root / "bundle" / name).write_bytes(bytes(content))
    status, told = machine.run("--install")
    assert status == 2 and told.startswith("refused: /bundle: {0}: FAILED".format(name)), told
    assert "copy the bundle here again" in told
    assert not machine.ran() and artefacts(machine) == {}


def test_what_is_missing_or_too_much_is_refused_and_named(machine: Unpacked, tmp_path: Path) -> None:
    folder = machine.root / "bundle"
    (folder / "version").rename(tmp_path / "version")
    status, told = machine.run()
    assert status == 2 and "version: FAILED" in told
    machine.sum()  # of what is left
    assert machine.run() == (2, "refused: /bundle: version is missing; {0}".format(told.split("; ", 1)[1]))
    (tmp_path / "version").rename(folder / "version")
    machine.sum()
    (folder / "more").mkdir()
    assert machine.run()[0] == 0
    (folder / "more" / "x.deb").write_text("x")
    status, told = machine.run()
    assert status == 2 and "more/x.deb does not belong to it" in told and not machine.ran()
    shutil.rmtree(str(folder / "more"))
    (folder / "sitecustomize.py").symlink_to("/etc/passwd")
    assert "sitecustomize.py does not belong to it" in machine.run()[1] and not machine.ran()


def test_a_link_in_the_place_of_a_file_is_refused(machine: Unpacked) -> None:
    path = machine.root / "bundle" / "gpunode.pyz"
    path.rename(machine.root / "elsewhere")
    path.symlink_to("/elsewhere")
    status, told = machine.run()
    assert status == 2 and "gpunode.pyz does not belong to it" in told and not machine.ran()


@pytest.mark.parametrize("text", ["", "0", "x" * 64 + "  a", "0" * 64 + "  a\n", "0" * 64 + " version\n"])
def test_damaged_sums_are_refused(machine: Unpacked, text: str) -> None:
    path = machine.root / "bundle" / "SHA256SUMS"
    for content in (text, path.read_text() + text) if text else (text,):
        path.write_text(content)
        status, told = machine.run()
        assert status == 2 and told.startswith("refused: /bundle: ") and not machine.ran(), told
    path.unlink()
    assert "SHA256SUMS: damaged or missing" in machine.run()[1]


@pytest.mark.parametrize("words", [("--check",), ("--diff", "--check"), ("--help",), ("-h",), ("--ch",)])
def test_a_look_leaves_nothing(machine: Unpacked, words: Tuple[str, ...]) -> None:
    def all_of_it() -> Dict[str, float]:
        paths = [path for path in machine.root.rglob("*") if path.is_file() and path.name != "ran"]
        return {str(path): path.stat().st_mtime for path in paths}

    machine.run("--help")
    before = all_of_it()
    assert machine.run(*words)[0] == 0 and machine.ran()["words"][-len(words) :] == list(words)
    assert all_of_it() == before and not (machine.root / "opt/gpu_node").exists()


def test_artefacts_that_are_as_they_should_be_stay_and_what_an_interrupted_run_left_is_replaced(
    machine: Unpacked,
) -> None:
    machine.run()
    place = machine.root / "opt/gpu_node/artefacts"
    before = (place / "hpcx.tbz").stat().st_ino
    (place / "enroot.deb").write_text("enr")
    (place / "enroot.deb.new").write_text("e")
    (place / "older.deb").write_text("older")
    assert machine.run()[0] == 0
    assert artefacts(machine) == {"hpcx.tbz": "hpcx", "enroot.deb": "enroot", "older.deb": "older"}
    assert (place / "hpcx.tbz").stat().st_ino == before


def test_artefacts_that_cannot_be_written_end_it_with_a_sentence(machine: Unpacked) -> None:
    machine.write("opt/gpu_node", "a file")
    status, told = machine.run()
    assert status == 1 and not machine.ran()
    assert told.splitlines()[-1].startswith("not ready: /opt/gpu_node/artefacts/enroot.deb cannot be written; run this")


def test_the_declaration_of_the_bundle_is_for_a_node_that_has_none(machine: Unpacked) -> None:
    machine.write("etc/gpu_node/declaration.json", "{}")
    machine.run()
    assert machine.ran()["words"] == ["converge"]
    (machine.root / "etc/gpu_node/declaration.json").unlink()
    (machine.root / "etc/gpu_node/declaration.json").symlink_to("/nowhere")
    machine.run()
    assert machine.ran()["words"] == ["converge"]


def test_a_declaration_of_the_caller_counts_also_one_beside_him(machine: Unpacked) -> None:
    machine.write("root/mine.json", "{}")
    machine.run("--declaration", "mine.json", folder="/root")
    ran = machine.ran()
    # Of two options the node command takes the last.
    assert ran["words"][-2:] == ["--declaration", "mine.json"] and ran["folder"] == "/root"


def python(machine: Machine, name: str, version: str) -> None:
    """A Python of that version as far as `converge` asks; what it runs is noted in /python."""
    asked = '[ "$2" != -c ] || exec /usr/bin/python3 -c "import sys; sys.version_info = {0}; $3"'.format(version)
    machine.write("programs/" + name, "#!/bin/sh\necho {0} >>/python\n{1}\n".format(name, asked), 0o755)


def test_the_first_python_that_is_new_enough_is_taken(machine: Unpacked) -> None:
    python(machine, "python3", "(3, 6, 8)")
    python(machine, "python3.12", "(3, 7)")
    python(machine, "python3.9", "(3, 9, 2)")
    for version in ("14", "13", "11", "10"):
        machine.write("programs/python3." + version, "#!/bin/sh\nexit 1\n", 0o755)
    machine.run()
    assert machine.lines("python") == ["python3", "python3.12", "python3.9", "python3.9"]


def test_without_such_a_python_it_says_so(machine: Unpacked) -> None:
    for name in ("python3", *("python3.{0}".format(minor) for minor in range(8, 15))):
        python(machine, name, "(3, 6)")
    status, told = machine.run()
    assert status == 1 and told.startswith("not ready: Python: none of 3.8 to 3.14 is installed here; install one"), (
        told
    )
    tried = machine.lines("python")
    assert tried == ["python3", *("python3.{0}".format(minor) for minor in range(14, 7, -1))]


def test_a_copy_that_is_called_by_a_link_finds_what_lies_beside_it(machine: Unpacked) -> None:
    (machine.root / "sbin-converge").symlink_to("/bundle/converge")
    done = machine.runner("/sbin-converge")
    assert done.returncode == 0 and machine.ran()["words"][-1] == "/bundle/declaration.json"
