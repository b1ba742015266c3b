# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job scripts that are run: what they start gets what it takes, and says so."""

from __future__ import annotations

import os

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.job_templates.rendered_scripts import (
    run,
    scripts,
)

HPL = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3, "data", "hpl")


@pytest.mark.parametrize("name", ["hpl_current.sh", "hpl_20_10.sh"])
@pytest.mark.parametrize("threads", [None, "6"])
def test_hpl_starts_with_the_options_of_its_image(name, threads, tmp_path):
    environment = {} if threads is None else {"OMP_NUM_THREADS": threads}
    done = run(scripts("ndv4")["hpl.pyxis.sh"], tmp_path, HPL_SCRIPT=os.path.join(HPL, name), **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    shares = "24-35:36-47:0-11:12-23:72-83:84-95:48-59:60-71".split(":")
    assert done.stdout.splitlines() == [
        "local rank {0}: threads {1}, CPUs {2}".format(rank, threads or 8, cpus) for rank, cpus in enumerate(shares)
    ]
