# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages that the tests need and that are unpacked instead of installed, without root.

Python 3.13 of Debian 13, into the user's cache, where the machine has no Python that the newest ansible-core runs on
(Debian 12, Ubuntu 22.04). It runs with the C library that was unpacked beside it.

Of this machine's own release, into the environment: Environment Modules and Lmod, which would define ``module`` in
every login shell of the machine, and both together in an order that nobody chose; Prometheus with its node exporter and
Alertmanager, which would begin to listen for the whole network.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Sequence

# The Debian mirror of the test images, and the cache they lie in.
from ..virtual_node.virtual_machine import image, places

SUITE = "trixie"
PYTHON = "python3.13"
# The program that is looked for on the machine and then in the package, by package.
PROGRAMS = {
    "environment-modules": "usr/lib/*/modulecmd.tcl",
    "lmod": "usr/share/lmod/lmod/libexec/lmod",
    "prometheus": "usr/bin/promtool",
    "prometheus-node-exporter": "usr/bin/prometheus-node-exporter",
    "prometheus-alertmanager": "usr/bin/amtool",
}


class UnpackError(Exception):
    """What could not be unpacked, why, and the remedy."""


def run(thing: str, remedy: str, command: Sequence[str], folder: Path) -> None:
    """Run a command; its failure is one sentence with its last line."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        raise UnpackError("{0}: {1} is not installed; {2}".format(thing, command[0], remedy)) from None
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        told = [line for line in lines if line.startswith("E:")] or lines or ["no message"]
        raise UnpackError("{0}: {1} failed ({2}); {3}".format(thing, command[0], told[-1].strip(), remedy))


def python() -> Path:
    """The path of Debian 13's Python; the first call unpacks it."""
    target = places.cache() / "{0}-{1}".format(PYTHON, SUITE)
    program = target / "usr" / "bin" / PYTHON
    with places.lock(target.with_name(target.name + ".lock"), "another setup that unpacks {0}".format(PYTHON)):
        if not program.exists():
            shutil.rmtree(target, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=target.name, dir=target.parent) as work:
                tree = Path(work) / "tree"
                tree.mkdir()
                extract(Path(work), tree)
                adapt(tree, target)
                tree.rename(target)
    return program


def extract(work: Path, tree: Path) -> None:
    remedy = "check the network, or set VIRTUAL_NODE_MIRROR to a Debian mirror"
    # Neither mode runs anything of the packages; chrootless needs no namespaces, but refuses root.
    mode = "root" if os.geteuid() == 0 else "chrootless"
    command = ["mmdebstrap", "--mode=" + mode, "--variant=extract", "--include={0}-venv".format(PYTHON)]
    command += ['--aptopt=APT::Install-Recommends "false"', "--format=tar", SUITE, "tree.tar", *image.sources(SUITE)]
    run(PYTHON, remedy, command, work)
    members = ["--exclude=./dev", "--exclude=./usr/share/doc", "--exclude=./usr/share/man"]
    run(PYTHON, "free some space", ["tar", "-xf", "tree.tar", "--no-same-owner", "-C", str(tree), *members], work)


def adapt(tree: Path, target: Path) -> None:
    """Let the interpreter find its loader, its libraries and the wheel of pip where the tree will lie."""
    (loader,) = tree.glob("usr/lib/*/ld-linux-*.so.*")
    libraries = target / loader.parent.relative_to(tree)
    command = ["patchelf", "--set-interpreter", str(libraries / loader.name)]
    # An RPATH, as it holds for the libraries of extension modules too; a RUNPATH does not.
    command += ["--force-rpath", "--set-rpath", str(libraries), str(tree / "usr" / "bin" / PYTHON)]
    run(PYTHON, "install the package patchelf", command, tree)
    for path in tree.glob("usr/lib/{0}/_sysconfigdata_*.py".format(PYTHON)):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub("'/usr/share/python-wheels/", "'{0}/usr/share/python-wheels/".format(target), text))


def programs(target: Path, root: Path = Path("/")) -> bool:
    """Unpack those that are neither installed nor unpacked yet; True if there was one."""
    missing = [
        package
        for package, program in PROGRAMS.items()
        if not any(list(folder.glob(program)) for folder in (root, target))
    ]
    for package in missing:
        with tempfile.TemporaryDirectory() as work:
            remedy = "check the network and run apt-get update"
            run(package, remedy, ["apt-get", "-q", "download", package], Path(work))
            target.mkdir(parents=True, exist_ok=True)
            (archive,) = Path(work).glob("*.deb")
            run(package, remedy, ["dpkg-deb", "--extract", str(archive), str(target)], Path(work))
        # Links to where the package would be installed: antsibull-changelog copies the clone, and ends at one.
        for path in target.rglob("*"):
            if path.is_symlink() and not path.exists():
                path.unlink()
    return bool(missing)
