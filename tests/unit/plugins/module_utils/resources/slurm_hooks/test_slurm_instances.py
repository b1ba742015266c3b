# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The MIG instances of a GPU as gres.conf has them: of what NVML tells, and the driver of their device files."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig import devices
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.devices import Capability, InstanceFiles

CAPS = "/dev/nvidia-caps/nvidia-cap{0}"
# The 3g at 4 was made first, and has the higher numbers.
FILES = {(2, None): 21, (2, 0): 22, (1, None): 12, (1, 0): 13}


def instances(files: Any, *mig: Any) -> Any:
    return devices.instances(mig, {key: Capability(minor) for key, minor in files.items()})


def test_each_has_its_files_and_stands_in_their_order() -> None:
    assert instances(FILES, (2, 0, "3g.20gb"), (1, 0, "4g.20gb")) == (
        InstanceFiles("4g.20gb", (CAPS.format(12), CAPS.format(13))),
        InstanceFiles("3g.20gb", (CAPS.format(21), CAPS.format(22))),
    )
    assert instances({}) == () and devices.instances(None, {}) is None


@pytest.mark.parametrize("lacking", list(FILES))
def test_one_without_its_device_file_is_not_left_out_in_silence(lacking: Any) -> None:
    """slurmd would give jobs the rest of what the node has, and Slurm would drain it for fewer than Gres= says."""
    files = {key: minor for key, minor in FILES.items() if key != lacking}
    assert instances(files, (2, 0, "3g.20gb"), (1, 0, "4g.20gb")) is None
