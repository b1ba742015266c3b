# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of deploy/kubernetes share: where it is, and a node as the API of a cluster has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Optional

KUBERNETES = Path(__file__).resolve().parents[3] / "deploy" / "kubernetes"


def node(condition: str, status: Optional[str], reason: str = "ChecksFailed") -> Dict[str, Any]:
    """One that is ready; ``status`` None: it has no condition of ours."""
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    if status is not None:
        conditions.append({"type": condition, "status": status, "reason": reason})
    return {"metadata": {"name": "gpu01", "labels": {}}, "status": {"conditions": conditions}}
