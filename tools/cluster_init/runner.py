# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs cluster-init as CycleCloud's agent jetpack does, by its documented rules and under its real paths; for tests.

    runner.py upload PROJECT LOCKER           what `cyclecloud project upload` puts into a locker, here a folder
    runner.py converge LOCKER TEMPLATE NODE   what jetpack does on a node of a cluster template

The rules, from https://learn.microsoft.com/azure/cyclecloud/how-to/projects and the cluster-init reference beside it:
the specs of `node defaults` come first, then the node's own, in the order of the template; scripts of a spec go in the
order of their names; one that succeeded leaves a marker on /mnt and does not run again; the first that fails ends it.
"""

from __future__ import annotations

import argparse
import configparser
import dataclasses
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

HOME = Path("/opt/cycle/jetpack")
CLUSTER_INIT = Path("/mnt/cluster-init")
# `jetpack download FILE [PLACE]` as a script sees it: a user's blob comes before the project's.
JETPACK = """#!/bin/sh
set -eu
[ "$1" = download ]
for folder in "{locker}/blobs/$CYCLECLOUD_PROJECT_NAME" "{locker}/projects/$CYCLECLOUD_PROJECT_NAME/blobs"; do
    if [ -f "$folder/$2" ]; then exec cp "$folder/$2" "${{3:-.}}"; fi
done
echo "jetpack: no blob $2 in the locker" >&2
exit 1
"""


@dataclasses.dataclass(frozen=True)
class Spec:
    project: str
    name: str
    version: str


def upload(project: Path, locker: Path) -> None:
    """Only the blobs that project.ini names; they are shared by all versions."""
    ini = configparser.ConfigParser()
    ini.read(str(project / "project.ini"))
    place = locker / "projects" / ini["project"]["name"]
    for section in ini.sections():
        if section.startswith("spec "):
            name = section[len("spec ") :]
            target = place / ini["project"].get("version", "1.0.0") / name
            shutil.rmtree(str(target), ignore_errors=True)
            shutil.copytree(str(project / "specs" / name), str(target))
    for blob in ini.get("blobs", "Files", fallback="").split(","):
        if blob.strip():
            (place / "blobs").mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(project / "blobs" / blob.strip()), str(place / "blobs" / blob.strip()))


def specs_of(template: str, node: str) -> List[Spec]:
    """What a cluster template gives to a node or a node array."""
    found: Dict[str, List[Spec]] = {"defaults": [], node: []}
    section = ""
    for line in template.splitlines():
        heading = re.fullmatch(r"\s*\[\[\s*(?:node|nodearray)\s+([^\[\]]+?)\s*\]\]\s*", line)
        if heading:
            section = heading.group(1)
        spec = re.fullmatch(
            r"\s*\[\[\[\s*cluster-init\s+(?:[^/\s]+/)?([^:\s]+):([^:\s]+):([^:\s\]]+)\s*\]\]\]\s*", line
        )
        if spec and section in found:
            found[section].append(Spec(*spec.groups()))
    return found["defaults"] + (found[node] if node != "defaults" else [])


def download(locker: Path, spec: Spec) -> Path:
    """The files of a spec; what an earlier version left in the folder stays there."""
    place = CLUSTER_INIT / spec.project / spec.name
    source = locker / "projects" / spec.project / spec.version / spec.name / "cluster-init"
    shutil.copytree(str(source), str(place), dirs_exist_ok=True)
    return place


def run(script: Path, spec: Spec, place: Path) -> int:
    log = HOME / "logs" / "cluster-init" / spec.project / spec.name / "scripts" / (script.name + ".out")
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {
        "PATH": "{0}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".format(HOME),
        "CYCLECLOUD_HOME": str(HOME),
        "CYCLECLOUD_PROJECT_NAME": spec.project,
        "CYCLECLOUD_PROJECT_PATH": str(place.parent),
        "CYCLECLOUD_SPEC_NAME": spec.name,
        "CYCLECLOUD_SPEC_PATH": str(place),
    }
    with log.open("w", encoding="utf-8") as stream:
        return subprocess.run(
            [str(script)], env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, check=False
        ).returncode


def converge(locker: Path, template: str, node: str) -> int:
    """The status of the first script that failed; 0 when every script has run, now or earlier."""
    command = HOME / "bin" / "jetpack"
    command.parent.mkdir(parents=True, exist_ok=True)
    command.write_text(JETPACK.format(locker=locker.resolve()), encoding="utf-8")
    command.chmod(0o755)
    specs = specs_of(template, node)
    # All of them are downloaded before any script runs.
    places = [download(locker, spec) for spec in specs]
    for spec, place in zip(specs, places):
        for script in sorted((place / "scripts").iterdir()):
            marker = CLUSTER_INIT / ".run" / spec.project / spec.name / "scripts" / (script.name + ".run")
            label = "{0}:{1} {2}".format(spec.project, spec.name, script.name)
            if marker.exists():
                print("{0}: ran before".format(label), flush=True)
                continue
            script.chmod(script.stat().st_mode | 0o111)
            status = run(script, spec, place)
            print("{0}: ended with {1}".format(label, status), flush=True)
            if status != 0:
                return status
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="runner.py", description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    uploads = commands.add_parser("upload", help="put a project into a locker")
    uploads.add_argument("project", type=Path)
    uploads.add_argument("locker", type=Path)
    converges = commands.add_parser("converge", help="run the scripts of a node's specs")
    converges.add_argument("locker", type=Path)
    converges.add_argument("template", type=Path)
    converges.add_argument("node")
    options = parser.parse_args()
    if options.command == "upload":
        upload(options.project, options.locker)
        return 0
    return converge(options.locker, options.template.read_text(encoding="utf-8"), options.node)


if __name__ == "__main__":
    sys.exit(main())
