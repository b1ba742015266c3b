# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in of BeeGFS 7, and NOT BeeGFS: the program beeond, on nodes that are folders or on real machines.

It has what was read in ``beeond/source/beeond`` and ``beeond/scripts/lib/beegfs-ondemand-stoplocal`` of BeeGFS 7: the
options of each action (that -d and -c take a value in start and none in the others, that stop knows no -d PATH), the
order of the start (reachability, status files, management, storage, metadata, clients), the lines of the status file
and when each is written, that a start waits for ever for servers, that stop does nothing where a host is unreachable,
and that stoplocal passes over what is missing only with -c. It has no servers: a daemon is a shell that sleeps under
the name and with the words of one.

**Folders** (``install``): ``CLUSTER/NODE`` is the root of each node, a mount is a line in a table of mounts, and ssh
and umount are stand-ins, too. A node whose folder has a file ``dead`` cannot be reached; one with ``slow`` answers ssh
after that many seconds.

**Machines** (``python3 beeond_stand_in.py set-up``, as root, on each): this file, which needs nothing beside it, is put
where the package has its program, with a stand-in of what builds the kernel module. beeond then goes to the other
machines by ssh as root. It mounts by sshfs a folder of the first node, where sshfs is installed, so that all nodes have
the same files; else a tmpfs for each node, which they do not share.

What goes wrong stands in ``CLUSTER/trouble``, or in /var/lib/beeond_stand_in/trouble of the machine that starts:
``fail``, ``storage`` (storage servers do not come up while the file is there), ``stop at SERVICE`` (killed after the
start of that one, before its line). ``calls``, beside it, has each run of the program.
"""

from __future__ import annotations

import getopt
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

OPTIONS = {"start": "c:d:f:Fi:m:n:p:lL:Pb:s:qrkjt:T", "stop": "di:n:Pb:Lcq", "stoplocal": "i:dLusqc"}
MACHINES = "-"
STATE = "/var/lib/beeond_stand_in"
PROGRAM = "/opt/beegfs/sbin/beeond"
CODE = "/opt/beegfs/lib/beeond_stand_in.py"
SOURCE = "beegfs_ondemand"
SSH = ("ssh", "-qq", "-oNumberOfPasswordPrompts=0", "-oStrictHostKeyChecking=no", "-n")


class Node:
    """One node, and what beeond does there."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.root = "/" if cluster == MACHINES else os.path.join(cluster, name)

    def path(self, path):
        return os.path.join(self.root, path.lstrip("/"))

    def reachable(self):
        return self.cluster == MACHINES or (os.path.isdir(self.root) and not os.path.exists(self.path("dead")))

    def there(self, path):
        return os.path.exists(self.path(path))

    def folder(self, path):
        os.makedirs(self.path(path), exist_ok=True)

    def empty(self, path):
        append(self.path(path), "")
        open(self.path(path), "w").close()

    def line(self, path, text):
        append(self.path(path), text)

    def remove(self, path):
        os.unlink(self.path(path))

    def serve(self, service, data, log, pid, more):
        words = ["/opt/beegfs/sbin/" + service, "-c", "while sleep 0.2; do :; done", "logStdFile=" + log, *more]
        null, of = subprocess.DEVNULL, dict(os.environ, STAND_IN_OF=self.name)
        child = subprocess.Popen(
            words, executable="/bin/sh", stdin=null, stdout=null, stderr=null, env=of, start_new_session=True
        )
        self.folder(os.path.dirname(pid))
        with open(self.path(pid), "w") as stream:
            stream.write(str(child.pid))
        if data != "-":
            self.folder(data)
        append(self.path(log), "started")

    def mount(self, point, first, shared):
        self.folder(point)
        if self.cluster != MACHINES:
            line = "50 1 0:50 / {0} rw,relatime - beegfs {1} rw".format(point, SOURCE)
            append(self.path("/proc/self/mountinfo"), line)
        elif shutil.which("sshfs"):
            options = "fsname={0},allow_other,default_permissions,dir_cache=no,StrictHostKeyChecking=no".format(SOURCE)
            subprocess.run(["sshfs", "-o", options, "{0}:{1}".format(first, shared), point], check=True)
        else:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", SOURCE, point], check=True)

    def unmount(self, point):
        if self.cluster == MACHINES:
            return subprocess.run(["umount", "-l", point], check=False).returncode == 0
        table = self.path("/proc/self/mountinfo")
        with open(table) as stream:
            lines = stream.readlines()
        there = [index for index, line in enumerate(lines) if line.split()[4] == point]
        for index in there[-1:]:  # the topmost
            del lines[index]
        with open(table, "w") as stream:
            stream.writelines(lines)
        return bool(there)


class Cluster:
    def __init__(self, cluster):
        self.cluster = cluster
        self.state = STATE if cluster == MACHINES else cluster

    def here(self):
        return Node(self.cluster, os.uname().nodename if self.cluster == MACHINES else os.environ["STAND_IN_NODE"])

    def on(self, name, what, *words):
        """Have a node do something: by ssh where it is a machine."""
        if self.cluster != MACHINES:
            node = Node(self.cluster, name)
            if not node.reachable():
                fail("Host is unreachable via ssh: " + name)
            return getattr(node, what)(*words)
        asked = "{0} on-node {1}".format(PROGRAM, shlex.quote(json.dumps([name, what, *words])))
        done = subprocess.run([*SSH, name, asked], stdout=subprocess.PIPE, check=False)
        if done.returncode == 255:
            fail("Host is unreachable via ssh: " + name)
        if done.returncode != 0:
            fail("{0} on host {1} ended with status {2}".format(what, name, done.returncode))
        return json.loads(done.stdout)

    def trouble(self):
        path = os.path.join(self.state, "trouble")
        if not os.path.exists(path):
            return ""
        with open(path) as stream:
            return stream.read().strip()

    def nodes(self, given):
        if "-n" not in given:
            fail("Node file undefined")
        with open(self.here().path(given["-n"])) as stream:
            return [line.strip() for line in stream if line.strip()]


def fail(text, status=1):
    sys.stderr.write("ERROR: {0}\n".format(text))
    sys.exit(status)


def append(path, line):
    with open(path, "a") as stream:
        stream.write(line + "\n")


def start(cluster, given, stamp):
    names = cluster.nodes(given)
    for option, what in (("-d", "Path for BeeGFS data"), ("-c", "Path for client mountpoint")):
        if option not in given:
            fail(what + " undefined")
    status, logs = given.get("-i", "/var/tmp/beeond.tmp"), given.get("-L", "/var/log")
    data, point = given["-d"], given["-c"]
    if cluster.trouble() == "fail":
        fail("Unable to start beegfs-mgmtd on host: " + names[0])
    for name in names:
        cluster.on(name, "reachable")
    for name in names:
        if cluster.on(name, "there", status):
            fail("Status file {0} on host {1} already exists. ".format(status, name))
    for name in names:
        cluster.on(name, "empty", status)
    for name in names:
        cluster.on(name, "folder", logs)
    cluster.on(names[0], "remove", status)

    def serve(name, service, folder):
        log = "{0}/{1}_{2}.log".format(logs, service.replace("-helperd", "-client"), stamp)
        pid = "/var/run/{0}-{1}.pid".format(service, stamp)
        words = ["connPortShift=" + given.get("-p", "1000"), "cfgFile={0}/{1}.conf".format(given.get("-f"), service)]
        cluster.on(name, "serve", service, folder, log, pid, words)
        if cluster.trouble() == "stop at " + service:
            os.kill(os.getppid(), signal.SIGKILL)  # timeout, which would end us
            os.kill(os.getpid(), signal.SIGKILL)
        cluster.on(name, "line", status, ",".join((name, service, folder, log, pid)))

    shared = data + "/beegfs-storage/shared"
    serve(names[0], "beegfs-mgmtd", data + "/beegfs-mgmtd")
    for name in names:
        serve(name, "beegfs-storage", data + "/beegfs-storage")
    serve(names[0], "beegfs-meta", data + "/beegfs-meta")
    while cluster.trouble() == "storage":
        time.sleep(1)
    cluster.on(names[0], "folder", shared)
    for name in names:
        serve(name, "beegfs-helperd", "-")
        cluster.on(name, "mount", point, names[0], shared)
        log = "{0}/beegfs-client_{1}.log".format(logs, stamp)
        cluster.on(name, "line", status, ",".join((name, "beegfs-client", point, log, "-")))


def stop(cluster, given, dummy):
    names = cluster.nodes(given)
    for name in names:
        cluster.on(name, "reachable")
    if cluster.cluster == MACHINES:
        fail("the stand-in has no stop on machines")
    wrong = [name for name in names if not local(Node(cluster.cluster, name), given)]
    if wrong:
        sys.exit(1)


def stoplocal(cluster, given, dummy):
    sys.exit(0 if local(cluster.here(), given) else 1)


def local(node, given):
    clean, wrong = "-c" in given, False
    status = node.path(given.get("-i", "/var/tmp/beeond.tmp"))
    if not os.path.exists(status):
        if clean:
            return True
        fail("Status file {0} not found.".format(status))
    with open(status) as stream:
        lines = [line.rstrip("\n").split(",") for line in stream if line.strip()]
    for _host, service, place, _log, _pid in lines:
        if service == "beegfs-client":
            wrong |= not node.unmount(place) and not clean
    for _host, service, place, _log, pid in lines:
        if pid == "-":
            continue
        if os.path.exists(node.path(pid)):
            with open(node.path(pid)) as stream:
                number = int(stream.read())
            try:
                os.kill(number, signal.SIGTERM)
            except ProcessLookupError:
                print("ERROR: {0} does not seem to be running any more (PID {1}).".format(service, number))
        elif not clean:
            wrong = True
        if "-d" in given and place != "-":
            shutil.rmtree(node.path(place), ignore_errors=True)
    if not wrong and "-L" in given:
        for line in lines:
            if line[3] != "-" and os.path.exists(node.path(line[3])):
                os.unlink(node.path(line[3]))
        if lines and not os.listdir(os.path.dirname(node.path(lines[-1][3]))):
            os.rmdir(os.path.dirname(node.path(lines[-1][3])))
    os.unlink(status)
    return not wrong


def beeond(where, words):
    cluster = Cluster(where)
    if words and words[0] == "on-node" and where == MACHINES:
        name, what, *rest = json.loads(words[1])
        print(json.dumps(getattr(Node(where, name), what)(*rest)))
        return
    if not words or words[0] not in OPTIONS:
        sys.exit(1)
    try:
        pairs, rest = getopt.getopt(words[1:], OPTIONS[words[0]])
    except getopt.GetoptError as error:
        fail("invalid option: {0}".format(error))
    given = {}
    if rest:  # getopts stops there and never sees the others
        append(os.path.join(cluster.state, "not_read"), " ".join(rest))
    for name, value in pairs:
        if name in ("-p", "-m", "-s") and words[0] == "start" and not re.fullmatch("[0-9]+", value):
            fail("port shift must be numeric")
        given[name] = value
    append(os.path.join(cluster.state, "calls"), "{0}: {1}".format(cluster.here().name, " ".join(words)))
    {"start": start, "stop": stop, "stoplocal": stoplocal}[words[0]](cluster, given, time.strftime("%Y%m%d-%H%M%S"))


# Only where nodes are folders --------------------------------------------------------------------------


def ssh(where, words):
    words = [word for word in words if not word.startswith("-")]
    node = Node(where, words[0])
    if not node.reachable():
        sys.exit(255)
    if node.there("slow"):
        with open(node.path("slow")) as stream:
            time.sleep(float(stream.read()))
    assert words[1] == "cat", words
    sys.exit(subprocess.call(["cat", node.path(words[2])]))


def umount(where, words):
    node = Node(where, os.environ["STAND_IN_NODE"])
    if os.path.exists(node.path("busy")) and "-l" not in words:
        sys.exit(32)
    append(os.path.join(where, "calls"), "{0}: umount {1}".format(node.name, " ".join(words)))
    sys.exit(0 if node.unmount(words[-1]) else 32)


def install(folder, cluster):
    """Put the programs into a folder of programs."""
    for name in ("beeond", "ssh", "umount"):
        text = '#!/bin/sh\nexec {0} {1} {2} {3} "$@"\n'.format(sys.executable, __file__, name, cluster)
        write(os.path.join(folder, name), text, 0o755)


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as stream:
        stream.write(text)
    os.chmod(path, mode)


# Only on machines --------------------------------------------------------------------------------------

WRAPPER = """#!/bin/sh
# A stand-in of BeeGFS 7 (beegfs-mgmtd, beegfs-meta, beegfs-storage, beegfs-helperd, beegfs-ctl), and not BeeGFS.
exec python3 {code} beeond {machines} "$@"
"""
# beegfs-client's own script builds the module into this folder, and asks for it again where there is force-auto-build.
CLIENT = """#!/bin/sh
# A stand-in of what builds the kernel module of BeeGFS 7: the module is an empty file.
[ "$1" = rebuild ] || exit 0
folder=/lib/modules/$(uname -r)/updates/fs/beegfs_autobuild
mkdir -p $folder && : >$folder/beegfs.ko && echo rebuild >>{state}/calls
"""


def set_up():
    """What the packages beeond, beegfs-client and the headers of the kernel have, as far as it is looked at."""
    os.makedirs(STATE, exist_ok=True)
    with open(os.path.abspath(__file__)) as stream:
        write(CODE, stream.read())
    write(PROGRAM, WRAPPER.format(code=CODE, machines=MACHINES), 0o755)
    if not os.path.lexists("/usr/bin/beeond"):
        os.symlink(PROGRAM, "/usr/bin/beeond")
    write("/opt/beegfs/lib/beegfs-ondemand-stoplocal", "# stand-in\n")
    write("/etc/init.d/beegfs-client", CLIENT.format(state=STATE), 0o755)
    os.makedirs("/opt/beegfs/src/client/client_module_7", exist_ok=True)
    build = "/lib/modules/{0}/build".format(os.uname().release)
    if not os.path.exists(build + "/Makefile"):
        if os.path.islink(build):
            os.unlink(build)
        write(build + "/Makefile", "# stand-in\n")


if __name__ == "__main__":
    if sys.argv[1] == "set-up":
        set_up()
    else:
        {"beeond": beeond, "ssh": ssh, "umount": umount}[sys.argv[1]](sys.argv[2], sys.argv[3:])
