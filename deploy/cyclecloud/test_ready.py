# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What CycleCloud runs on a node of a cluster that was started in testing mode: the node is ready."""

from __future__ import annotations

import subprocess
import unittest


class Ready(unittest.TestCase):
    def test_the_node_converged_itself_in_this_boot_and_is_ready(self) -> None:
        command = ["/opt/gpu_node/gpunode.pyz", "boot", "status"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stdout.decode("utf-8", "replace"))
