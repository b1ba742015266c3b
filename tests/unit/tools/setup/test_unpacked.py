# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages that are unpacked and not installed: what is fetched, where it lies, and what is said when it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.tools.setup import environments, unpacked


@pytest.fixture(name="programs")
def _programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that comes first in PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return folder


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text("#!/bin/sh\n" + script, encoding="utf-8")
    (folder / name).chmod(0o755)


@pytest.fixture(name="mirror")
def _mirror(tmp_path: Path, programs: Path) -> Path:
    """A real package of each program, and an apt-get that downloads those and notes what it was asked for."""
    for package, path in unpacked.PROGRAMS.items():
        tree = tmp_path / "packages" / package
        inside = tree / path.replace("*", "x86_64-linux-gnu")
        for folder in (inside.parent, tree / "DEBIAN", tree / "etc" / "profile.d"):
            folder.mkdir(parents=True)
        inside.write_text(package, encoding="utf-8")
        (tree / "etc" / "profile.d" / "modules.sh").symlink_to("/nowhere/init.sh")
        control = "Package: {0}\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n"
        (tree / "DEBIAN" / "control").write_text(control.format(package), encoding="utf-8")
        command = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(tree) + ".deb"]
        subprocess.run(command, check=True, capture_output=True)
    log = tmp_path / "asked"
    log.touch()
    program(programs, "apt-get", 'echo "$*" >>{0}\ncp {1}/packages/$3.deb .\n'.format(log, tmp_path))
    return log


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="packages are made with dpkg-deb")
def test_a_program_is_unpacked_once_and_only_when_it_is_not_installed(tmp_path: Path, mirror: Path) -> None:
    root, target = tmp_path / "root", tmp_path / "venv" / "debian"
    installed = root / unpacked.PROGRAMS["lmod"]
    installed.parent.mkdir(parents=True)
    installed.touch()
    assert unpacked.programs(target, root) is True
    others = [one for one in unpacked.PROGRAMS if one != "lmod"]
    assert mirror.read_text(encoding="utf-8").splitlines() == ["-q download " + one for one in others]
    (found,) = target.glob(unpacked.PROGRAMS["environment-modules"])
    assert found.read_text(encoding="utf-8") == "environment-modules"
    assert not any(path.is_symlink() for path in target.rglob("*"))  # where the package would have been installed
    assert unpacked.programs(target, root) is False
    installed.unlink()
    assert unpacked.programs(target, root) is True
    assert (target / unpacked.PROGRAMS["lmod"]).read_text(encoding="utf-8") == "lmod"


def test_a_download_that_fails_is_told_with_the_reason_and_ends_nothing(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(programs, "apt-get", "echo 'W: x' >&2; echo 'E: Unable to locate package' >&2; echo last >&2; exit 100\n")
    with pytest.raises(unpacked.UnpackError) as caught:
        unpacked.programs(tmp_path / "target", tmp_path / "root")
    assert str(caught.value) == (
        "environment-modules: apt-get failed (E: Unable to locate package); check the network and run apt-get update"
    )
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setattr(unpacked, "PROGRAMS", {"lmod": "nowhere/lmod"})
    assert environments.unpacked_programs() == []
    assert "lmod: apt-get failed (E: Unable to locate package)" in capsys.readouterr().err


@pytest.fixture(name="cache")
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "trainyard-gpu-node" / "python3.13-trixie"


@pytest.mark.skipif(
    not all(map(shutil.which, ("patchelf", "cc"))), reason="the interpreter is adapted with patchelf, and made with cc"
)
def test_the_python_runs_with_its_own_loader_and_libraries(tmp_path: Path, programs: Path, cache: Path) -> None:
    """mmdebstrap gives a tree with a program in Python's place that says which loader and libraries it has got."""
    tree = tmp_path / "debian"
    libraries = tree / "usr" / "lib" / "there"
    for folder in (tree / "usr" / "bin", libraries, tree / "usr" / "lib" / "python3.13"):
        folder.mkdir(parents=True)
    data = tree / "usr" / "lib" / "python3.13" / "_sysconfigdata__x.py"
    data.write_text("build_time_vars = {'WHEEL_PKG_DIR': '/usr/share/python-wheels/'}\n", encoding="utf-8")
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\nint main(void) { FILE *maps = fopen("/proc/self/maps", "r"); int byte;\n'
        "while ((byte = getc(maps)) != EOF) putchar(byte); return 0; }\n",
        encoding="utf-8",
    )
    binary = tree / "usr" / "bin" / "python3.13"
    subprocess.run(["cc", "-o", str(binary), str(tmp_path / "main.c")], check=True)
    told = subprocess.run(["ldd", str(binary)], check=True, capture_output=True, text=True).stdout
    for word in told.split():
        if word.startswith("/"):
            shutil.copy(word, str(libraries / Path(word).name))
    program(programs, "mmdebstrap", 'echo "$*" >>{0}/asked; tar -C {0}/debian -cf tree.tar .\n'.format(tmp_path))
    path = unpacked.python()
    assert path == cache / "usr" / "bin" / "python3.13"
    maps = subprocess.run([str(path)], check=True, capture_output=True, text=True).stdout
    mapped = {line.split()[-1] for line in maps.splitlines() if ".so" in line}
    assert len(mapped) >= 2 and all(name.startswith(str(cache) + "/usr/lib/there/") for name in mapped)
    text = (cache / "usr" / "lib" / "python3.13" / "_sysconfigdata__x.py").read_text(encoding="utf-8")
    assert "'{0}/usr/share/python-wheels/'".format(cache) in text
    assert unpacked.python() == path
    (asked,) = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert "--variant=extract --include=python3.13-venv" in asked and " trixie tree.tar deb " in asked


def test_a_mirror_that_is_not_reached_leaves_nothing_and_is_told(
    programs: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program(programs, "mmdebstrap", "echo 'E: apt-get update failed' >&2; exit 1\n")
    assert environments.unpacked_python() == []
    said = capsys.readouterr()
    assert "unpacking Debian 13's" in said.out
    assert "mmdebstrap failed (E: apt-get update failed)" in said.err and "VIRTUAL_NODE_MIRROR" in said.err
    assert [entry.name for entry in cache.parent.iterdir() if entry.is_dir()] == []


def test_a_missing_program_is_named(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(unpacked.UnpackError, match="python3.13: mmdebstrap is not installed; "):
        unpacked.python()
