# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the declared scratch may be. The same as ``slurm_job.scratch`` says, without all that a job needs beside it."""

from __future__ import annotations

from typing import Any, Mapping, Tuple

SECTION = "nvme_scratch"
_DEFAULTS = ("/mnt/resource_nvme", ("/nvme", "/mnt/nvme"))  # of the module nvme_scratch
NOT_DECLARED = "no scratch was declared"


def places(declared: Mapping[str, Mapping[str, Any]]) -> Tuple[str, ...]:
    """Its own mount point, then those where an adopted one may stand; none where no scratch was declared."""
    section = declared.get(SECTION)
    if section is None or section.get("state", "present") != "present":
        return ()
    adopted = section.get("adopt_mount_points", _DEFAULTS[1]) if section.get("adopt", True) else ()
    others = adopted if isinstance(adopted, (list, tuple)) else ()
    return tuple([str(section.get("mount_point", _DEFAULTS[0])), *(str(one) for one in others)])
