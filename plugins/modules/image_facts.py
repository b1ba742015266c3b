#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell the software of an image, and whether its parts fit each other."""

from __future__ import annotations

DOCUMENTATION = r"""
module: image_facts
short_description: Report which driver, CUDA, NCCL, MPI and other software an image has, and what does not fit
description:
  - Reads the versions of the software for GPUs and their network from files, and judges whether the parts fit each other. No program
    of the image is run, so it also reads an image that is mounted.
  - A rule is silent where one of its parts is not there, or its version is not known.
  - What does not fit is an answer and not an error of this module. M(trainyard.gpu_node.image) stops where an image is not as required.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
  - trainyard.gpu_node.attributes.info_module
options:
  root:
    description: Look at the image that is mounted in this folder instead of this machine's.
    type: path
    default: /
seealso:
  - module: trainyard.gpu_node.image
"""

EXAMPLES = r"""
- name: Look at the software of the node
  trainyard.gpu_node.image_facts:
  register: image

- name: Show what does not fit
  ansible.builtin.debug:
    msg: "{{ image.problems | map(attribute='message') | list }}"

- name: Show the version of the driver
  ansible.builtin.debug:
    msg: "{{ image.versions.driver | default('none') }}"
"""

RETURN = r"""
schema:
  description: The name of this form.
  type: str
  returned: success
  sample: trainyard.gpu_node/image/1
versions:
  description: Versions by component, such as C(driver), C(cuda) and C(nccl). What is not there is left out.
  type: dict
  returned: success
  sample: {driver: 535.161.08, driver_kind: proprietary, cuda: 12.2.2, nccl: 2.19.3, nccl_cuda: "12.2"}
facts:
  description: What the versions and the problems come from.
  type: dict
  returned: success
  contains:
    distribution: {description: Distribution and its version., type: str, sample: ubuntu 22.04}
    kernel: {description: The running kernel., type: str}
    next_kernel: {description: The newest kernel that can be booted., type: str}
    next_has_driver: {description: Whether that one has NVIDIA's module., type: bool}
    gpu_ids: {description: "PCI ids of the GPUs, each once, such as V(10de:20b0).", type: list, elements: str}
    gpus_driven: {description: PCI ids of the GPUs that the loaded driver has accepted., type: list, elements: str}
    nvswitches: {description: 'Number of NVSwitches on the PCI bus, or of functions that manage them.', type: int}
    rdma_devices: {description: Names of the RDMA devices., type: list, elements: str}
    driver:
      description: NVIDIA's driver.
      type: dict
      contains:
        version: {description: "Its version - loaded, otherwise on the disk, otherwise of its libraries.", type: str}
        loaded: {description: Version of the module in the kernel., type: str}
        module: {description: "Version of the module on the disk for the running kernel; V(null) where it is compressed.", type: str}
        module_path: {description: Where that module is., type: str}
        library: {description: Version of its libraries., type: str}
        kind: {description: V(open) or V(proprietary)., type: str}
        firmware: {description: Whether GSP firmware of its version is there., type: bool}
        fabric_manager: {description: Version of the package of the Fabric Manager., type: str}
        fabric_manager_path: {description: Where nv-fabricmanager is., type: str}
        persistenced: {description: Whether nvidia-persistenced is there., type: bool}
        nouveau:
          description: Whether the module nouveau is loaded and no GPU of its kind belongs to NVIDIA's driver.
          type: bool
        other_manager: {description: Whether a Fabric Manager runs that is not the installed one., type: bool}
        contained: {description: Whether a driver container runs., type: bool}
        peermem_loaded: {description: Whether nvidia-peermem is loaded., type: bool}
        peermem_installed: {description: Whether the running kernel has nvidia-peermem., type: bool}
    dkms:
      description: What DKMS is to build.
      type: list
      elements: dict
      contains:
        module: {description: Name of the module., type: str}
        version: {description: Its version., type: str}
        kernel: {description: Whether it was built for the running kernel., type: bool}
    toolkits:
      description: CUDA toolkits, oldest first.
      type: list
      elements: dict
      contains:
        path: {description: Its folder., type: str}
        version: {description: Its version., type: str}
        default: {description: Whether /usr/local/cuda leads to it., type: bool}
        compat: {description: Whether it has NVIDIA's package for older drivers., type: bool}
    nccl:
      description: Each libnccl, the one that ld.so gives first.
      type: list
      elements: dict
      contains: &library
        path: {description: Where it is., type: str}
        version: {description: Its version., type: str}
        cuda: {description: The CUDA that it was built for., type: str}
        used: {description: Whether it is the one that ld.so gives., type: bool}
        missing: {description: Libraries that it needs and that are not found., type: list, elements: str}
    nccl_plugins: {description: Plugins of NCCL for the network., type: list, elements: dict, contains: *library}
    mpis:
      description: Installed MPIs.
      type: list
      elements: dict
      contains:
        kind: {description: "V(openmpi), V(mvapich), V(mpich) or V(intel_mpi).", type: str}
        path: {description: Its folder., type: str}
        version: {description: Its version., type: str}
        owner: {description: "V(hpcx) for that of HPC-X, otherwise empty.", type: str}
        ucx: {description: Whether it has a component for UCX., type: bool}
        ucx_missing: {description: Libraries of UCX that it does not find., type: list, elements: str}
    mpi_commands:
      description: Commands of MPI that a login finds.
      type: list
      elements: dict
      contains:
        name: {description: Its name., type: str}
        path: {description: Where it is found., type: str}
        target: {description: Where its links end., type: str}
    slurm:
      description: Slurm; V(null) where it is not installed.
      type: dict
      contains:
        version: {description: Version of its package., type: str}
        plugins: {description: Folders of its plugins., type: list, elements: str}
        pmix: {description: Its plugins for PMIx., type: list, elements: dict, contains: *library}
        wanted: {description: What the job templates give to srun --mpi., type: str}
    container_cli:
      description: The program nvidia-container-cli; V(null) where it is not installed.
      type: dict
      contains:
        path: {description: Where it is., type: str}
        version: {description: Its version., type: str}
        for_all: {description: Whether every user may run it., type: bool}
        missing: {description: Libraries that it needs and that are not found., type: list, elements: str}
    broken_links:
      description: Links of the software that lead nowhere.
      type: list
      elements: dict
      contains:
        path: {description: The link., type: str}
        target: {description: What it says., type: str}
    others: {description: Versions of what no rule is about., type: dict}
problems:
  description: What does not fit.
  type: list
  elements: dict
  returned: success
  contains:
    rule: {description: "The rule, such as V(cuda_driver).", type: str}
    outcome: {description: V(fail) or V(warn)., type: str}
    thing: {description: What it is about., type: str}
    reason: {description: What is wrong., type: str}
    remedy: {description: What can be done., type: str}
    key: {description: "What tells several of one rule apart, such as a path.", type: str}
    message: {description: All of it in one sentence., type: str}
notes:
  description: What could not be read, and why.
  type: list
  elements: str
  returned: success
"""

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

SPEC = {
    "root": {"type": "path", "default": "/"},
}


def main():
    node_command.main("image_facts", SPEC)


if __name__ == "__main__":
    main()
