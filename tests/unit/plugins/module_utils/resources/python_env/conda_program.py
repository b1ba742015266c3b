# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of conda, as much of it as python_env uses, on py-rattler: the environments that it makes are real.

conda create --yes --quiet --prefix PREFIX (--file EXPLICIT --offline | --clone PREFIX | --override-channels
--channel CHANNEL... SPEC...)
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import io
import json
import os
import pathlib
import shutil
import sys
import tarfile
import tempfile

SUBDIR = "noarch"


def package(folder, name, version="1.0", depends=(), files=None):
    """Write a conda package, and return its path and its SHA-256. In a file the word PREFIX becomes the prefix."""
    path = pathlib.Path(str(folder)) / SUBDIR / "{0}-{1}-0.tar.bz2".format(name, version)
    path.parent.mkdir(parents=True, exist_ok=True)
    index = {"name": name, "version": version, "build": "0", "build_number": 0, "depends": list(depends)}
    index.update(subdir=SUBDIR, arch=None, platform=None, timestamp=1700000000000)
    files = files or {"bin/" + name: "#!/bin/sh\necho {0} {1} in PREFIX\n".format(name, version)}
    placeholder = "/" + "p" * 200
    members = {"info/index.json": json.dumps(index), "info/files": "".join(one + "\n" for one in files)}
    paths = []
    for member, text in files.items():
        members[member] = text.replace("PREFIX", placeholder)
        one = {"_path": member, "path_type": "hardlink", "size_in_bytes": len(members[member])}
        one["sha256"] = hashlib.sha256(members[member].encode()).hexdigest()
        if "PREFIX" in text:
            one.update(prefix_placeholder=placeholder, file_mode="text")
        paths.append(one)
    members["info/paths.json"] = json.dumps({"paths_version": 1, "paths": paths})
    with tarfile.open(str(path), "w:bz2") as archive:
        for member, text in members.items():
            info = tarfile.TarInfo(member)
            info.size, info.mode = len(text.encode()), 0o755 if member.startswith("bin/") else 0o644
            archive.addfile(info, io.BytesIO(text.encode()))
    return str(path), hashlib.sha256(path.read_bytes()).hexdigest()


def index(folder):
    import rattler.index

    asyncio.run(rattler.index.index_fs(pathlib.Path(str(folder))))


def program(folder):
    """Write the command, and return its path."""
    path = os.path.join(str(folder), "conda")
    with open(path, "w", encoding="utf-8") as stream:
        # Environments are built with none of the caller's variables, so its search path stands here.
        lines = "".join("sys.path.append({0!r})\n".format(one) for one in sys.path if one)
        run = "import runpy\nrunpy.run_path({0!r}, run_name='__main__')\n".format(os.path.abspath(__file__))
        stream.write("#!{0}\nimport sys\n{1}{2}".format(sys.executable, lines, run))
    os.chmod(path, 0o755)
    return path


def _explicit(lines):
    import rattler

    records = []
    for url in lines:
        path = url[len("file://") :]
        with tempfile.TemporaryDirectory() as folder, tarfile.open(path) as archive:
            archive.extract("info/index.json", folder)
            record = rattler.PackageRecord.from_index_json(pathlib.Path(folder) / "info/index.json")
        name = os.path.basename(path)
        records.append(rattler.RepoDataRecord(record, name, url, "file://" + os.path.dirname(os.path.dirname(path))))
    return records


def main():
    import rattler

    parser = argparse.ArgumentParser()
    for option in ("--yes", "--quiet", "--offline", "--override-channels"):
        parser.add_argument(option, action="store_true")
    for option in ("--prefix", "--file", "--clone"):
        parser.add_argument(option)
    parser.add_argument("--channel", action="append", default=[])
    parser.add_argument("command", choices=["create"])
    parser.add_argument("specs", nargs="*")
    given = parser.parse_intermixed_args()
    cache = os.environ["CONDA_PKGS_DIRS"].split(",")[0]
    if given.file:
        with open(given.file, encoding="utf-8") as stream:
            lines = [line.strip() for line in stream if line.strip() and not line.startswith("#")]
        assert lines.pop(0) == "@EXPLICIT" and given.offline
        records = _explicit(lines)
    elif given.clone:
        metadata = sorted(pathlib.Path(given.clone, "conda-meta").glob("*.json"))
        records = _explicit([json.loads(one.read_text())["url"] for one in metadata])
    else:
        records = asyncio.run(rattler.solve(given.channel, given.specs, platforms=["noarch"]))
    asyncio.run(rattler.install(records, given.prefix, cache_dir=pathlib.Path(cache), show_progress=False))
    shutil.rmtree(cache, ignore_errors=True)


if __name__ == "__main__":
    main()
    # Without the end of the interpreter: at that, rattler's worker threads crash now and then.
    os._exit(0)
