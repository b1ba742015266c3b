# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ``gpunode`` in a process of its own, on a folder as the node: ``python gpunode_on.py ROOT [UID] -- ARGUMENTS``.

What a process needs to see simulated GPUs must stand in its environment from its start on.
"""

from __future__ import annotations

import ctypes
import os
import sys

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main as command
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host


def main():
    at = sys.argv.index("--")
    root, uid = sys.argv[1], sys.argv[2:at]
    if uid:
        # What that user may not read is loaded before.
        import textwrap  # noqa: F401

        import pynvml  # noqa: F401

        from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import clocks  # noqa: F401

        ctypes.CDLL("libnvidia-ml.so.1")
        os.setuid(int(uid[0]))
    command.Host = lambda: Host(root)
    return command.main(sys.argv[at + 1 :])


if __name__ == "__main__":
    sys.exit(main())
