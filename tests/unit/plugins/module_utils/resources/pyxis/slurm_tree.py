# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder that looks like a node with Slurm, whose programs answer by files beside them, and a plugin's source that
is really compiled."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import io
import os
import tarfile
import time

HEADER = """
#define SLURM_VERSION_NUMBER 0x{0:02x}{1:02x}{2:02x}
"""
SPANK = """
#include <slurm/slurm_version.h>
#define SPANK_PLUGIN(__name, __ver) \\
    const char plugin_name[] = #__name; const char plugin_type[] = "spank"; \\
    const unsigned int plugin_version = SLURM_VERSION_NUMBER;
"""
MAKEFILE = """
CPPFLAGS := -D_GNU_SOURCE $(CPPFLAGS)
all: spank_pyxis.so
spank_pyxis.so: plugin.c
\t$(CC) -shared -fPIC $(CPPFLAGS) -o $@ plugin.c
\tstrip --strip-unneeded $@
"""
PROGRAMS = {
    "srun": "echo slurm $(cat {0}/slurm-version)",
    "slurmd": "echo slurm $(cat {0}/slurm-version)",
    "scontrol": "echo asked >> {0}/asked; cat {0}/node-state || exit 1",
    "squeue": "cat {0}/running-jobs",
    "systemctl": "echo $* >> {0}/systemctl-log; "
    # Each start is another one.
    "awk '{{$22 += 1}} 1' {0}/fresh-stat > {0}/proc/4242/stat; cp {0}/proc/4242/stat {0}/fresh-stat",
}
FOLDER = ("etc/slurm", "proc/4242", "run/systemd/system", "usr/bin", "usr/include/slurm")


class SlurmTree:
    def __init__(self, root, version="22.05.8", slurmd=True):
        self.root = root
        for folder in FOLDER:
            (root / folder).mkdir(parents=True)
        for name, text in PROGRAMS.items():
            self._program("usr/bin/" + name, "#!/bin/sh\n" + text.format(root) + "\n")
        for name in ("make", "tar", "gcc", "strip"):
            self._program("usr/bin/" + name, "")
        (root / "etc/slurm/slurm.conf").write_text("ClusterName=test\n")
        (root / "usr/include/slurm/spank.h").write_text(SPANK)
        self.version(version)
        self.state("IDLE")
        self.jobs("")
        self.started(time.time() - 3600.0)
        (root / "proc/4242/comm").write_text("slurmd\n" if slurmd else "bash\n")

    def _program(self, path, text):
        (self.root / path).write_text(text)
        (self.root / path).chmod(0o755)

    def version(self, text, headers=True):
        """As if another Slurm had been installed."""
        (self.root / "slurm-version").write_text(text)
        if headers:
            numbers = [int(one) for one in text.split(".")[:3]]
            (self.root / "usr/include/slurm/slurm_version.h").write_text(HEADER.format(*numbers))

    def state(self, text):
        (self.root / "node-state").write_text("NodeName=x Arch=x86_64\n   State={0} ThreadsPerCore=1\n".format(text))

    def jobs(self, text):
        (self.root / "running-jobs").write_text(text)

    def started(self, when):
        """slurmd runs since then; one that systemctl starts runs since a moment ahead, which saves waiting for it."""
        # The machine was up for 30 days then; "now" moves on by what the test takes, and the uptime does not.
        self._stat("proc/4242/stat", when)
        self._stat("fresh-stat", time.time() + 3600.0)

    def _stat(self, path, when):
        uptime = 30 * 86400.0
        (self.root / "proc/uptime").write_text("{0:.2f} 1.00\n".format(uptime))
        ticks = int((when - time.time() + uptime) * os.sysconf("SC_CLK_TCK"))
        (self.root / path).write_text("4242 (slurmd) S 1 " + "0 " * 17 + "{0} 0 0\n".format(ticks))

    def restarts(self):
        with contextlib.suppress(FileNotFoundError):
            return (self.root / "systemctl-log").read_text().splitlines()
        return []

    def plugin_version(self):
        """What the compiler put into the plugin, as Slurm would read it."""
        path = self.root / "opt/gpu_node/pyxis/spank_pyxis.so"
        copy = self.root / "copy-{0}.so".format(hashlib.sha256(path.read_bytes()).hexdigest())
        copy.write_bytes(path.read_bytes())
        try:
            return hex(ctypes.c_uint.in_dll(ctypes.CDLL(str(copy)), "plugin_version").value)
        finally:
            copy.unlink()


def source(path, text="#include <slurm/spank.h>\nSPANK_PLUGIN(pyxis, 1)\n", makefile=MAKEFILE):
    """A tarball as GitHub makes it; returns its sha256."""
    with tarfile.open(str(path), "w:gz") as archive:
        for name, content in (("pyxis-0.24.0/Makefile", makefile), ("pyxis-0.24.0/plugin.c", text)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()
