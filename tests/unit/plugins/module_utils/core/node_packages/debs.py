# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small real packages, a real dpkg database in a folder, and a real web server, for tests of what installs packages."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import os
import subprocess
import threading


def build(folder, name, version, files, depends="", conffiles=(), recommends=""):
    """A .deb with these files, {path: (text, mode)}; returns (path, sha256)."""
    tree = folder / "tree-{0}-{1}".format(name, version)
    (tree / "DEBIAN").mkdir(parents=True)
    control = "Package: {0}\nVersion: {1}\nArchitecture: all\nMaintainer: a test <a@b.invalid>\nDescription: a test\n"
    control = control.format(name, version) + ("Depends: {0}\n".format(depends) if depends else "")
    control += "Recommends: {0}\n".format(recommends) if recommends else ""
    (tree / "DEBIAN/control").write_text(control)
    if conffiles:
        (tree / "DEBIAN/conffiles").write_text("".join(one + "\n" for one in conffiles))
    for path, (text, mode) in files.items():
        target = tree / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)
    target = folder / "{0}_{1}_all.deb".format(name, version)
    argv = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(target)]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    return target, hashlib.sha256(target.read_bytes()).hexdigest()


def database(root):
    """An empty dpkg database, so that ``dpkg --root`` works there and the machine is left alone."""
    for folder in ("info", "updates", "triggers"):
        (root / "var/lib/dpkg" / folder).mkdir(parents=True)
    for name in ("status", "available", "lock", "lock-frontend"):
        (root / "var/lib/dpkg" / name).write_text("")
    return root


def tree(root, without=("var/lib/dpkg", "run", "var/log", "proc", "sys")):
    """Every path below root with its content or target; what a run may leave behind shows here."""
    found = {}
    for folder, folders, names in os.walk(str(root)):
        for name in folders + names:
            path = os.path.join(folder, name)
            short = os.path.relpath(path, str(root))
            if any(short == one or short.startswith(one + "/") for one in without):
                continue
            if os.path.islink(path):
                found[short] = "-> " + os.readlink(path)
            elif os.path.isdir(path):
                found[short] = "/"
            else:
                with open(path, "rb") as stream:
                    found[short] = stream.read()
    for one in ("var", "var/lib"):  # they hold dpkg's own
        found.pop(one, None)
    return found


class _Quiet(http.server.SimpleHTTPRequestHandler):
    cut_after = None

    def log_message(self, *dummy):
        pass

    def copyfile(self, source, outputfile):
        text = source.read()
        outputfile.write(text if self.cut_after is None else text[: self.cut_after])


@contextlib.contextmanager
def served(folder, cut_after=None):
    """The URL of a server of this folder; ``cut_after``: it dies after so many bytes of each file."""
    handler = type("Handler", (_Quiet,), {"cut_after": cut_after})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield "http://127.0.0.1:{0}".format(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def installed(root, name):
    """(version, state) as dpkg itself tells it; None for a package it does not know."""
    argv = [
        "dpkg-query",
        "--admindir={0}/var/lib/dpkg".format(root),
        "-W",
        "-f",
        "${Version} ${db:Status-Abbrev}",
        name,
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    return tuple(done.stdout.split()) if done.returncode == 0 else None
