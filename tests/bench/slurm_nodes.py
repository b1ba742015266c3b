# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory slurm_nodes over 10,000 nodes, against a static YAML file with the same hosts, groups and variables.

    python tests/bench/slurm_nodes.py [NODES [RUNS]]

Both are read by ansible-inventory, whose own start is timed too. The answer of Slurm comes from a file in the form of
scontrol 22.05 (text) and of 24.11 (JSON): what slurmctld itself takes is not ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import _measure
import yaml

LINE = (
    "NodeName={0} Arch=x86_64 CoresPerSocket=24  CPUAlloc=0 CPUEfctv=96 CPUTot=96 CPULoad=0.40"
    " AvailableFeatures=ndv4,a100 ActiveFeatures=ndv4,a100 Gres=gpu:a100:8(S:0-1) NodeAddr={1} NodeHostName={0}"
    " Version=22.05.8 OS=Linux 5.15.0-1052-azure #60-Ubuntu SMP RealMemory=900000 AllocMem=0 FreeMem=880000 Sockets=4"
    " Boards=1 State={2} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=gpu,all"
    "  BootTime=1795306581 SlurmdStartTime=1795306601 LastBusyTime=1795306601 CfgTRES=cpu=96,mem=900000M,billing=96"
    " AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s\n"
)
STATES = ("IDLE", "ALLOCATED", "MIXED", "IDLE+DRAIN", "DOWN")


def nodes(count):
    for number in range(count):
        yield "gpu{0:05}".format(number), "10.{0}.{1}.5".format(number // 250, number % 250), STATES[number % 5]


def as_json(count):
    unset = {"set": False, "infinite": False, "number": 0}
    return {
        "nodes": [
            {
                "name": name,
                "address": address,
                "state": state.split("+"),
                "partitions": ["gpu", "all"],
                "features": ["ndv4", "a100"],
                "active_features": ["ndv4", "a100"],
                "gres": "gpu:a100:8(S:0-1)",
                "cpus": 96,
                "real_memory": 900000,
                "boot_time": {"set": True, "infinite": False, "number": 1795306581},
                "version": "24.11.0",
                "reason": "",
                # What else stands in such an answer, for its size.
                **{"other_{0}".format(number): unset for number in range(40)},
            }
            for name, address, state in nodes(count)
        ],
        "errors": [],
    }


def main(count=10000, runs=3):
    repository = Path(__file__).resolve().parents[2]
    program = str(Path(sys.executable).parent / "ansible-inventory")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "text").write_text("".join(LINE.format(*node) for node in nodes(count)))
        (path / "json").write_text(json.dumps(as_json(count), indent=1))
        for form in ("text", "json"):
            (path / (form + ".slurm_nodes.yml")).write_text(
                "plugin: trainyard.gpu_node.slurm_nodes\nfile: {0}\n".format(form)
            )

        def read(inventory):
            done = subprocess.run(
                [program, "-i", str(path / inventory), "--list"],
                env=dict(
                    os.environ, ANSIBLE_COLLECTIONS_PATH=str(repository / ".collections"), ANSIBLE_CONFIG=os.devnull
                ),
                capture_output=True,
                text=True,
                check=True,
            )
            return json.loads(done.stdout, object_hook=lambda one: one.get("__ansible_unsafe", one))

        listed = read("text.slurm_nodes.yml")
        hosts = listed.pop("_meta")["hostvars"]
        static = {
            name: {"hosts": dict.fromkeys(group["hosts"])} for name, group in listed.items() if group.get("hosts")
        }
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        (path / "static.yml").write_text(yaml.dump(dict({"all": {"hosts": hosts}}, **static), Dumper=dumper))
        again = read("static.yml")
        if again.pop("_meta")["hostvars"] != hosts:
            sys.exit("the static file is not the same inventory")
        rows = []
        for form in ("text", "json"):
            ours, rival = _measure.in_turn(partial(read, form + ".slurm_nodes.yml"), partial(read, "static.yml"), runs)
            rows.append(_measure.row("{0} nodes, {1}, against static YAML".format(count, form), ours, rival))
        (path / "one.yml").write_text("all: {hosts: {localhost: {}}}\n")
        start = _measure.in_turn(lambda: read("one.yml"), lambda: None, runs)[0]
        _measure.table("ansible-inventory --list, {processor}, {cores} cores".format(**_measure.machine()), rows)
        print("ansible-inventory with one host: {0:.2f} s".format(sorted(start)[len(start) // 2]))


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
