# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ``gpunode hook`` in a process of its own, on a folder as the node: ``python hook_on.py ROOT ARGUMENTS``.

Processes are the real ones of this machine; everything else that is read lies in the folder.
"""

from __future__ import annotations

import os
import re
import sys

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main as command
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host


class Node(Host):
    def path(self, path):
        return path if re.match(r"/proc/\d+/", path) else super().path(path)


if __name__ == "__main__":
    root = sys.argv[1]
    command.Host = lambda: Node(root)
    os.geteuid = lambda: 0
    sys.exit(command.main(sys.argv[2:]))
