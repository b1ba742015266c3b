#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who tells the metrics of the GPUs of this node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_metrics
short_description: Configure who tells the metrics of GPUs
description:
  - Where NVIDIA's dcgm-exporter is installed, gives it the fields that alerts and boards need, the host engine that runs
    already, and the jobs of Slurm. What it does not tell of them is reported.
  - Elsewhere a timer has the node command write the metrics of each GPU, and of each MIG instance, for the textfile collector of
    Prometheus' node exporter; with the activity of tensor cores, memory and links on Hopper and newer. Nothing stays running.
  - Installs neither an exporter nor DCGM.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
requirements:
  - the node command gpunode (module trainyard.gpu_node.node_runtime)
options:
  state:
    description: 'V(absent) removes what was written for it: the timer and the file of metrics, or the exporter''s
      fields and its drop-in. A dcgm-exporter that runs goes on as its package has it.'
    type: str
    choices: [present, absent]
    default: present
  interval_seconds:
    description:
      - Time between two looks at the GPUs.
      - From 10 to 3600 seconds.
    type: int
    default: 30
  activity_seconds:
    description:
      - How long the activity of tensor cores, memory and links is counted in each look, where NVML tells it (Hopper and
        newer). For O(source=nvml).
      - From 0.1 to 10 seconds.
    type: float
    default: 1.0
  jobs:
    description: Tell which job of Slurm has which GPU. Prolog and epilog of M(trainyard.gpu_node.slurm_hooks) write it
      into C(/run/gpu_node/gpu_jobs), where dcgm-exporter reads it too (label C(hpc_job)).
    type: bool
    default: true
  profiling:
    description:
      - 'A word. While a job runs that has it in its comment or among its features (C(sbatch --comment profiling)), the
        counters of the hardware are left to its profiler: DCGM pauses them, and our own look leaves them out.'
      - 'Empty: never.'
    type: str
    default: profiling
  source:
    description:
      - Who tells of the GPUs.
      - V(dcgm) configures NVIDIA's dcgm-exporter, which has to be installed. V(nvml) has a timer write a file for the
        textfile collector of Prometheus' node exporter, and leaves nothing running.
      - V(auto) is V(dcgm) where the exporter's unit is installed, and V(nvml) elsewhere.
    type: str
    choices: [auto, dcgm, nvml]
    default: auto
  textfile:
    description:
      - File of the metrics for O(source=nvml), in a folder that is there.
      - 'Empty is C(gpu_node_gpus.prom) in the folder that the distribution''s node exporter reads:
        C(/var/lib/prometheus/node-exporter), or C(/var/lib/node_exporter/textfile_collector).'
    type: str
    default: ''
  owners:
    description:
      - Report the user, account and partition of each job of Slurm that has a GPU, as the metric C(gpu_node_job_info),
        with either source. Prolog and epilog of M(trainyard.gpu_node.slurm_hooks) write it. Everybody who can query
        Prometheus can read these names.
      - Needs O(jobs=true).
    type: bool
    default: true
  owners_textfile:
    description:
      - File of the metric for O(owners), in a folder that is there and that Prometheus' node exporter reads.
      - Empty is C(gpu_node_jobs.prom) in the folder of O(textfile), or in the folder that the distribution's node
        exporter reads. Without such a folder nothing is written.
    type: str
    default: ''
  fields:
    description:
      - Fields that dcgm-exporter tells beside the usual ones, such as C(DCGM_FI_DEV_FAN_SPEED) or
        C(DCGM_FI_DEV_PCIE_TX_THROUGHPUT counter). With a minus before it a field is left out.
      - A field that this DCGM has none of keeps the exporter from starting. For O(source=dcgm).
    type: list
    elements: str
    default: []
  listen:
    description: Address and port of dcgm-exporter. For O(source=dcgm).
    type: str
    default: ':9400'
  host_engine:
    description:
      - Where DCGM's host engine listens. The one of the unit nvidia-dcgm listens there.
      - Empty has the exporter bring one of its own, which reads each GPU a second time where nvidia-dcgm runs.
    type: str
    default: localhost:5555
  web_config:
    description: File with TLS and users of dcgm-exporter, as Prometheus' exporters have it (C(tls_server_config),
      C(basic_auth_users)). You write it; it has to be there. For O(source=dcgm).
    type: str
    default: ''
attributes:
  check_mode:
    support: full
    description: Tells what would be done; changes nothing.
  diff_mode:
    support: full
    description: Shows the files before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
seealso:
  - module: trainyard.gpu_node.health_gate
  - module: trainyard.gpu_node.slurm_hooks
"""

EXAMPLES = r"""
- name: Tell the metrics of GPUs, by DCGM where its exporter is installed
  trainyard.gpu_node.gpu_metrics:

- name: Have DCGM tell fan speeds too, and no ECC counters
  trainyard.gpu_node.gpu_metrics:
    source: dcgm
    fields: [DCGM_FI_DEV_FAN_SPEED, -DCGM_FI_DEV_ECC_SBE_VOL_TOTAL]
    web_config: /etc/dcgm-exporter/web.yml

- name: Leave DCGM alone and count activity for two seconds in each minute
  trainyard.gpu_node.gpu_metrics:
    source: nvml
    interval_seconds: 60
    activity_seconds: 2

- name: As it was before
  trainyard.gpu_node.gpu_metrics:
    state: absent
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
skipped_reason:
  description: Why nobody tells of the GPUs here, or V(null).
  type: str
  returned: success
notes:
  description: Facts for the reader, such as fields that the exporter does not tell.
  type: list
  elements: str
  returned: success
source:
  description: Who tells, V(dcgm) or V(nvml). V(null) where nobody does.
  type: str
  returned: success
textfile:
  description: The file of the metrics, for V(nvml).
  type: str
  returned: success
owners_textfile:
  description: The file with user, account and partition of each job. V(null) where nobody wants it or would read it.
  type: str
  returned: success
exporter:
  description: The unit of dcgm-exporter, for V(dcgm).
  type: str
  returned: success
missing_fields:
  description: Fields that dcgm-exporter was given and does not tell. Empty where it could not be asked, too.
  type: list
  elements: str
  returned: success
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource gpu_metrics (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
"interval_seconds": {"type": "int", "default": 30}, "activity_seconds": {"type": "float", "default": 1.0},
"jobs": {"type": "bool", "default": true}, "profiling": {"type": "str", "default": "profiling"},
"source": {"type": "str", "choices": ["auto", "dcgm", "nvml"], "default": "auto"}, "textfile": {"type": "str",
"default": ""}, "owners": {"type": "bool", "default": true}, "owners_textfile": {"type": "str", "default": ""},
"fields": {"type": "list", "elements": "str", "default": []}, "listen": {"type": "str", "default": ":9400"},
"host_engine": {"type": "str", "default": "localhost:5555"}, "web_config": {"type": "str", "default": ""}}
""")


def main():
    node_command.main("gpu_metrics", SPEC)


if __name__ == "__main__":
    main()
