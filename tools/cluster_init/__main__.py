# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the CycleCloud project in build/cyclecloud/gpu_node out of the bundle: `python -m tools.cluster_init`."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

import yaml

from ..bundle.declared import BundleError
from .specs import SPECS, ClusterInitError, Spec, declaration

ROOT = Path(__file__).resolve().parents[2]
PROJECT = "gpu_node"


def project_ini(version: str, bundle: str) -> str:
    lines = ["[project]", "name = " + PROJECT, "label = Training-ready GPU nodes", "type = application"]
    lines += ["version = " + version, "", "[blobs]", "Files = " + bundle]
    for spec in SPECS:
        lines += ["", "[spec {0}]".format(spec.name)]
    return "\n".join(lines) + "\n"


def checked_bundle(path: Path) -> str:
    """The line of the bundle's .sha256, after the bundle was held against it."""
    sums = path.with_name(path.name + ".sha256")
    for file in (path, sums):
        if not file.is_file():
            raise ClusterInitError("{0}: there is no such file; run make bundle first".format(file))
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for chunk in iter(lambda: stream.read(1 << 20), b""):
            digest.update(chunk)
    line = "{0}  {1}\n".format(digest.hexdigest(), path.name)
    if sums.read_text(encoding="utf-8").split() != line.split():
        raise ClusterInitError(
            "{0}: it is not the bundle that {1} names; run make bundle again".format(path, sums.name)
        )
    return line


def write_spec(spec: Spec, folder: Path, version: str, bundle: str, sums: str, root: Path) -> None:
    places = {name: folder / spec.name / "cluster-init" / name for name in ("scripts", "files", "tests")}
    for place in places.values():
        place.mkdir(parents=True)
    source = root / "deploy" / "cyclecloud"
    # jetpack's marker of what has run bears the script's name: with the version in it, it stops no new version.
    script = places["scripts"] / "10-{0}-{1}.sh".format(PROJECT, version)
    shutil.copyfile(str(source / "gpu_node.sh"), str(script))
    script.chmod(0o755)
    shutil.copyfile(str(source / "test_ready.py"), str(places["tests"] / "test_ready.py"))
    (places["files"] / "version").write_text(version + "\n", encoding="utf-8")
    (places["files"] / "declaration.json").write_text(declaration(spec, root / "inventories"), encoding="utf-8")
    (places["files"] / (bundle + ".sha256")).write_text(sums, encoding="utf-8")


def generate(bundle: Path, target: Path, version: str, root: Path = ROOT) -> None:
    """Make the project beside ``target`` and put it in its place, so that a failure leaves the one that was there."""
    sums = checked_bundle(bundle)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=str(target.parent)) as made:
        new = Path(made) / target.name
        new.mkdir()
        (new / "project.ini").write_text(project_ini(version, bundle.name), encoding="utf-8")
        (new / "blobs").mkdir()
        shutil.copyfile(str(bundle), str(new / "blobs" / bundle.name))
        for spec in SPECS:
            write_spec(spec, new / "specs", version, bundle.name, sums, root)
        if target.exists():
            os.rename(str(target), str(Path(made) / "old"))
        os.rename(str(new), str(target))


def main() -> int:
    argparse.ArgumentParser(prog="python -m tools.cluster_init", description=__doc__).parse_args()
    version = str(yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"])
    bundle = ROOT / "build" / "bundle" / "gpu-node-bundle-{0}.tar.gz".format(version)
    target = ROOT / "build" / "cyclecloud" / PROJECT
    try:
        generate(bundle, target, version)
    except BundleError as error:
        print("cluster-init: {0}.".format(error), file=sys.stderr)
        return 1
    print("cluster-init: {0}: version {1}, specs {2}".format(target, version, ", ".join(spec.name for spec in SPECS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
