# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the GPUs of a node."""

from __future__ import annotations

from typing import Any, Optional, Tuple, Union

from ...core.options import REQUIRED, option, options, state
from ...core.systemd.boot_unit import BEFORE_UNITS, at_boot, boot_timeout
from ...facts.nvml.selectors import ALL, INDEX
from ...gpus.settings.wish import (
    BETWEEN_JOBS,
    CALL_TIMEOUT_SECONDS,
    COMPUTE_MODES,
    SECTION,
    Clocks,
    Override,
    PowerLimit,
    Settings,
    Wish,
    clocks_of,
    overrides_of,
    power_of,
    selectors_of,
)

AUTO, LEAVE = "auto", "leave"


def _clocks(value: Any) -> Union[str, Optional[Clocks]]:
    return str(value) if value in (AUTO, LEAVE) else clocks_of(value, "clocks")


@options
class OfOneGpu:
    """Settings of one GPU that differ from those of the others."""

    gpu: str = option(REQUIRED, "The GPU by index, UUID or PCI address. It must be among O(gpus).", whole=INDEX)
    persistence: Optional[bool] = option(None, "As O(persistence), for this GPU.")
    clocks: Any = option(None, "V(max), V(default) or a mapping, as O(clocks), for this GPU.", kind="raw")
    power_limit_watts: Any = option(None, "As O(power_limit_watts), for this GPU.", kind="raw")
    ecc: Optional[bool] = option(None, "As O(ecc), for this GPU.")
    compute_mode: Optional[str] = option(None, "As O(compute_mode), for this GPU.", choices=COMPUTE_MODES)


@options
class Desired:
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
    persistence: bool = option(
        True,
        [
            "Keep the driver loaded while no program uses the GPUs. Without it the driver forgets clocks and power "
            "limit when the last user of a GPU leaves.",
            "Where C(nvidia-persistenced) runs and holds it on, V(false) changes nothing and says so.",
        ],
    )
    clocks: Union[str, Clocks] = option(
        AUTO,
        [
            "V(max) locks the highest supported graphics and memory clock. A GPU that lacks one of these abilities "
            "takes what it has, and the rest is returned in RV(unsupported).",
            "V(default) lifts all locks and resets application clocks.",
            "V(auto) is V(default) where Slurm's hooks (module M(trainyard.gpu_node.slurm_hooks)) raise the clocks for "
            "each job and slurm.conf reaches them, otherwise V(max). A GPU in MIG mode has V(max) in any case, as no "
            "hook sets clocks that several jobs share.",
            "V(leave) leaves the clocks as they are.",
            "A mapping with C(graphics_mhz), C(memory_mhz) or both sets these clocks, in MHz. A clock that a GPU does "
            "not support is refused, with the nearest supported ones named, unless O(snap) is set.",
        ],
        kind="raw",
        read=_clocks,
    )
    power_limit_watts: Optional[PowerLimit] = option(
        None,
        [
            "The power limit in watts, V(default) for the driver's default or V(max) for the highest one allowed. "
            "Left alone when unset.",
            "A number outside the range of a GPU is refused, with the range named.",
        ],
        kind="raw",
        read=lambda value: power_of(value, "power_limit_watts"),
        example=350,
    )
    ecc: Optional[bool] = option(
        None,
        "Switch ECC of the GPU memory on or off. A change waits for a GPU reset or a reboot, which is never done here, "
        "and is returned in RV(pending) until then. Left alone when unset.",
        example=True,
    )
    compute_mode: Optional[str] = option(
        None,
        "Who may compute on the GPU: any number of processes, one process, or nobody. Left alone when unset.",
        choices=COMPUTE_MODES,
        example="exclusive_process",
    )
    gpus: Tuple[str, ...] = option(
        (ALL,),
        [
            "The GPUs to set: V(all), or a list of indexes, UUIDs and PCI addresses (V(0001:00:00.0)).",
            "An index may mean another GPU after a reboot; UUIDs and PCI addresses do not.",
        ],
        whole=INDEX,
        read=lambda value: selectors_of(value) or (ALL,),
    )
    overrides: Tuple[Override, ...] = option(
        (),
        "Settings of single GPUs that differ from those of the others. A setting that is left out here is that of the "
        "others.",
        kind="list",
        elements="dict",
        inner=OfOneGpu,
        read=overrides_of,
    )
    snap: bool = option(False, "Take the nearest supported clock, with a note, instead of refusing an unsupported one.")
    declare: bool = option(
        True,
        "Write the settings into C(/etc/gpu_node/node.json), so that C(gpunode apply gpu_settings) repeats them at "
        "each boot. V(false) leaves the declaration as it is.",
    )
    require_gpus: bool = option(False, "Fail, instead of skip, on a machine without GPUs.")
    call_timeout_seconds: float = option(
        CALL_TIMEOUT_SECONDS,
        "A single call of the driver may take so long. A call that takes longer fails the GPU that it was made for.",
        bounds=(0.1, 600),
        unit="seconds",
    )
    persistenced: bool = option(
        True,
        "Enable and start C(nvidia-persistenced.service) where it is installed, unless O(persistence) is V(false). It "
        "stays enabled when the settings go.",
    )
    boot_unit: bool = at_boot(SECTION, "sets the GPUs again, as the driver itself keeps no setting but the ECC mode")
    before_units: Tuple[str, ...] = BEFORE_UNITS
    boot_timeout_seconds: int = boot_timeout(120)

    def wish(self, raised_for_jobs: bool) -> Wish:
        """What is wanted of the GPUs. ``raised_for_jobs``: hooks raise the clocks for each job."""
        clocks = self.clocks
        if clocks == AUTO:
            clocks = Clocks(BETWEEN_JOBS if raised_for_jobs else "max")
        return Wish(
            settings=Settings(
                self.persistence,
                clocks if isinstance(clocks, Clocks) else None,
                self.power_limit_watts,
                self.ecc,
                self.compute_mode,
            ),
            gpus=None if self.gpus == (ALL,) else self.gpus,
            overrides=self.overrides,
            undo=not self.present,
            snap=self.snap,
            declare=self.declare,
            require_gpus=self.require_gpus,
            call_timeout_seconds=self.call_timeout_seconds,
        )
