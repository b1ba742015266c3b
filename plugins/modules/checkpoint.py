#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node needs to bring checkpoints into a store of blobs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: checkpoint
short_description: Set up the copying of checkpoints to Azure blob storage
description:
  - Installs azcopy where that is asked for, and declares where checkpoints go, as whom, and how fast, for C(gpunode checkpoint).
  - Writes C(/etc/gpu_node/checkpoint.env) for job scripts that call azcopy themselves.
  - Asks the store nothing, and keeps no secret.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
requirements:
  - the node command gpunode (module trainyard.gpu_node.node_runtime)
options:
  state:
    description: V(absent) removes what was written and installed here. What is in the store stays, and so does an
      azcopy that was there before.
    type: str
    choices: [present, absent]
    default: present
  destination:
    description: URL of the container, or of a folder in it, without any access key. Empty leaves it to C(gpunode
      checkpoint --to).
    type: str
    default: ''
  auth:
    description:
      - How azcopy proves who it is. V(msi) is the identity of the machine, V(workload) that of a pod.
      - V(spn) is a service principal, whose secret is read from O(secret_file).
      - V(sas_file) is a shared access signature, which is read from O(sas_file).
    type: str
    choices: [msi, spn, workload, sas_file]
    default: msi
  msi_client_id:
    description: Client id of a user-assigned identity. Empty for that of the system.
    type: str
    default: ''
  sas_file:
    description: File with the signature alone, C(sv=...&sig=...), of the user who copies or of root, mode 0600. V(~/)
      is the home folder of whoever copies. The file itself is not managed.
    type: str
    default: ''
  tenant_id:
    description: Tenant of a service principal.
    type: str
    default: ''
  application_id:
    description: Application id of a service principal.
    type: str
    default: ''
  secret_file:
    description: File with its secret, as for O(sas_file).
    type: str
    default: ''
  account_ingress_gbps:
    description:
      - What the storage account takes, in gigabits per second. All nodes share it.
      - From 0.001 to 10000 Gb/s.
    type: float
    default: 20.0
  account_egress_gbps:
    description:
      - What it gives, for bringing checkpoints back. As O(account_ingress_gbps) if not given.
      - From 0.001 to 10000 Gb/s.
    type: float
  nodes:
    description:
      - How many nodes copy to this account at the same time.
      - From 1 to 100000.
    type: int
    default: 1
  files_per_node:
    description:
      - How many files a node copies at the same time, an azcopy for each.
      - From 1 to 1024.
    type: int
    default: 8
  headroom_percent:
    description:
      - What of the account's limit stays unused.
      - From 0 to 90 %.
    type: float
    default: 8
  keep:
    description:
      - 'How many whole checkpoints of a run stay in the store when one of it was added: those whose names differ only
        in the number at their end. V(0) keeps all. What is not whole is never removed.'
      - From 0 to 100000.
    type: int
    default: 0
  work_folder:
    description: Folder for the plans and logs of azcopy, in a folder of each user. Empty for the scratch, or
      C(/var/tmp) where there is none.
    type: str
    default: ''
  metrics_folder:
    description: Folder of the textfile collector. Who copies and may write there leaves figures of the last copy.
    type: str
    default: ''
  packages:
    description: Files of the package C(azcopy) and of what it needs, to install.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the package, such as V(enroot) or V(enroot+caps).
        type: str
        required: true
      version:
        description: Its whole version as dpkg or rpm tells it, such as V(4.1.2-1).
        type: str
        required: true
      source:
        description: URL of the file, or its absolute path on the node.
        type: str
        required: true
      sha256:
        description: Its checksum.
        type: str
        required: true
      architecture:
        description: The machines that it is for, V(amd64) or V(arm64). Files for other machines are skipped. Left out,
          it is for all.
        type: str
        default: ''
  distribution:
    description: 'Install azcopy, where there is none, from the package sources of the node: Microsoft''s repository or
      a mirror of it, which is set up elsewhere.'
    type: bool
    default: false
  source:
    description: azcopy's tarball, or the program itself, as URL or as absolute path on the node. It is installed as
      C(/usr/local/bin/azcopy).
    type: str
    default: ''
  sha256:
    description: Its checksum.
    type: str
    default: ''
attributes:
  check_mode:
    support: full
    description: Tells what would be done; changes nothing.
  diff_mode:
    support: full
    description: Shows the declaration and the file before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
seealso:
  - plugin: trainyard.gpu_node.transfer_limits
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Let four nodes copy with the identity of the machine, azcopy from the package sources of the node
  trainyard.gpu_node.checkpoint:
    destination: https://checkpoints.blob.core.windows.net/llm
    account_ingress_gbps: 20
    nodes: 4
    distribution: true

- name: Install azcopy from a mirror, and copy with a shared access signature of each user
  trainyard.gpu_node.checkpoint:
    destination: https://checkpoints.blob.core.windows.net/llm
    auth: sas_file
    sas_file: ~/.checkpoint_sas
    source: https://mirror.example/azcopy_linux_amd64_10.32.2.tar.gz
    sha256: "{{ azcopy_sha256 }}"

- name: Remove what was installed and written
  trainyard.gpu_node.checkpoint:
    state: absent
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
notes:
  description: Facts for the reader, such as an azcopy that does not start.
  type: list
  elements: str
  returned: success
azcopy:
  description: The azcopy that is used. V(null) where there is none.
  type: str
  returned: success
version:
  description: Its version. V(null) where it does not start.
  type: str
  returned: success
file:
  description: The file for job scripts.
  type: str
  returned: success
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource checkpoint (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "absent"], "default": "present"}, "destination": {"type": "str",
"default": ""}, "auth": {"type": "str", "choices": ["msi", "spn", "workload", "sas_file"], "default": "msi"},
"msi_client_id": {"type": "str", "default": ""}, "sas_file": {"type": "str", "default": ""},
"tenant_id": {"type": "str", "default": ""}, "application_id": {"type": "str", "default": ""},
"secret_file": {"type": "str", "default": ""}, "account_ingress_gbps": {"type": "float", "default": 20.0},
"account_egress_gbps": {"type": "float"}, "nodes": {"type": "int", "default": 1},
"files_per_node": {"type": "int", "default": 8}, "headroom_percent": {"type": "float", "default": 8},
"keep": {"type": "int", "default": 0}, "work_folder": {"type": "str", "default": ""},
"metrics_folder": {"type": "str", "default": ""}, "packages": {"type": "list", "elements": "dict",
"options": {"name": {"type": "str", "required": true}, "version": {"type": "str", "required": true},
"source": {"type": "str", "required": true}, "sha256": {"type": "str", "required": true},
"architecture": {"type": "str", "default": ""}}, "default": []}, "distribution": {"type": "bool",
"default": false}, "source": {"type": "str", "default": ""}, "sha256": {"type": "str", "default": ""}}
""")


def main():
    node_command.main("checkpoint", SPEC, secret=True)


if __name__ == "__main__":
    main()
