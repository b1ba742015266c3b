# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of ``gpunode`` that this check runs, and those that it leaves out, each with the reason.

A test compares both with the parser, so that a new command is in one of them.
"""

from __future__ import annotations

from typing import Dict, Tuple

#: (words, seconds): none of them changes anything, and none loads a GPU.
READ_ONLY: Tuple[Tuple[str, float], ...] = (
    ("help", 10),
    ("info", 20),
    ("info --json", 20),
    ("topo", 20),
    ("topo --draw", 20),
    ("clocks list", 20),
    ("mig list", 20),
    ("mig profiles", 20),
    ("mig plan 1g", 20),
    ("pin --ranks 1 --launcher srun", 20),
    ("share advise --seconds 10", 30),
    ("checkpoint plan --bytes 800G", 20),
    ("metrics", 20),
    ("labels", 20),
    ("image --json", 30),
    ("profile suggest --vm-size any", 30),
    ("scratch status", 20),
    ("lease status", 20),
    ("boot status", 20),
    ("remedy status", 20),
    ("history", 20),
    ("health --list --active", 20),
    ("health --quick --json", 30),
    ("health --json", 40),
)
#: The active checks refuse by themselves where a job runs or a process holds a GPU.
ACTIVE = "health --active --seconds 120 --json --only gpu_* --only host_device_bandwidth"
LEFT_OUT: Dict[str, str] = {
    "apply": "it changes GPUs and disks",
    "board": "it starts a server",
    "checkpoint get": "it needs a store",
    "checkpoint list": "it needs a store",
    "checkpoint put": "it needs a store",
    "cleanup": "it removes files and processes",
    "clocks max": "it changes GPUs",
    "clocks reset": "it changes GPUs",
    "clocks set": "it changes GPUs",
    "converge": "it changes the node",
    "declaration": "what a site declares is its own",
    "diagnose": "its archive names the node",
    "events": "it asks the cloud",
    "hook epilog": "it changes the node",
    "hook health": "it drains the node",
    "hook prolog": "it changes GPUs",
    "hook proof": "it resumes the node",
    "hook resume": "it resumes the node",
    "module": "it changes the node",
    "pin check": "it needs a job",
    "remedy": "it changes the node",
    "remedy release": "it changes the node",
    "reset": "it changes the node",
    "timeline": "it needs the file of a job",
    "undo": "it changes the node",
}
