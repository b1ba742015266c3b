# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Field values: a code and a type for each, and success without a value."""

from __future__ import annotations

import pytest

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")

CODE = """
import json, sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.fields import read_fields
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.session import survey

def visit(gpu):
    for one in read_fields(gpu, [(int(word), 0) for word in sys.argv[1:]]):
        yield one.value, one.kind.value if one.kind else None

print(json.dumps(survey(visit).visits[0].parts))
"""


# As the recordings of an H100 and an H200 have them: tests/hardware/recordings.
@pytest.mark.parametrize(
    ("field", "told"),
    [
        (82, [38, None]),  # an unsigned int: temperature of the memory
        (144, [0, None]),  # an unsigned long long
        (194, [-2, None]),  # an int
        (188, [None, "no_data"]),  # success, and nothing written: the highest power limit is not 0 W
        (91, [None, "absent"]),  # no NVLink
        (274, [None, "wrong_value"]),  # not a field of this driver
    ],
)
def test_a_field_has_a_value_or_a_reason(nvml_simulator, field, told):
    assert nvml_simulator("vm_h200").python(CODE, str(field)) == [told]


def test_a_driver_that_reports_no_field_has_a_reason_for_each(nvml_simulator):
    machine = nvml_simulator("vm_h200")
    machine.control("fault", "call", "nvmlDeviceGetFieldValues", "return", "UNKNOWN")
    assert machine.python(CODE, "82", "194") == [[None, "failed"]] * 2
