# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A warm converge of 10, 50 and 200 simulated nodes: what it costs the controller for each node.

Side by side: ours; the same files and checks as a shell script over parallel ssh, which is the floor; and as an
ordinary playbook with one built-in module for each setting. Needs root, for tools/fleet.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Iterator, List

import yaml
from _measure import machine
from _tree import Cost, measured

ROOT = Path(__file__).resolve().parents[2]
TOOL = str(ROOT / "tools/fleet/fleet")
PLAYBOOK = str(Path(sys.executable).parent / "ansible-playbook")
# What a node without systemd, disks and Slurm can have of site.yml: the node command, node_profile, gpu_settings, rdma,
# nccl, job_templates and the verdict.
SKIP = "nvme_scratch,slurm_hooks"
VARIABLES = {
    "node_profile_metadata": "never",
    "gpu_settings_boot_unit": False,
    "gpu_settings_persistenced": False,
    "nccl_sysctl": {},
    "gpu_node_comm": ["rdma", "nccl", "job_templates"],
}
# What these make, as a shell on the node names it; node.json is ours alone, and each side has it as a file.
MADE = (
    "/opt/gpu_node/* /etc/gpu_node/* /etc/nccl.conf /etc/profile.d/gpu_node_nccl.sh"
    " /etc/security/limits.d/90-gpu_node_nccl.conf /usr/local/share/gpu_node/jobs/*"
    " /usr/local/share/man/man1/gpunode.1 /usr/local/share/bash-completion/completions/gpunode"
)
PORTS = 9
LINK = "/usr/local/bin/gpunode"
TARGET = "/opt/gpu_node/gpunode.pyz"
PARALLEL = 50


def fleet(*words: str) -> str:
    done = subprocess.run([TOOL, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit("fleet {0}\n{1}{2}".format(" ".join(words), done.stdout, done.stderr))
    return done.stdout


@contextlib.contextmanager
def started(count: int) -> Iterator[Dict[str, dict]]:
    """The inventory of a fleet that ends with this process."""
    process = subprocess.Popen(
        [TOOL, "serve", str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdin and process.stdout
    try:
        path = process.stdout.readline().strip()
        if not path:
            sys.exit("the fleet did not start")
        yield json.loads(Path(path).read_text())
    finally:
        process.stdin.close()
        process.wait()


class Bench:
    def __init__(self, inventory: dict, folder: str) -> None:
        self.inventory = inventory["gpu_nodes"]
        self.folder = folder
        self.hosts: List[str] = list(self.inventory["hosts"])
        variables = self.inventory["vars"]
        self.ssh = ["ssh", *variables["ansible_ssh_common_args"].split(), "-p", str(variables["ansible_port"])]
        self.ssh += ["-i", variables["ansible_ssh_private_key_file"], "-l", "root"]
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        self.environment.update(
            ANSIBLE_COLLECTIONS_PATH=str(ROOT / ".collections"),
            ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"),
            ANSIBLE_CALLBACKS_ENABLED="trainyard.gpu_node.run_record",
            ANSIBLE_SSH_CONTROL_PATH_DIR=os.path.join(folder, "cp"),
            GPU_NODE_RUN_RECORD=self.path("record.json"),
        )
        self.script = ""

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def prepare(self) -> int:
        """Converge the first node, give its files to all others; return the module runs of a warm run on a node."""
        self.ours(1)
        self.check("cold", self.ours(1, "-vvv"), 1)
        modules = Path(self.path("log")).read_text().count("Using module file")
        first = self.inventory["hosts"][self.hosts[0]]["ansible_host"]
        archive = self.path("made.tar")
        with open(archive, "wb") as stream:
            words = "tar -C / -cf - {0} {1} var/lib/gpu_node".format(LINK, MADE)
            subprocess.run([*self.ssh, first, words], stdout=stream, stderr=subprocess.DEVNULL, check=True)
        os.makedirs(self.path("made"))
        subprocess.run(["tar", "-C", self.path("made"), "-xf", archive], check=True)
        self.parallel(len(self.hosts), "tar -C / -xf -", archive)
        self.ours(len(self.hosts))  # each has GPUs of its own to set
        manifest = subprocess.run(
            [*self.ssh, first, "sha256sum $(ls -d {0})".format(MADE)], capture_output=True, text=True, check=False
        ).stdout
        self.script = self.path("check.sh")
        Path(self.script).write_text(
            "sha256sum --quiet --strict -c <<'END' || exit 1\n{0}END\n"
            "[ $(readlink {1}) = {2} ] || exit 1\n"
            "[ $(ls /sys/class/infiniband | wc -l) = {3} ] || exit 1\n"
            "[ $(nvml-simulator show | grep -c 'gpu.*uuid') -ge 1 ] || true\n".format(manifest, LINK, TARGET, PORTS)
        )
        self.write_rival(sorted(line.split()[1] for line in manifest.splitlines()))
        return modules

    def write_rival(self, files: List[str]) -> None:
        """One task a setting, facts first, as such roles are written."""
        made = self.path("made")
        tasks: List[dict] = [
            {"name": "Folder " + folder, "ansible.builtin.file": {"path": folder, "state": "directory", "mode": "0755"}}
            for folder in sorted({os.path.dirname(path) for path in files if "gpu_node" in os.path.dirname(path)})
        ]
        for path in files:
            mode = "0{0:o}".format(os.stat(made + path).st_mode & 0o7777)
            tasks.append(
                {"name": "File " + path, "ansible.builtin.copy": {"src": made + path, "dest": path, "mode": mode}}
            )
        link = {"src": TARGET, "dest": LINK, "state": "link"}
        tasks.append({"name": "Link", "ansible.builtin.file": link})
        find = {"paths": "/sys/class/infiniband", "file_type": "any"}
        tasks.append({"name": "Ports", "ansible.builtin.find": find, "register": "ports"})
        tasks.append({"name": "All ports", "ansible.builtin.assert": {"that": "ports.matched == {0}".format(PORTS)}})
        gpus = {"argv": ["nvml-simulator", "get", "gpu.count"]}
        tasks.append({"name": "GPUs", "ansible.builtin.command": gpus, "changed_when": False, "register": "gpus"})
        Path(self.path("rival.yml")).write_text(yaml.safe_dump([{"hosts": "gpu_nodes", "tasks": tasks}]))

    def some(self, count: int) -> str:
        """An inventory with the first nodes and no others."""
        hosts = {name: self.inventory["hosts"][name] for name in self.hosts[:count]}
        path = self.path("inventory-{0}.json".format(count))
        Path(path).write_text(json.dumps({"gpu_nodes": {"hosts": hosts, "vars": self.inventory["vars"]}}))
        return path

    def play(self, count: int, *words: str) -> Cost:
        argv = [PLAYBOOK, "-i", self.some(count), *words]
        return measured(argv, self.path("log"), self.environment, str(ROOT))

    def ours(self, count: int, *words: str) -> Cost:
        extra = ["--skip-tags", SKIP, "-e", json.dumps(VARIABLES), *words]
        return self.play(count, str(ROOT / "playbooks/site.yml"), *extra)

    def rival(self, count: int) -> Cost:
        return self.play(count, self.path("rival.yml"))

    def floor(self, count: int) -> Cost:
        return self.parallel(count, "sh -s", self.script)

    def parallel(self, count: int, command: str, stdin: str) -> Cost:
        hosts = " ".join(one["ansible_host"] for one in list(self.inventory["hosts"].values())[:count])
        each = "{0} $0 '{1}' <{2}".format(" ".join(self.ssh), command, stdin)
        line = "echo {0} | xargs -n 1 -P {1} sh -c {2}".format(
            hosts, PARALLEL, '"{0}"'.format(each.replace("$", "\\$"))
        )
        cost = measured(["sh", "-c", line], self.path("log"), self.environment, str(ROOT))
        if cost.status != 0:
            sys.exit(Path(self.path("log")).read_text())
        return cost

    def on_the_node(self, command: str) -> float:
        """Seconds of CPU of a command on the first node, the shell that starts it included; the median of five."""
        first = self.inventory["hosts"][self.hosts[0]]["ansible_host"]
        words = "bash -c 'TIMEFORMAT=\"%U %S\"; time {0} >/dev/null'".format(command)
        found: List[float] = []
        while len(found) < 5:
            done = subprocess.run([*self.ssh, first, words], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit("{0}\n{1}{2}".format(command, done.stdout, done.stderr))
            found.append(sum(float(word) for word in done.stderr.splitlines()[-1].split()))
        return statistics.median(found)

    def check(self, name: str, cost: Cost, count: int) -> Cost:
        """It was warm, and nobody was left out."""
        record = json.loads(Path(self.path("record.json")).read_text())
        changed = sum(host["changed"] for host in record["hosts"].values())
        if cost.status != 0 or record["counts"]["ready"] != count or changed:
            sys.exit(
                "{0}, {1} nodes: {2}, {3} changed\n{4}".format(
                    name, count, record["counts"], changed, Path(self.path("log")).read_text()[-4000:]
                )
            )
        return cost


def row(name: str, count: int, costs: List[Cost], first: float) -> str:
    middle = statistics.median
    cpu = middle(cost.cpu_seconds for cost in costs) / count
    return "| {0} | {1} | {2:.2f} s | {3:.2f} | {4:.1f} MiB | {5:.1f} MiB | {6:.0f} s |".format(
        name,
        count,
        cpu,
        cpu / first if first else 1.0,
        middle(cost.peak_bytes for cost in costs) / 2**20,
        middle(cost.peak_bytes for cost in costs) / 2**20 / count,
        middle(cost.wall_seconds for cost in costs),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", default="10,50,200", help="how many nodes")
    parser.add_argument("--rival-max", type=int, default=50, help="the ordinary playbook up to so many nodes")
    parser.add_argument("--runs", type=int, default=1, help="rounds for each number of nodes")
    arguments = parser.parse_args()
    counts = [int(word) for word in arguments.counts.split(",")]
    rows: List[str] = []
    node: Dict[str, float] = {}
    with started(max(counts)) as inventory, tempfile.TemporaryDirectory() as folder:
        bench = Bench(inventory, folder)
        modules = bench.prepare()
        for command in ("gpunode converge --check", "gpunode info", "true"):
            node[command] = bench.on_the_node(command)
        firsts: Dict[str, float] = {}
        for count in counts:
            found: Dict[str, List[Cost]] = {}
            for dummy in range(arguments.runs):  # noqa: B007
                found.setdefault("ours", []).append(bench.check("ours", bench.ours(count), count))
                found.setdefault("shell over ssh", []).append(bench.floor(count))
                if count <= arguments.rival_max:
                    cost = bench.check("rival", bench.rival(count), count)
                    found.setdefault("a task for each setting", []).append(cost)
            for name, costs in found.items():
                cpu = statistics.median(cost.cpu_seconds for cost in costs) / count
                rows.append(row(name, count, costs, firsts.setdefault(name, cpu)))
                print(rows[-1], file=sys.stderr, flush=True)
    print(
        "\nwarm converge, {0} module runs a node ({processor}, {cores} cores), load {1:.1f}\n".format(
            modules, os.getloadavg()[1], **machine()
        )
    )
    for command, seconds in node.items():
        print("CPU of a node, {0}: {1:.2f} s\n".format(command, seconds))
    print("| what | nodes | CPU a node | to the first | peak memory | a node | wall |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(sorted(rows, key=lambda line: line.split("|")[1])), flush=True)


if __name__ == "__main__":
    main()
