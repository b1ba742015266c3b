# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What DCGM's exporter is given, and what it tells of that."""

from __future__ import annotations

import re

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import dcgm
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.dcgm import (
    chosen,
    missing,
    table,
    told,
    unpaired,
)

# As dcgm-exporter 4.5.3 writes it.
EXPOSITION = """# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-1",pci_bus_id="00000000:01:00.0",device="nvidia0",hostname="n"} 1410
# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
"""


def names(fields):
    return [one.name for one in fields]


def test_each_line_is_one_that_the_exporter_takes():
    """It wants three parts, of which the last may have commas, and a kind that it knows."""
    lines = [line for line in table(chosen(())).splitlines() if not line.startswith("#")]
    assert len(lines) == len(dcgm.FIELDS) > 30
    for line in lines:
        name, kind, told_of = [part.strip() for part in line.split(",", 2)]
        assert re.fullmatch(r"DCGM_(FI|EXP)_[A-Z0-9_]+", name) and kind in ("gauge", "counter", "label") and told_of
    assert len(set(names(dcgm.FIELDS))) == len(dcgm.FIELDS)


def test_fields_of_the_seed_are_there_and_go_with_gpus_that_have_no_counters():
    profiling = {"DCGM_FI_PROF_PIPE_" + one + "_ACTIVE" for one in ("TENSOR", "FP64", "FP32", "FP16")}
    assert profiling <= set(names(chosen(())))
    assert not [one for one in names(chosen((), profiling=False)) if "PROF" in one]


def test_fields_are_added_and_taken_away():
    found = chosen(
        ("DCGM_FI_DEV_FAN_SPEED", "DCGM_FI_DEV_X_TOTAL counter", "-DCGM_FI_DEV_GPU_TEMP", "-DCGM_FI_DEV_NONE")
    )
    assert [(one.name, one.kind) for one in found[-2:]] == [
        ("DCGM_FI_DEV_FAN_SPEED", "gauge"),
        ("DCGM_FI_DEV_X_TOTAL", "counter"),
    ]
    assert "DCGM_FI_DEV_GPU_TEMP" not in names(found)
    again = chosen(("-DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP"))
    assert sorted(names(again)) == sorted(names(dcgm.FIELDS))
    # A known one that is given once more for GPUs without counters is wanted, whatever they are.
    assert "DCGM_FI_PROF_SM_ACTIVE" in names(chosen(("DCGM_FI_PROF_SM_ACTIVE",), profiling=False))


def test_what_is_silently_left_out_is_found():
    """A metric with a head and no sample is not told; events and labels are not missed."""
    seen = told(EXPOSITION)
    assert seen == {"DCGM_FI_DEV_SM_CLOCK"}
    found = missing(chosen(()), seen)
    assert "DCGM_FI_DEV_GPU_TEMP" in found and "DCGM_FI_DEV_SM_CLOCK" not in found
    assert "DCGM_EXP_XID_ERRORS_COUNT" not in found and "DCGM_FI_DRIVER_VERSION" not in found
    assert missing(chosen(("DCGM_FI_DEV_FAN_SPEED",)), seen) == found


@pytest.mark.parametrize(
    ("exporter", "engine", "expected"),
    [
        ("DCGM Exporter version 4.5.3-4.8.2\n", "\nVersion : 4.5.1\nBuild ID : 0\n", ("", "")),
        ("DCGM Exporter version 4.5.3-4.8.2\n", "Version : 4.2.0\n", ("4.5.3", "4.2.0")),
        ("DCGM Exporter version 3.3.9-3.6.1\n", "Version : 4.2.0\n", ("3.3.9", "4.2.0")),
        ("dcgm-exporter version 4.8.2", "Version : 4.2.0\n", ("", "")),
        ("", "Version : 4.2.0\n", ("", "")),
        ("DCGM Exporter version 4.5.3-4.8.2\n", "Error: unable to connect", ("", "")),
    ],
)
def test_versions_that_do_not_fit(exporter, engine, expected):
    assert unpaired(exporter, engine) == expected
