#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a whole node to its declaration, in one run of the node command."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node
short_description: Bring a whole node to its declaration
description:
  - Sends the declaration of a node, one section for each resource, and has the node command C(gpunode converge) do the rest.
    The node command is sent only to a node that has another one.
  - What one resource fails at stops those that need it, and no other. The result has a part for each.
  - In check mode the node command goes to a temporary folder where the node lacks it, and nothing stays.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
options:
  state:
    description: V(absent) takes away what a converge made, in the opposite order. Data on the scratch are lost then.
    type: str
    choices: [present, absent]
    default: present
  declaration:
    description:
      - What is wanted of the node, a mapping of options for each resource, as the page C(docs/declaration.md) has it.
      - By default it is made of the variables of the node, those of O(resources).
    type: dict
  resources:
    description: The resources that get a section made of the node's variables, such as C(nccl_settings) for C(nccl).
    type: list
    elements: str
  only:
    description: Only these resources, or C(health) for the verdict. By default those that the tags of the run name, else all.
    type: list
    elements: str
    default: []
  without:
    description: Not these. By default those that the skipped tags of the run name.
    type: list
    elements: str
    default: []
  sha256:
    description: Filled in by the controller; leave it out.
    type: str
  source:
    description: Filled in by the controller; leave it out.
    type: path
  secrets:
    description: Filled in by the controller; leave it out.
    type: list
    elements: str
attributes:
  check_mode:
    support: full
    description: Tells what would be done on the whole node; changes nothing.
  diff_mode:
    support: full
    description: Shows files and settings of each resource before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
  facts:
    description: Sets facts of the host.
    support: full
    details: RV(ansible_facts.gpu_node_profile).
extends_documentation_fragment:
  - trainyard.gpu_node.attributes
"""

EXAMPLES = r"""
- name: Converge by the variables of the node
  trainyard.gpu_node.node:
    resources: [node_profile, nvme_scratch, gpu_settings, nccl, health]

- name: Converge by a declaration
  trainyard.gpu_node.node:
    declaration:
      node_profile: {}
      nvme_scratch:
        mount_point: /scratch
      health:
        fail_on: fail
"""

RETURN = r"""
ready:
  description: Whether nothing failed. A node that is not ready is no failure of this module; RV(failures) tells why.
  type: bool
  returned: success
failures:
  description: What failed, a sentence each.
  type: list
  elements: str
  returned: success
resources:
  description: By the name of the resource, what its own module would return.
  type: dict
  returned: success
health:
  description: The verdict with its findings, as the module M(trainyard.gpu_node.health_check) returns it. Empty without one.
  type: dict
  returned: success
profile:
  description: The profile of the machine and how the machine differs from it, or V(null).
  type: dict
  returned: success
summary:
  description: All of it in a few lines for a person.
  type: list
  elements: str
  returned: success
ansible_facts:
  description: Facts of the host.
  type: dict
  returned: when a profile was chosen
  contains:
    gpu_node_profile:
      description: As RV(profile).
      type: dict
"""

import hashlib
import importlib.util
import json
import os
import sys
import zipfile

from ansible.module_utils.basic import AnsibleModule

RUNTIME = "/opt/gpu_node/gpunode.pyz"


def installed():
    """SHA-256 of what the installed node command was made from; None: there is none, it is damaged, or it was made for
    another Python. resources/node_runtime/bytecode.py of the library, which is not sent, says what it looks like."""
    try:
        with open(RUNTIME, "rb") as stream:
            content = stream.read()
        with zipfile.ZipFile(RUNTIME) as archive:
            comment = archive.comment
        told = json.loads(comment)
        before = content[: len(content) - len(comment) - 2] + b"\0\0"
        whole = hashlib.sha256(before).hexdigest() == told["content"]
        return told["source"] if whole and told["python"] == importlib.util.MAGIC_NUMBER.hex() else None
    except (OSError, zipfile.BadZipFile, ValueError, KeyError, TypeError):
        return None


def words(params, check_mode):
    told = ["converge" if params["state"] == "present" else "undo", "--json", "--declaration", "-"]
    if check_mode:
        told.append("--check")
    for option in ("only", "without"):
        for name in params[option]:
            told += ["--" + option, name]
    return told


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "declaration": {"type": "dict"},
            "resources": {"type": "list", "elements": "str"},
            "only": {"type": "list", "elements": "str", "default": []},
            "without": {"type": "list", "elements": "str", "default": []},
            "sha256": {"type": "str"},
            "source": {"type": "path"},
            "secrets": {"type": "list", "elements": "str", "no_log": True},
        },
        supports_check_mode=True,
        # With an access key in an option, the journal of the node would have it.
        no_log=True,
    )
    params = module.params
    if params["sha256"] is None or params["declaration"] is None:
        module.fail_json(msg="node: it was run without its controller side; call it as trainyard.gpu_node.node.")
    path = params["source"] or (RUNTIME if installed() == params["sha256"] else None)
    if path is None:
        module.exit_json(changed=False, transfer_needed=True)
    command = [sys.executable, path, *words(params, module.check_mode)]
    try:
        status, out, error = module.run_command(
            command, data=json.dumps(params["declaration"]), handle_exceptions=False
        )
    except OSError as failure:
        module.fail_json(
            msg="node: the node command could not be started ({0}); run it again.".format(failure.strerror)
        )
    finally:
        if params["source"] and os.path.exists(path):
            os.unlink(path)
    try:
        told = json.loads(out)
    except ValueError:
        told = {
            "error": {"message": "the node command ended with status {0}: {1}".format(status, error.strip()[-2000:])}
        }
    if "error" in told:
        module.fail_json(msg=told["error"]["message"])
    profile = told.get("profile")
    if profile:
        told["ansible_facts"] = {"gpu_node_profile": profile}
    told["diff"] = [part["diff"] for part in told["resources"].values() if part.get("diff")]
    module.exit_json(**told)


if __name__ == "__main__":
    main()
