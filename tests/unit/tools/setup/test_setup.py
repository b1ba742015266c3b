# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Setting up a clone: which Python, when anew, and the link tree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.tools.setup import environments
from ansible_collections.trainyard.gpu_node.tools.setup.environments import MAIN, MAIN_TOO_NEW, NEWEST, Interpreter

SETUP = Path(__file__).resolve().parents[4] / "tools" / "setup"


@pytest.mark.parametrize(
    ("there", "main", "newest"),
    [
        ([(3, 11)], (MAIN, (3, 11)), None),
        ([(3, 13), (3, 11), (3, 12)], (MAIN, (3, 11)), (NEWEST, (3, 13))),
        ([(3, 12)], (MAIN, (3, 12)), (NEWEST, (3, 12))),
        ([(3, 14)], (MAIN_TOO_NEW, (3, 14)), (NEWEST, (3, 14))),
        ([(3, 10)], None, None),
    ],
)
def test_each_environment_gets_the_best_python_that_is_there(there: list, main: object, newest: object) -> None:
    interpreters = [Interpreter("python{0}.{1}".format(*version), version) for version in there]
    for choices, expected in (((MAIN, MAIN_TOO_NEW), main), ((NEWEST,), newest)):
        chosen = environments.first_possible(choices, interpreters)
        assert (chosen and (chosen[0], chosen[1].version)) == expected


def test_a_candidate_that_does_not_run_is_left_out(tmp_path: Path) -> None:
    broken = tmp_path / "python3.12"
    broken.write_text("#!/bin/sh\necho 'python3.12: command not found' >&2; exit 127\n", encoding="utf-8")
    broken.chmod(0o755)
    found = environments.probe([str(broken), str(tmp_path / "none"), sys.executable])
    assert [interpreter.path for interpreter in found] == [sys.executable]
    assert found[0].version == sys.version_info[:2]


def test_shims_are_no_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("shims", "bin"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "python3.12").touch()
    monkeypatch.setenv("PATH", os.pathsep.join(str(tmp_path / folder) for folder in ("shims", "bin")))
    monkeypatch.setattr(environments, "PYENV_VERSIONS", tmp_path / "none")
    assert environments.candidates()[0] == str(tmp_path / "bin" / "python3.12")


def test_the_fingerprint_changes_with_the_requirements_and_not_with_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "REQUIREMENTS", tmp_path)
    for name in (*MAIN.requirements, "constraints.txt"):
        (tmp_path / name).write_text("a==1\n", encoding="utf-8")
    first = environments.fingerprint(MAIN)
    monkeypatch.setenv("PATH", "/elsewhere")
    assert first == environments.fingerprint(MAIN)
    (tmp_path / "constraints.txt").write_text("a==2\n", encoding="utf-8")
    assert first != environments.fingerprint(MAIN)


def test_every_requirement_has_an_exact_version() -> None:
    pinned = {
        line.partition("==")[0].lower()
        for line in (SETUP / "requirements" / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    }
    for name in {*MAIN.requirements, *NEWEST.requirements}:
        for line in (SETUP / "requirements" / name).read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                assert "==" in line or line.lower() in pinned, "{0}: {1}".format(name, line)


def test_the_link_tree_follows_the_clone_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    for name in ("plugins", "roles", ".git", ".venv", "build"):
        (tmp_path / name).mkdir()
    (tmp_path / "galaxy.yml").write_text("name: x\n", encoding="utf-8")
    tree = tmp_path / environments.LINK_TREE
    assert environments.make_link_tree(tmp_path) is True
    assert sorted(os.listdir(tree)) == ["galaxy.yml", "plugins", "roles"]
    assert (tree / "galaxy.yml").read_text(encoding="utf-8") == "name: x\n"
    assert environments.make_link_tree(tmp_path) is False
    (tmp_path / "roles").rename(tmp_path / "playbooks")
    (tree / "plugins").unlink()
    (tree / "plugins").symlink_to("/elsewhere")
    assert environments.make_link_tree(tmp_path) is True
    assert (tree / "plugins").resolve() == (tmp_path / "plugins").resolve()
    assert sorted(os.listdir(tree)) == ["galaxy.yml", "playbooks", "plugins"]


def test_the_link_tree_removes_nothing_that_is_no_link(tmp_path: Path) -> None:
    (tmp_path / environments.LINK_TREE / "notes").mkdir(parents=True)
    with pytest.raises(environments.SetupError, match="not a link"):
        environments.make_link_tree(tmp_path)
    assert (tmp_path / environments.LINK_TREE / "notes").is_dir()


def test_a_failing_install_ends_in_a_sentence_with_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "x.log"
    with log.open("w", encoding="utf-8") as stream, pytest.raises(environments.SetupError, match=r"status 7; .*x\.log"):
        command = [sys.executable, "-c", "print('no route to the index', flush=True); raise SystemExit(7)"]
        environments.run_logged(command, stream.fileno(), log, ".venv", 0.0)
    assert "no route to the index" in capsys.readouterr().err


def bare_path(tmp_path: Path, *programs: str) -> str:
    """A PATH with the few programs that a minimal system has, and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("awk", "bash", "cut", "head", "id", "sed", "sh", "sort", "tr", *programs):
        found = next(path for path in (Path("/usr/bin") / name, Path("/bin") / name) if path.exists())
        (folder / name).symlink_to(found)
    return str(folder)


def shell(tmp_path: Path, path: str, command: str) -> "subprocess.CompletedProcess[str]":
    # The script adds the system's own folders to PATH; a test without them shows what a bare machine would.
    script = (SETUP / "system_packages.sh").read_text(encoding="utf-8").replace(":/usr/sbin:/sbin", "")
    script = script.replace("/usr/bin/python3.1[1-9]", "").replace("/etc/os-release", str(tmp_path / "os-release"))
    copy = tmp_path / "system_packages.sh"
    copy.write_text(script, encoding="utf-8")
    return subprocess.run(
        ["bash", "-c", "set -euo pipefail; . {0}; {1}".format(copy, command)],
        env={"PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_missing_packages_are_told_with_the_reason(tmp_path: Path) -> None:
    lines = shell(tmp_path, bare_path(tmp_path), "missing_packages").stdout.splitlines()
    told = dict(line.split("\t") for line in lines)
    assert {"git", "gcc", "qemu-system-x86", "mmdebstrap", "python3-venv"} <= set(told)
    assert {"fio", "fish", "mandoc", "openmpi-bin", "patchelf", "perftest", "tcl", "xfsprogs", "zsh"} <= set(told)
    # Installed, these change every login shell of the machine; unpacked.py does without that.
    assert not {"environment-modules", "lmod"} & set(told)
    assert all(reason.strip() for reason in told.values())


@pytest.mark.parametrize(
    ("system", "there", "asked"),
    [("debian", [], True), ("ubuntu", [], False), ("debian", ["chromium"], False)],
)
def test_a_browser_is_asked_for_where_it_can_be_had(tmp_path: Path, system: str, there: list, asked: bool) -> None:
    path = bare_path(tmp_path, "grep")
    for name in there:
        (tmp_path / "bin" / name).symlink_to("/bin/true")
    (tmp_path / "os-release").write_text("NAME=x\nID={0}\n".format(system), encoding="utf-8")
    done = shell(tmp_path, path, "missing_packages")
    assert ("chromium-headless-shell\t" in done.stdout) is asked, done.stderr


def test_an_older_python_is_not_taken_for_the_newest_core(tmp_path: Path) -> None:
    path = bare_path(tmp_path)
    for name, minor in (("python3.11", 11), ("python3.13", 13)):
        answer = '#!/bin/sh\necho "$2" | grep -q "(3, 12)" && exit {0}\nexit 0\n'.format(int(minor < 12))
        (tmp_path / "bin" / name).write_text(answer, encoding="utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "bin" / "grep").symlink_to(next(p for p in (Path("/usr/bin/grep"), Path("/bin/grep")) if p.exists()))
    assert shell(tmp_path, path, "usable_python").stdout.strip().endswith("/python3.11")
    assert shell(tmp_path, path, "usable_python 12").stdout.strip().endswith("/python3.13")


def test_a_machine_without_apt_is_told_what_to_install(tmp_path: Path) -> None:
    done = shell(tmp_path, bare_path(tmp_path), "install_missing_packages")
    assert done.returncode == 1
    assert "mmdebstrap (builds its image from Debian packages)" in done.stdout
    assert "not a Debian or Ubuntu machine" in done.stderr


def test_nothing_is_said_where_nothing_is_missing(tmp_path: Path) -> None:
    done = shell(tmp_path, bare_path(tmp_path), "missing_packages() { :; }; install_missing_packages")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
