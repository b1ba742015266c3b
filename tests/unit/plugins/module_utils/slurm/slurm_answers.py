# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of scontrol: two nodes in the words of each version, and their parts for tests to spoil."""

from __future__ import annotations

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import SlurmNode

# By Slurm 22.05 with SLURM_TIME_FORMAT=%s; the second reason was given with a line break and a comment.
TEXT = (
    "NodeName=gpu01 Arch=x86_64 CoresPerSocket=24  CPUAlloc=0 CPUEfctv=96 CPUTot=96 CPULoad=0.40"
    " AvailableFeatures=ndv4,a100 ActiveFeatures=ndv4,a100 Gres=gpu:a100:8(S:0-1),nic:8 NodeAddr=10.0.0.5"
    " NodeHostName=gpu01 Version=22.05.8 OS=Linux 5.15.0-1052-azure #60-Ubuntu SMP"
    " RealMemory=900000 AllocMem=0 FreeMem=880000 Sockets=4 Boards=1 State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1"
    " Owner=N/A MCS_label=N/A Partitions=gpu,all  BootTime=1795306581 SlurmdStartTime=1795306601"
    " LastBusyTime=1795306601 CfgTRES=cpu=96,mem=900000M,billing=96 AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0"
    " ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s\n"
    "NodeName=cloud-1 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=8 CPUTot=8 CPULoad=N/A AvailableFeatures=(null)"
    " ActiveFeatures=(null) Gres=(null) NodeAddr=cloud-1 NodeHostName=cloud-1  RealMemory=2000 AllocMem=0 FreeMem=N/A"
    " Sockets=8 Boards=1 State=IDLE+CLOUD+DRAIN+POWERED_DOWN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A"
    " MCS_label=N/A Partitions=all  BootTime=None SlurmdStartTime=None LastBusyTime=Unknown"
    " CfgTRES=cpu=8,mem=2000M,billing=8 AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s"
    " ExtSensorsWatts=0 ExtSensorsTemp=n/s Reason=anna: State=IDLE Gres=gpu:9 [root@1795306581]        second line"
    " Comment=NodeName=gpu09\n"
)
# By 23.02 and later. Numbers that may be unset are objects from 23.11 on.
LATE = {
    "nodes": [
        {
            "name": "gpu01",
            "address": "10.0.0.5",
            "hostname": "gpu01",
            "state": ["IDLE"],
            "reason": "",
            "partitions": ["gpu", "all"],
            "features": ["ndv4", "a100"],
            "active_features": ["ndv4", "a100"],
            "gres": "gpu:a100:8(S:0-1),nic:8",
            "cpus": 96,
            "real_memory": 900000,
            "boot_time": {"set": True, "infinite": False, "number": 1795306581},
            "version": "22.05.8",
        },
        {
            "name": "cloud-1",
            "address": "cloud-1",
            "hostname": "cloud-1",
            "state": ["IDLE", "CLOUD", "DRAIN", "POWERED_DOWN"],
            "reason": "anna: State=IDLE Gres=gpu:9\nsecond line",
            "reason_set_by_user": "root",
            "partitions": ["all"],
            "features": [],
            "active_features": [],
            "gres": "",
            "cpus": 8,
            "real_memory": 2000,
            "boot_time": {"set": True, "infinite": False, "number": 0},
            "version": "",
        },
    ],
    "last_update": {"set": True, "infinite": False, "number": 1795306700},
    "meta": {"slurm": {"release": "24.11.0"}},
    "errors": [],
    "warnings": [],
}
# By 21.08 and 22.05 (sinfo, slurmrestd): the base state is a word of its own, features are text.
EARLY = {
    "meta": {"Slurm": {"release": "21.08.8"}},
    "errors": [],
    "nodes": [
        dict(
            LATE["nodes"][0],
            state="idle",
            state_flags=[],
            features="ndv4,a100",
            active_features="ndv4,a100",
            boot_time=1795306581,
            slurmd_version="22.05.8",
        ),
        dict(
            LATE["nodes"][1],
            state="idle",
            state_flags=["CLOUD", "DRAIN", "POWERED_DOWN"],
            features="",
            active_features="",
            boot_time=0,
            slurmd_version="",
        ),
    ],
}
del EARLY["nodes"][0]["version"], EARLY["nodes"][1]["version"]
ANSWERS = {"text": TEXT, "early": json.dumps(EARLY), "late": json.dumps(LATE, indent=2)}
NODES = (
    SlurmNode(
        name="gpu01",
        address="10.0.0.5",
        flags=frozenset({"IDLE"}),
        host="gpu01",
        partitions=("gpu", "all"),
        features=("ndv4", "a100"),
        gres="gpu:a100:8(S:0-1),nic:8",
        cpus=96,
        memory_mib=900000,
        boot_time=1795306581,
        version="22.05.8",
    ),
    SlurmNode(
        name="cloud-1",
        address="cloud-1",
        flags=frozenset({"IDLE", "CLOUD", "DRAIN", "POWERED_DOWN"}),
        host="cloud-1",
        reason="anna: State=IDLE Gres=gpu:9 second line",
        partitions=("all",),
        cpus=8,
        memory_mib=2000,
    ),
)
