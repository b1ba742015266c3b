# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The library of the scratch in a guest: what the tests of its faults have in common."""

from __future__ import annotations

import json
import tarfile
from io import BytesIO

from conftest import REPOSITORY, content_digest  # type: ignore[import-not-found]

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import zipapp

SERIALS = ["TYSCRATCH{0}".format(number) for number in range(8)]
MOUNT_POINT = "/mnt/resource_nvme"
HOME = "/opt/scratch_test"
# How many samples of a disk are read: each costs the emulator a third of a millisecond. What is marked reads as many as
# a node does.
SAMPLES = 64
LIBRARY = REPOSITORY / "plugins/module_utils"
DRIVER = r"""
import json, sys
sys.path.insert(0, "/opt/scratch_test/library")
from gpu_node_library.resources import nvme_scratch
from gpu_node_library.resources.nvme_scratch import samples
from gpu_node_library.core.host import Host
from gpu_node_library.core.options import of
from gpu_node_library.core.resource import NodeError
from gpu_node_library.core.run import run

def answer(options):
    samples.SAMPLES = options.pop("samples", samples.SAMPLES)
    check = options.pop("check", False)
    boot = options.pop("boot", False)
    try:
        desired = of(nvme_scratch.Desired, dict(options, boot_unit=False))
        own = nvme_scratch.RESOURCE
        outcome = nvme_scratch.converge_declared(Host(), check) if boot else run(Host(), own, desired, check)
        scratch = nvme_scratch.view.facts(outcome.after.scratch, desired)
        plan = outcome.plan
        return dict(msg=None, changed=outcome.changed, actions=[a.to_dict() for a in plan.actions],
                    notes=list(plan.notes), skipped=plan.skipped, scratch=scratch)
    except NodeError as error:
        return dict(msg=str(error), changed=False)

if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.argv[1]))))
"""
# The start of Python and the imports take an emulated CPU longer than a run: a process that has them forks for each.
SERVER = r"""
import json, socketserver, traceback
import driver

class Run(socketserver.StreamRequestHandler):
    def handle(self):
        try:
            reply = json.dumps(driver.answer(json.loads(self.rfile.readline())))
        except Exception:
            reply = traceback.format_exc()
        self.wfile.write(reply.encode())

class Server(socketserver.ForkingMixIn, socketserver.TCPServer):
    allow_reuse_address = True

Server(("127.0.0.1", 4711), Run).serve_forever()
"""
# The server is gone after a boot.
ASK = r"""
reach() { { exec 3<>/dev/tcp/127.0.0.1/4711; } 2>/dev/null; }
if ! reach; then
    systemd-run --quiet --collect --unit=scratch-server python3 /opt/scratch_test/server.py || exit
    for _look in $(seq 300); do sleep 0.1; reach && break; done
fi
printf '%s\n' "$1" >&3
cat <&3
"""

# Stops its program just before its Nth write to a block device, and says so, until /run/cut-go exists.
CUT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
static void before_write(int fd) {
    static int done;
    struct stat seen;
    if (fstat(fd, &seen) == 0 && S_ISBLK(seen.st_mode) && ++done == atoi(getenv("CUT_AT"))) {
        close(open("/run/cut-now", O_CREAT | O_WRONLY, 0644));
        while (access("/run/cut-go", F_OK) != 0) usleep(100000);
    }
}
ssize_t write(int fd, const void *data, size_t size) {
    before_write(fd);
    return ((ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write"))(fd, data, size);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    before_write(fd);
    return ((ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64"))(fd, data, size, at);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }
"""

# A ZFS label as libblkid knows it: four uberblocks in the first label.
ZFS = r"""
import os, struct, sys
handle = os.open(sys.argv[1], os.O_WRONLY)
for number in range(8):
    os.pwrite(handle, struct.pack("<QQQ", 0x00bab10c, 5000, 100 + number), 128 * 1024 + number * 1024)
os.fsync(handle)
"""

# A disk that reads as blank, and of which everything else is left.
CLEAR_DISKS = r"""
import os, sys
sys.path.insert(0, "/opt/scratch_test/library")
from gpu_node_library.resources.nvme_scratch import samples
for path in sys.argv[1:]:
    handle = os.open(path, os.O_RDONLY)
    size = os.lseek(handle, 0, os.SEEK_END)
    os.close(handle)
    samples.clear(path, size)
"""


class Scratch:
    """The library in the guest."""

    def __init__(self, node, count=SAMPLES):
        self.node, self.samples = node, count

    def install(self):
        buffer = BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path in sorted(zipapp.used_files(str(LIBRARY), ("core", "resources/nvme_scratch"))):
                archive.add(str(LIBRARY / path), "library/gpu_node_library/" + path)
            programs = {
                "driver.py": DRIVER,
                "server.py": SERVER,
                "ask": ASK,
                "zfs.py": ZFS,
                "clear_disks.py": CLEAR_DISKS,
            }
            for name, text in programs.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(text.encode()), 0o644
                archive.addfile(entry, BytesIO(text.encode()))
        self.node.node.ssh(
            "mkdir -p {0} && tar x -C {0} && cp -n /etc/fstab {0}/fstab".format(HOME), 120, buffer.getvalue()
        )

    def command(self, program="python3 " + HOME + "/driver.py", **options):
        given = dict({"models": ["QEMU NVMe Ctrl"]}, **options)
        return "{0} '{1}'".format(program, json.dumps(given))

    def run(self, **options):
        options["samples"] = self.samples
        done = self.node.ssh(self.command("bash " + HOME + "/ask", **options))
        assert done.stdout.startswith("{"), done.stdout + done.stderr
        return json.loads(done.stdout)

    def good(self, **options):
        result = self.run(**options)
        assert result["msg"] is None, result["msg"]
        return result

    def refused(self, *words, **options):
        """It must fail, with these words in its one sentence, and the disks must not have a byte changed."""
        before = self.digests()
        result = self.run(**options)
        assert result["msg"] is not None, result
        for word in words:
            assert word in result["msg"], result["msg"]
        assert "Traceback" not in result["msg"]
        assert self.digests() == before
        return result["msg"]

    def digests(self):
        self.node.ssh("sync")
        return {disk.serial: content_digest(self.node.folder / disk.file) for disk in self.node.node.state.disks}

    def sh(self, command):
        return self.node.ssh(command).stdout

    def disk(self, number):
        return self.node.disk(SERIALS[number])

    def every_disk(self):
        found = self.node.disks()
        return [found[serial] for serial in SERIALS]

    def taken_down(self):
        """The scratch with a file in it, neither mounted nor assembled."""
        down = "echo precious > {0}/file && umount {0} && mdadm --stop /dev/md127 && udevadm settle"
        self.sh(down.format(MOUNT_POINT))

    def precious(self):
        assert self.sh("cat {0}/file".format(MOUNT_POINT)) == "precious\n"

    def settled(self, count=None):
        """It stands, and a second run finds nothing to do."""
        again = self.good(**({"count": count} if count else {}))
        assert not again["changed"], again["actions"]
        assert again["scratch"]["mounted"]
        return again["scratch"]

    def blank(self):
        """As after the first boot: blank disks, no record, no declaration, the old fstab."""
        self.node.blank_disks()
        restore = "cmp -s {0}/fstab /etc/fstab || {{ cp {0}/fstab /etc/fstab; systemctl daemon-reload; }}"
        programs = "/usr/local/sbin/mdadm /usr/local/sbin/mkfs.xfs /run/cut-now /run/cut-go"
        leftovers = "/var/lib/gpu_node /etc/gpu_node/node.json " + programs
        steps = (restore.format(HOME), "rm -rf " + leftovers, "rm -f {0}; rmdir {0} /nvme".format(MOUNT_POINT), "true")
        self.sh("exec 2>/dev/null; " + "; ".join(steps))
