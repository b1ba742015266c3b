# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in of BeeGFS, and NOT BeeGFS: programs named beeond, ssh and umount that work on folders.

It has what was read in ``beeond/source/beeond`` and ``beeond/scripts/lib/beegfs-ondemand-stoplocal`` of BeeGFS 7: the
options of each action (that -d and -c take a value in start and none in the others, that stop knows no -d PATH), the
order of the start (reachability, status files, management, storage, metadata, clients), the lines of the status file
and when each is written, that a start waits for ever for servers, that stop does nothing where a host is unreachable,
and that stoplocal passes over what is missing only with -c. It has no servers and no file system: a daemon is a shell
that sleeps under the name and with the words of one, a mount is a line in a table of mounts.

``CLUSTER/NODE`` is the root of each node; one whose folder has a file ``dead`` cannot be reached. ``CLUSTER/trouble``
names what goes wrong: ``storage`` (storage servers never come up), ``stop at SERVICE`` (killed after the start of that
one, before its line), ``fail``.
"""

from __future__ import annotations

import getopt
import os
import re
import shutil
import signal
import subprocess
import sys
import time

OPTIONS = {"start": "c:d:f:Fi:m:n:p:lL:Pb:s:qrkj", "stop": "di:n:Pb:Lcq", "stoplocal": "i:dLusqc"}


class Node:
    def __init__(self, cluster, name):
        self.root = os.path.join(cluster, name)
        self.name = name

    def path(self, path):
        return os.path.join(self.root, path.lstrip("/"))

    def reach(self):
        if not os.path.isdir(self.root) or os.path.exists(self.path("dead")):
            fail("Host is unreachable via ssh: " + self.name)


def fail(text, status=1):
    sys.stderr.write("ERROR: {0}\n".format(text))
    sys.exit(status)


def append(path, line):
    with open(path, "a") as stream:
        stream.write(line + "\n")


def start(cluster, given, stamp):
    for option, what in (("-n", "Node file"), ("-d", "Path for BeeGFS data"), ("-c", "Path for client mountpoint")):
        if option not in given:
            fail(what + " undefined")
    here = Node(cluster, os.environ["STAND_IN_NODE"])
    with open(here.path(given["-n"])) as stream:
        nodes = [Node(cluster, line.strip()) for line in stream if line.strip()]
    status, logs = given.get("-i", "/tmp/beeond.tmp"), given.get("-L", "/var/log")
    trouble = os.path.join(cluster, "trouble")
    trouble = open(trouble).read() if os.path.exists(trouble) else ""
    if trouble == "fail":
        fail("Unable to start beegfs-mgmtd on host: " + here.name)
    for node in nodes:
        node.reach()
    for node in nodes:
        if os.path.exists(node.path(status)):
            fail("Status file {0} on host {1} already exists. ".format(status, node.name))
    for node in nodes:
        append(node.path(status), "")
        open(node.path(status), "w").close()
    for node in nodes:
        os.makedirs(node.path(logs), exist_ok=True)
    os.unlink(nodes[0].path(status))

    def serve(node, service, data):
        log = "{0}/{1}_{2}.log".format(logs, service, stamp)
        pid = "/var/run/{0}-{1}.pid".format(service, stamp)
        words = ["/opt/beegfs/sbin/" + service, "-c", "while sleep 0.2; do :; done", "logStdFile=" + log]
        words += ["connPortShift=" + given.get("-p", "1000"), "cfgFile={0}/{1}.conf".format(given.get("-f"), service)]
        null, of = subprocess.DEVNULL, dict(os.environ, STAND_IN_OF=node.name)
        child = subprocess.Popen(
            words, executable="/bin/sh", stdin=null, stdout=null, stderr=null, env=of, start_new_session=True
        )
        os.makedirs(os.path.dirname(node.path(pid)), exist_ok=True)
        with open(node.path(pid), "w") as stream:
            stream.write(str(child.pid))
        if data != "-":
            os.makedirs(node.path(data), exist_ok=True)
        append(node.path(log), "started")
        if trouble == "stop at " + service:
            os.kill(os.getppid(), signal.SIGKILL)  # timeout, which would end us
            os.kill(os.getpid(), signal.SIGKILL)
        append(node.path(status), ",".join((node.name, service, data, log, pid)))

    data = given["-d"]
    serve(nodes[0], "beegfs-mgmtd", data + "/beegfs-mgmtd")
    for node in nodes:
        serve(node, "beegfs-storage", data + "/beegfs-storage")
    for node in nodes[:1]:
        serve(node, "beegfs-meta", data + "/beegfs-meta")
    while trouble == "storage":
        time.sleep(1)
    for node in nodes:
        serve(node, "beegfs-helperd", "-")
        os.makedirs(node.path(given["-c"]), exist_ok=True)
        line = "50 1 0:50 / {0} rw,relatime - beegfs beegfs_ondemand rw".format(given["-c"])
        append(node.path("/proc/self/mountinfo"), line)
        log = "{0}/beegfs-client_{1}.log".format(logs, stamp)
        append(node.path(status), ",".join((node.name, "beegfs-client", given["-c"], log, "-")))


def stop(cluster, given, dummy):
    if "-n" not in given:
        fail("Node file undefined")
    here = Node(cluster, os.environ["STAND_IN_NODE"])
    with open(here.path(given["-n"])) as stream:
        nodes = [Node(cluster, line.strip()) for line in stream if line.strip()]
    for node in nodes:
        node.reach()
    for node in nodes:
        local(node, given)


def stoplocal(cluster, given, dummy):
    local(Node(cluster, os.environ["STAND_IN_NODE"]), given)


def local(node, given):
    clean, wrong = "-c" in given, False
    status = node.path(given.get("-i", "/tmp/beeond.tmp"))
    if not os.path.exists(status):
        if clean:
            return
        fail("Status file {0} not found.".format(status))
    with open(status) as stream:
        lines = [line.rstrip("\n").split(",") for line in stream if line.strip()]
    for _host, service, place, _log, _pid in lines:
        if service == "beegfs-client":
            wrong |= not unmount(node, place) and not clean
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
    sys.exit(1 if wrong else 0)


def unmount(node, point):
    table = node.path("/proc/self/mountinfo")
    with open(table) as stream:
        lines = stream.readlines()
    kept = [line for line in lines if line.split()[4] != point]
    with open(table, "w") as stream:
        stream.writelines(kept)
    return len(kept) < len(lines)


def beeond(cluster, words):
    if not words or words[0] not in OPTIONS:
        sys.exit(1)
    try:
        pairs, rest = getopt.getopt(words[1:], OPTIONS[words[0]])
    except getopt.GetoptError as error:
        fail("invalid option: {0}".format(error))
    given = {}
    if rest:  # getopts stops there and never sees the others
        append(os.path.join(cluster, "not_read"), " ".join(rest))
    for name, value in pairs:
        if name in ("-p", "-m", "-s") and words[0] == "start" and not re.fullmatch("[0-9]+", value):
            fail("port shift must be numeric")
        given[name] = value
    append(os.path.join(cluster, "calls"), "{0}: {1}".format(os.environ["STAND_IN_NODE"], " ".join(words)))
    {"start": start, "stop": stop, "stoplocal": stoplocal}[words[0]](cluster, given, time.strftime("%Y%m%d-%H%M%S"))


def ssh(cluster, words):
    words = [word for word in words if not word.startswith("-")]
    node = Node(cluster, words[0])
    if not os.path.isdir(node.root) or os.path.exists(node.path("dead")):
        sys.exit(255)
    assert words[1] == "cat", words
    sys.exit(subprocess.call(["cat", node.path(words[2])]))


def umount(cluster, words):
    node = Node(cluster, os.environ["STAND_IN_NODE"])
    if os.path.exists(node.path("busy")) and "-l" not in words:
        sys.exit(32)
    append(os.path.join(cluster, "calls"), "{0}: umount {1}".format(node.name, " ".join(words)))
    sys.exit(0 if unmount(node, words[-1]) else 32)


def install(folder, cluster):
    """Put the programs into a folder of programs."""
    for name in ("beeond", "ssh", "umount"):
        path = os.path.join(folder, name)
        with open(path, "w") as stream:
            stream.write('#!/bin/sh\nexec {0} {1} {2} {3} "$@"\n'.format(sys.executable, __file__, name, cluster))
        os.chmod(path, 0o755)


if __name__ == "__main__":
    {"beeond": beeond, "ssh": ssh, "umount": umount}[sys.argv[1]](sys.argv[2], sys.argv[3:])
