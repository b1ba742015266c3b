# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the GPUs of a node."""

from __future__ import annotations

from typing import Mapping, Optional, Tuple

from ...core.frozen import replaced
from ...core.options import like, option, options, shared, state
from ...core.systemd.boot_unit import BEFORE_UNITS, at_boot, boot_timeout
from ...gpus.settings.options import AUTO, BETWEEN_JOBS, LEAVE, SECTION, Clocks, Settings, clock_reader


@options
class Desired(Settings):
    """The wanted settings, the persistence daemon, and the boot unit."""

    _for_absent = ("call_timeout_seconds",)

    present: bool = state(
        [
            "V(present) brings the GPUs to what is asked for.",
            "V(default) returns what was changed here, on all GPUs of the node, and removes the boot unit, the "
            "declaration and the record. Clocks, power limit and compute mode return to the driver's defaults, "
            "persistence mode is switched off if it was switched on here, and the ECC mode becomes what it was before. "
            "The options that hold settings do not matter then.",
        ],
        choices=("present", "default"),
    )
    persistence: bool = shared(like(Settings, "persistence", default=True))
    clocks: Clocks = shared(like(Settings, "clocks", default=AUTO, read=clock_reader(AUTO, LEAVE)))
    declare: bool = option(
        True,
        "Write the settings into C(/etc/gpu_node/node.json), so that C(gpunode apply gpu_settings) repeats them at "
        "each boot. V(false) leaves the declaration as it is.",
    )
    require_gpus: bool = option(False, "Fail, instead of skip, on a machine without GPUs.")
    persistenced: bool = option(
        True,
        "Enable and start C(nvidia-persistenced.service) where it is installed, unless O(persistence) is V(false). It "
        "stays enabled when the settings go.",
    )
    boot_unit: bool = at_boot(SECTION, "sets the GPUs again, as the driver itself keeps no setting but the ECC mode")
    before_units: Tuple[str, ...] = BEFORE_UNITS
    boot_timeout_seconds: int = boot_timeout(120)

    def settings(self, raised_for_jobs: bool) -> Desired:
        """The same with the clocks that are wanted of the GPUs. ``raised_for_jobs``: hooks raise them for each job."""
        words: Mapping[str, Optional[Clocks]] = {LEAVE: None, AUTO: BETWEEN_JOBS if raised_for_jobs else "max"}
        clocks = words.get(self.clocks, self.clocks) if isinstance(self.clocks, str) else self.clocks
        return replaced(self, clocks=clocks)

    @property
    def wants_daemon(self) -> bool:
        return self.present and self.persistenced and self.persistence
