# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which disks the role nvme_scratch takes when nobody names any."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest
import yaml
from ansible.template import Templar, trust_as_template

DEFAULTS = Path(__file__).resolve().parents[3] / "roles/nvme_scratch/defaults/main.yml"
LOCAL = [
    "Microsoft NVMe Direct Disk",
    "Microsoft NVMe Direct Disk v2",
    "Amazon EC2 NVMe Instance Storage",
    "nvme_card",
    "nvme_card0",
    "nvme_card31",
]
OTHER = [
    "MSFT NVMe Accelerator v1.0",
    "Amazon Elastic Block Store",
    "nvme_card-pd",
    "nvme_card0-pd",
    "SAMSUNG MZQL23T8",
]


def models(**variables):
    defaults = yaml.safe_load(DEFAULTS.read_text(encoding="utf-8"))
    return Templar(variables=variables).template(trust_as_template(defaults["nvme_scratch_models"]))


@pytest.mark.parametrize("variables", [{}, {"gpu_node_profile": {"data": {}}}, {"gpu_node_profile": {"data": None}}])
def test_without_a_profile_it_takes_the_local_disks_of_all_clouds_and_no_other(variables):
    patterns = models(**variables)
    taken = [model for model in LOCAL + OTHER if any(fnmatch.fnmatchcase(model, one) for one in patterns)]
    assert taken == LOCAL


@pytest.mark.parametrize("named", [[], ["M*"]])
def test_it_takes_what_the_profile_names_and_that_may_be_nothing(named):
    assert models(gpu_node_profile={"data": {"nvme": {"models": named, "count": len(named)}}}) == named
