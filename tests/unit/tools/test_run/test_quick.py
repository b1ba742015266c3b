# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make quick` runs, and what it leaves to `make test`."""

from __future__ import annotations

from tools.test_run import quick
from tools.test_run.parts import ROOT


def test_each_slow_file_is_there_and_named_once() -> None:
    assert [slow for slow in quick.SLOW if not (ROOT / quick.TESTS / slow).is_file()] == []
    assert len(set(quick.SLOW)) == len(quick.SLOW)


def test_slow_tests_run_when_they_or_what_they_are_about_was_changed() -> None:
    slow = "plugins/module_utils/gpus/settings/test_on_simulator.py"
    assert slow in quick.left_out([]) and slow in quick.left_out(["plugins/module_utils/core/host.py", "README.md"])
    for path in ("tests/unit/" + slow, "plugins/module_utils/gpus/settings/plan.py"):
        left = quick.left_out([path])
        assert slow not in left and len(left) < len(quick.SLOW)
    assert "plugins/modules/test_rdma.py" not in quick.left_out(["plugins/modules/rdma.py"])
    assert "plugins/modules/test_rdma.py" not in quick.left_out(["plugins/module_utils/resources/rdma/plan.py"])
    assert "plugins/modules/test_rdma.py" in quick.left_out(["plugins/modules/hpcx.py"])


def test_only_what_was_changed_is_linted_and_all_else_is_run() -> None:
    found = quick.commands(["plugins/modules/rdma.py", "README.md"])
    assert found["ruff"] == ["ruff", "check", "plugins/modules/rdma.py"]
    assert list(found) == ["ruff", "format", "mypy", "docs", "unit"]
    assert "--ignore=tests/unit/plugins/modules/test_nccl.py" in found["unit"]
    assert list(quick.commands(["README.md"])) == ["docs", "unit"]
