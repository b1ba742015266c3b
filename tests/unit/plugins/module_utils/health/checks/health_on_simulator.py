# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with simulated GPUs for the tests of their health, in a folder as the node.

``python health_on_simulator.py ROOT LEVEL`` prints the verdict of the GPU checks as JSON: run it on a simulator.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
import time

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import Cost, Options, examine, to_dict
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import of_gpus, of_gpus_passive
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import LEVELS

REPOSITORY = pathlib.Path(__file__).resolve().parents[6]
BOOTED = 1790000000
NVSWITCHES = ("0005:00:00.0", "0006:00:00.0")
KERNEL_LOG = "5,0,0,-;Linux version 6.8.0-1029-azure\n6,1,9000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module\n"
# Machines with a profile; on the others nothing can be compared with one.
PROFILES = ("nd40rs_v2", "nd96asr_v4", "nd96amsr_a100_v4", "nd96isr_h100_v5", "nd96isr_h200_v5")
MACHINES = (*PROFILES, "nc24ads_a100_v4", "laptop")


def addresses(machine):
    """The PCI addresses of the GPUs of a machine of the simulator, by index."""
    text = (REPOSITORY / "tools" / "nvml_simulator" / "machines" / (machine + ".conf")).read_text(encoding="utf-8")
    return re.findall(r"^gpu\.\d+\.pci_bus_id = ([0-9a-f:.]+)", text, re.MULTILINE)


class Node:
    """``nvml_simulator(machine)`` and the files that belong to it."""

    def __init__(self, simulator, machine, root, profile=True):
        self.simulator, self.machine, self.root = simulator, machine, root
        self.gpus = addresses(machine)
        self.driver = simulator.control("get", "driver.version").split()[-1]
        for gpu in self.gpus:
            self.pci(gpu, "0x030200")
        simulator.control("set", "gpu.persistence_mode", "1")  # as NVIDIA's daemon leaves it
        self.log()
        self.write("proc/stat", "btime {0}\n".format(BOOTED))
        self.declaration = {}
        if profile and machine in PROFILES:
            import yaml

            folder = REPOSITORY / "roles" / "node_profile" / "files" / "profiles"
            data = yaml.safe_load((folder / (machine + ".yml")).read_text(encoding="utf-8"))
            self.declaration["profile"] = {"name": machine, "data": data}
        self.declare()

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target

    def pci(self, address, kind, vendor="0x10de"):
        self.write("sys/bus/pci/devices/{0}/vendor".format(address), vendor + "\n")
        self.write("sys/bus/pci/devices/{0}/class".format(address), kind + "\n")

    def log(self, *lines):
        """Each line is (seconds after the boot, text)."""
        records = ["3,{0},{1:d},-;{2}\n".format(2 + at, int(line[0] * 1e6), line[1]) for at, line in enumerate(lines)]
        self.write("dev/kmsg", KERNEL_LOG + "".join(records))

    def declare(self, **sections):
        self.declaration.update(sections)
        self.write("etc/gpu_node/node.json", json.dumps(self.declaration))

    def baseline(self, *counters, hours=10):
        """Each counter is (name, its key in the baseline, value those hours ago)."""
        before = time.time() - hours * 3600
        content = [{"name": name, "key": key, "points": [[before, value]]} for name, key, value in counters]
        self.write("var/lib/gpu_node/health/baseline.json", json.dumps({"counters": content}))

    def fabric_manager(self, version, switches=NVSWITCHES):
        for address in switches:
            self.pci(address, "0x068000")
        self.write("sys/module/nvidia/version", self.driver + "\n")
        if version is not None:
            text = "#!/bin/sh\necho 'Fabric Manager version is : {0}'\n".format(version)
            self.write("usr/bin/nv-fabricmanager", text).chmod(0o755)

    def process(self, pid, state, command="python3", environ="", cgroup="0::/user.slice\n", uid=None):
        """``uid`` None: root's, as the files are."""
        if uid is not None:
            self.write("proc/{0}/status".format(pid), "Uid:\t{0}\t{0}\t{0}\t{0}\n".format(uid))
        self.write("proc/{0}/stat".format(pid), "{0} ({1}) {2} 1 1\n".format(pid, command, state))
        self.write("proc/{0}/comm".format(pid), command + "\n")
        self.write("proc/{0}/environ".format(pid), environ)
        self.write("proc/{0}/cgroup".format(pid), cgroup)

    def verdict(self, level="passive", call_timeout=10.0, **environment):
        code = "import runpy; runpy.run_path({0!r}, run_name='__main__')".format(__file__)
        return self.simulator.python(code, str(self.root), level, str(call_timeout), **environment)


def names(verdict):
    """(check, code, outcome, action, key) of each finding."""
    return sorted(
        (one["id"], found["code"], found["outcome"], found["action"], found["key"])
        for one in verdict["results"]
        for found in one["findings"]
    )


if __name__ == "__main__":
    level = Cost(sys.argv[2])
    only = tuple(check.id for check in of_gpus.CHECKS + of_gpus_passive.CHECKS if check.cost in LEVELS[level])
    wanted = Options(level, only, (), float(sys.argv[3]))
    print(json.dumps(to_dict(examine(Host(sys.argv[1]), "node", wanted))))
