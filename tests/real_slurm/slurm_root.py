# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real slurmctld, slurmd and munged of a Debian suite, without a virtual machine: in a changed root with namespaces of
its own for mounts, processes, the network and the host name.

The root is the file system of the suite's guest image (tools/virtual_node), unpacked once into the cache. Each
:class:`Root` mounts an overlay with an upper layer in memory on it, so that a test starts in about two seconds and
leaves nothing. The root has the node command, installed by ``gpunode converge`` as on a node, and the NVML simulator.

What a real node has and this has not: systemd, cgroups and other machines. slurmd runs with proctrack/linuxproc.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import MappingProxyType
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools" / "virtual_node"))

from virtual_machine import image, places, seed  # noqa: E402
from virtual_machine.progress import VirtualNodeError  # noqa: E402

MACHINE = "nd96asr_v4"
# glibc resolves no name where the only address is a loopback one (AI_ADDRCONFIG).
ADDRESS = "192.0.2.1"
_BASE = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Arguments: an empty directory, the host name, the lower layers. The last process collects ended ones, as init does.
_ENTER = r"""
set -e
top=$1 name=$2 lower=$3
mount -t tmpfs -o mode=755 none "$top"
upper=${4:-$top/upper}
mkdir -p "$upper" "${5:-$top/work}" "$top/root"
mount -t overlay none -o "lowerdir=$lower,upperdir=$upper,workdir=${5:-$top/work}" "$top/root"
cd "$top/root"
mount -t proc none proc
mount --rbind /sys sys
mount -t tmpfs -o mode=755 none dev
mkdir dev/shm dev/pts
mknod -m 666 dev/null c 1 3; mknod -m 666 dev/zero c 1 5; mknod -m 666 dev/full c 1 7
mknod -m 666 dev/random c 1 8; mknod -m 666 dev/urandom c 1 9; mknod -m 666 dev/tty c 5 0
ln -s /proc/self/fd dev/fd; ln -s fd/0 dev/stdin; ln -s fd/1 dev/stdout; ln -s fd/2 dev/stderr
echo '6,0,0,-;Linux version 6.8.0-1021-azure (buildd@lcy02) #25-Ubuntu SMP' >dev/kmsg
mount -t tmpfs none dev/shm
mount -t tmpfs -o mode=755 none run
mkdir run/lock
mount -t tmpfs -o mode=1777 none tmp
ip link set lo up
ip address add {address}/32 dev lo
hostname "$name"
printf '127.0.0.1 localhost\n{address} controller\n{address} %s %s\n' "$name" "${name%%.*}" >etc/hosts
exec chroot . /bin/bash -c 'echo entered; while :; do sleep 1 & wait; done'
""".replace("{address}", ADDRESS)
_PREPARE = r"""
set -e
useradd -m -u 2000 trainee
install -d -m 700 -o munge -g munge /etc/munge /var/lib/munge /var/log/munge
printf 'key-of-these-tests-and-of-no-other-cluster' >/etc/munge/munge.key
chown munge: /etc/munge/munge.key; chmod 400 /etc/munge/munge.key
install -d -o slurm /var/lib/slurm /var/lib/slurm/slurmctld /var/log/slurm
install -d /var/lib/slurm/slurmd
ldconfig
nvml-simulator init {machine}
""".replace("{machine}", MACHINE)
_DECLARATION = {
    "slurm_hooks": {"gres_file": "", "features_file": "", "job_folder": False, "clocks": False},
    "health_gate": {"without": ["profile", "clock_synchronised", "cpu_load"], "timer": False, "proof": False},
}
# slurmctld and the test have another slurm.conf than the node. slurmctld wants a host name that slurm.conf has.
CONTROLLER = "/srv/controller"
ASK: Mapping[str, str] = MappingProxyType({"SLURM_CONF": CONTROLLER + "/slurm.conf"})
_DAEMONS = r"""
install -d -o munge -g munge /run/munge
setpriv --reuid munge --regid munge --clear-groups munged
unshare --uts sh -c 'hostname controller; exec slurmctld -c -f {0}/slurm.conf'
until scontrol ping | grep -q UP; do sleep 0.1; done
""".replace("{0}", CONTROLLER)
CONF = """ClusterName=virtual
SlurmctldHost=controller({address})
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ReturnToService=2
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
Prolog=/etc/slurm/prolog.d/*
Epilog=/etc/slurm/epilog.d/*
PrologFlags=Alloc
SchedulerParameters=nohold_on_prolog_fail
PartitionName=all Nodes=ALL Default=YES State=UP
""".format(address=ADDRESS)
SIZE = " NodeAddr={0} CPUs=1 RealMemory=500".format(ADDRESS)
# slurmd runs this every second. It runs the health check of this collection for each request of a test, one at a time:
# several at once would load a slow machine.
_WATCH = "/srv/health_check"
_WATCH_TEXT = """#!/bin/sh
exec 9>/run/look.lock
flock -n 9 && [ -e /run/look ] || exit 0
mv /run/look /run/looking
/etc/slurm/gpu_node_health_check >/run/looked.new 2>&1
status=$?
mv /run/looked.new /run/looked
exit $status
"""
WATCHED = "HealthCheckProgram={0}\nHealthCheckInterval=1\nHealthCheckNodeState=ANY\n".format(_WATCH)
_ANSWER = """
import zipimport
begin = zipimport.zipimporter("/opt/gpu_node/gpunode.pyz")
exec(begin.get_source("__main__").partition("from gpu_node.command")[0], {"__loader__": begin})
from gpu_node.core.host import Host
from gpu_node.slurm import this_node
print(this_node.here(Host()).node_name)
"""


class Failed(AssertionError):
    """A command in the root ended with an error that the test did not expect."""


@dataclasses.dataclass(frozen=True)
class Layers:
    """``lower``: the directories of an overlay, the uppermost first."""

    suite: str
    lower: Sequence[Path]


def unpacked(suite: str) -> Path:
    """The root of the suite's guest image as a directory. The image is built where it is missing."""
    made = image.ensure(suite)
    folder = places.cache() / "roots" / made.folder.name
    with places.lock(places.cache() / "roots" / (suite + ".lock"), "another one who unpacks " + suite):
        if folder.exists():
            return folder
        partial = folder.with_name("unpacking-" + suite)
        for old in (*folder.parent.glob(suite + "-*"), partial):
            shutil.rmtree(str(old), ignore_errors=True)
        partial.mkdir(parents=True)
        debugfs = shutil.which("debugfs", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if debugfs is None:
            raise VirtualNodeError("debugfs not found; install the package e2fsprogs.")
        command = [debugfs, "-R", "rdump / {0}".format(partial), str(made.root)]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        partial.rename(folder)
    return folder


def reason_to_skip() -> Optional[str]:
    if os.geteuid() != 0:
        return "real Slurm needs root for namespaces and a changed root"
    missing = [name for name in ("unshare", "nsenter", "setpriv") if shutil.which(name) is None]
    if missing:
        return "real Slurm needs the programs " + ", ".join(missing)
    words = ["unshare", "--mount", "--pid", "--net", "--uts", "--fork", "true"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else "real Slurm needs namespaces: " + done.stderr.strip()


def prepared(suite: str, zipapp: bytes, folder: Path) -> Layers:
    """A node of this suite with munge, the simulator and the node command; what all tests have below their layer."""
    try:
        base = unpacked(suite)
        built = seed.simulator()
    except VirtualNodeError as error:
        pytest.skip("real Slurm has no root of {0}: {1}".format(suite, error))
    assert built is not None
    upper = folder / "upper"
    with Root(Layers(suite, [base]), folder, upper=upper) as root:
        root.put("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", (built / "libnvidia-ml.so.1").read_bytes(), 0o755)
        root.put("/usr/local/bin/nvml-simulator", (built / "nvml-simulator").read_bytes(), 0o755)
        description = "/usr/local/share/nvml_simulator/machines/{0}.conf".format(MACHINE)
        root.put(description, (built / "machines" / (MACHINE + ".conf")).read_bytes())
        root.put("/root/gpunode.pyz", zipapp)
        root.write(_WATCH, _WATCH_TEXT, 0o755)
        root.run(_PREPARE)
        root.start()  # The converge asks slurmctld.
        root.converge()
        root.run("rm -rf /var/lib/gpu_node/health /var/log/slurm/* /var/lib/slurm/slurmctld/*")
    return Layers(suite, [upper, base])


class Root:
    """One changed root with its own processes. They end with it, and with the process that made it."""

    def __init__(self, layers: Layers, folder: Path, name: str = "gpu01", upper: Optional[Path] = None) -> None:
        self.layers = layers
        self.name = name
        self._top = folder / "top"
        self._top.mkdir(parents=True, exist_ok=True)
        self._own = [str(upper), str(folder / "work")] if upper else []
        self._pid = ""
        self._unshare: Optional["subprocess.Popen[str]"] = None

    def __enter__(self) -> "Root":
        lower = ":".join(str(one) for one in self.layers.lower)
        words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--net", "--uts", "--fork"]
        words += ["--kill-child", "--propagation", "private", "sh", "-c", _ENTER, "sh", str(self._top), self.name]
        self._unshare = subprocess.Popen(
            [*words, lower, *self._own],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._unshare.stdout is not None
        told = self._unshare.stdout.readline()
        if told != "entered\n":
            self.stop()
            pytest.skip("real Slurm has no changed root here: " + told.strip())
        pid = self._unshare.pid
        self._pid = Path("/proc/{0}/task/{0}/children".format(pid)).read_text().split()[0]
        return self

    def __exit__(self, *dummy: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._unshare is not None:
            self._unshare.kill()
            self._unshare.wait()

    @property
    def major(self) -> int:
        """Of the release of Slurm: 22 or 24."""
        return {"bookworm": 22, "trixie": 24}[self.layers.suite]

    # --- commands
    def run(
        self,
        script: str,
        check: bool = True,
        timeout: float = 60,
        stdin: Optional[bytes] = None,
        user: str = "",
        variables: Mapping[str, str] = ASK,
    ) -> "subprocess.CompletedProcess[str]":
        words = ["nsenter", "--target", self._pid, "--mount", "--pid", "--net", "--uts", "--root", "--wd"]
        words += [
            "env",
            "-i",
            _BASE,
            "HOME=/root",
            *(one + "=" + value for one, value in variables.items()),
            *(["runuser", "-u", user, "--"] if user else []),
        ]
        # Nothing of a test may reach the machine that runs it.
        words += ["bash", "-c", "[ -e /etc/virtual_node_suite ] || exit 97; cd /tmp\n" + script]
        done = subprocess.run(words, input=stdin or b"", capture_output=True, timeout=timeout, check=False)
        out, error = (one.decode(errors="replace") for one in (done.stdout, done.stderr))
        if check and done.returncode != 0:
            raise Failed("{0!r} ended with {1}\n{2}{3}".format(script, done.returncode, out, error))
        return subprocess.CompletedProcess(script, done.returncode, out, error)

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        words = "set -e; mkdir -p \"$(dirname '{0}')\"; cat >'{0}'; chmod {1:o} '{0}'"
        self.run(words.format(path, mode), stdin=content)

    def write(self, path: str, content: str, mode: int = 0o644) -> None:
        self.put(path, content.encode(), mode)

    def converge(
        self,
        python: str = "/usr/bin/python3",
    ) -> None:
        """As a play does it, by this Python."""
        self.write("/root/node.json", json.dumps(_DECLARATION))
        words = "{0} -I /root/gpunode.pyz converge --declaration /root/node.json"
        self.run(words.format(python), timeout=120, variables={})

    def declare(self, section: str, **settings: Any) -> None:
        """Change a section of the declaration as a converge would where systemd runs."""
        declared = json.loads(self.run("cat /etc/gpu_node/node.json").stdout)
        declared.setdefault(section, {}).update(settings)
        self.write("/etc/gpu_node/node.json", json.dumps(declared))

    def gate(self, **settings: Any) -> None:
        self.declare("health_gate", **settings)

    # --- the daemons
    def start(
        self,
        nodes: str = "NodeName=gpu01",
        conf: str = "",
        slurmd: str = "slurmd",
        path: Optional[str] = "/etc/slurm/slurm.conf",
        controller: str = "",
        files: Mapping[str, str] = MappingProxyType({}),
        base: str = CONF,
        size: str = SIZE,
    ) -> None:
        """munged, slurmctld and slurmd.

        ``nodes``: lines of slurm.conf, each with a NodeName; ``conf``: more of it, ``controller`` for slurmctld alone;
        ``slurmd``: how it is called; ``path``: where slurmd's slurm.conf is, None: there is none on the node;
        ``files``: others by their paths; ``size``: the end of each line of ``nodes``
        without CPUs.
        """
        text = base + conf + "".join(line + (size if "CPUs=" not in line else "") + "\n" for line in nodes.splitlines())
        self.write(CONTROLLER + "/slurm.conf", text + controller)
        places_of_files = [CONTROLLER]
        self.run("rm -f /etc/slurm/slurm.conf /etc/slurm/cgroup.conf")
        for name, content in files.items():
            self.write(name, content)
        if path:
            self.write(path, text)
            places_of_files.append(os.path.dirname(path))
        if self.major >= 23:  # older ones know no such line, and need none
            for folder in places_of_files:
                self.write(folder + "/cgroup.conf", "CgroupPlugin=disabled\n")
        self.run(_DAEMONS)
        self.begin(slurmd)

    def begin(self, slurmd: str = "slurmd") -> None:
        """slurmd alone, and wait until slurmctld has its registration."""
        self.run(slurmd, variables={})
        self.wait("node that registers", self.registered)

    def forget(self) -> None:
        """All daemons end, and nothing of what they knew is left."""
        self.run("pkill -KILL -x 'munged|slurmd|slurmctld'; while pgrep -x 'slurmd|slurmctld'; do sleep 0.1; done")
        self.run("rm -rf /run/munge /run/slurm* /var/lib/slurm/slurmctld/* /var/lib/slurm/slurmd/* /var/log/slurm/*")

    def end(self) -> None:
        """slurmd ends."""
        self.run("kill $(cat /run/slurmd.pid); while kill -0 $(cat /run/slurmd.pid) 2>/dev/null; do sleep 0.1; done")

    # --- what slurmctld says
    def nodes(self) -> Dict[str, Dict[str, str]]:
        """Each node by its NodeName, as slurmctld has it."""
        found = {}
        for line in self.run("scontrol -o show node", check=False).stdout.splitlines():
            words = dict(re.findall(r"(\w+)=(.*?)(?= \w+=|$)", line))
            if "NodeName" in words:
                found[words["NodeName"]] = words
        return found

    def registered(self) -> List[str]:
        """The nodes that a slurmd has registered."""
        return [
            name
            for name, words in self.nodes().items()
            if words.get("SlurmdStartTime", "None") not in ("None", "Unknown")
        ]

    def state(self, name: str = "gpu01") -> str:
        return self.nodes()[name]["State"]

    def reason(self, name: str = "gpu01") -> str:
        return re.sub(r" \[[^\]]*\]$", "", self.nodes()[name].get("Reason", ""))

    def drained(self, name: str = "gpu01") -> str:
        """Wait until it is drained; returns the reason."""
        self.wait(name + " to be drained", lambda: "DRAIN" in self.state(name))
        return self.reason(name)

    def wait(self, what: str, true: Any, seconds: float = 40) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, "no {0} within {1} s\n{2}".format(what, seconds, self.logs())
            time.sleep(0.2)

    def logs(self) -> str:
        return self.run("sinfo -N -o '%N %T %E'; squeue; tail -n 25 /var/log/slurm/*.log", check=False).stdout

    # --- jobs
    def srun(
        self, script: str = "echo ran", options: str = "", check: bool = True
    ) -> "subprocess.CompletedProcess[str]":
        return self.run("timeout 40 srun {0} sh -c '{1}'".format(options, script), check=check, user="trainee")

    def sbatch(self, script: str = "echo ran", options: str = "") -> str:
        """Returns the number of the job; its output is /tmp/NUMBER.out."""
        words = "sbatch --parsable -o /tmp/%j.out {0} --wrap '{1}'".format(options, script)
        return self.run(words, user="trainee").stdout.strip()

    def job(self, number: str) -> str:
        """State and reason, as ``PENDING BeginTime``."""
        return self.run("squeue -h -o '%T %r' -j {0}".format(number), check=False).stdout.strip()

    # --- the node command
    def answer(self) -> str:
        """The NodeName of this node, as the installed node command finds it."""
        return self.run("python3 -I -c '{0}'".format(_ANSWER), variables={}).stdout.strip()

    # --- health
    def look(self) -> str:
        """slurmd runs HealthCheckProgram once; returns what that printed. slurm.conf has ``WATCHED``."""
        self.run("rm -f /run/looked; touch /run/look")
        self.wait("end of HealthCheckProgram", lambda: self.run("[ -e /run/looked ]", check=False).returncode == 0, 90)
        return self.run("cat /run/looked").stdout

    def sick(self) -> None:
        self.run("nvml-simulator fault gpu 2 lost")

    def well(self) -> None:
        self.run("nvml-simulator clear gpu 2")


@contextlib.contextmanager
def root(layers: Layers, folder: Path, name: str = "gpu01") -> Iterator[Root]:
    with Root(layers, folder, name) as made:
        yield made
