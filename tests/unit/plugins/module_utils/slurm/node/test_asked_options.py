# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules of both schedulers take alike reaches what is wished of a node of either."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import argument_spec
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.node import Desired as OfKubernetes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.node.options import Asked, asked
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.node.types import Desired as OfSlurm


@pytest.mark.parametrize("scheduler", [OfSlurm, OfKubernetes])
def test_what_is_asked_is_wished(scheduler):
    usual = {name: one["default"] for name, one in argument_spec(Asked).items()}
    assert scheduler("n1", **asked(dict(usual, name="n1", busy="leave"))) == scheduler("n1")
    other = {"state": "in_service", "level": "active", "run": "3f2a9c1b", "take_over": True, "others": True}
    wish = scheduler("n1", **asked(dict(usual, reason="x", wait_seconds=7, **other)))
    assert (wish.drained, wish.active, wish.run, wish.take_over, wish.others) == (False, True, "3f2a9c1b", True, True)
    assert (wish.reason, wish.wait_seconds, wish.owes) == ("x", 7.0, "")
