# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Section ``gpu_settings`` of the declaration: the settings of all GPUs, and of single ones."""

from __future__ import annotations

import math
from typing import Any, Callable, List, Mapping, Optional, Tuple, Union

from ...core.frozen import replaced
from ...core.options import REQUIRED, like, of_section, option, options, shared
from ...core.resource import NodeError
from ...facts.nvml.identity import Identity
from ...facts.nvml.selectors import ALL, INDEX, matches, matches_any, parse, parse_one

SECTION = "gpu_settings"
COMPUTE_MODES = ("default", "exclusive_process", "prohibited")
CALL_TIMEOUT_SECONDS = 10.0
# Above every clock of every NVIDIA GPU; NVML's symbolic limits (0xffffff01 …) must not pass as numbers.
HIGHEST_CLOCK_MHZ = 100000
HIGHEST_POWER_WATTS = 100000.0
# Of the declaration alone: the hooks of Slurm raise the clocks of a job's GPUs, and the driver's default is between
# jobs. Of a GPU in MIG mode several jobs have a part, so that no hook sets its clocks: they are always the highest.
BETWEEN_JOBS = "between_jobs"
# Of a converge alone, which decides: between_jobs or max, and no clocks in the declaration.
AUTO, LEAVE = "auto", "leave"
#: ``max``, ``default``, one of the words above, or ``graphics_mhz``, ``memory_mhz`` or both.
Clocks = Union[str, Mapping[str, int]]


def _wrong(name: str, reason: str, remedy: str) -> NodeError:
    return NodeError("option {0}".format(name), reason, remedy)


def _number(value: Any) -> Optional[float]:
    """A finite number, also from text (templates give text); None when it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _mhz(value: Any, name: str) -> int:
    number = _number(value)
    if number is None or number != int(number) or not 0 < number < HIGHEST_CLOCK_MHZ:
        raise _wrong(name, "{0!r} is not a clock".format(value), "use a whole number of MHz, such as 1410")
    return int(number)


def clock_reader(*words: str) -> Callable[[Any], Clocks]:
    """What reads clocks, where ``words`` may be given beside ``max`` and ``default``."""
    names = ("graphics_mhz", "memory_mhz")

    def read(value: Any) -> Clocks:
        if isinstance(value, str) and value in ("max", "default", *words):
            return value
        if isinstance(value, Mapping):
            unknown = sorted(str(name) for name in value if name not in names)
            if unknown:
                raise _wrong("clocks." + unknown[0], "there is no such option", "use one of " + ", ".join(names))
            found = {name: _mhz(value[name], "clocks." + name) for name in names if value.get(name) is not None}
            if found:
                return found
        raise _wrong(
            "clocks",
            "{0!r} names no clock".format(value),
            "use max, default, or a mapping with graphics_mhz, memory_mhz or both",
        )

    return read


def _power(value: Any) -> Union[str, float]:
    if isinstance(value, str) and value in ("max", "default"):
        return value
    number = _number(value)
    if number is None or not 0 < number <= HIGHEST_POWER_WATTS or round(number * 1000) == 0:
        raise _wrong(
            "power_limit_watts", "{0!r} is not a power limit".format(value), "use a number of watts, default or max"
        )
    return int(round(number * 1000)) / 1000.0


@options
class _OfEachGpu:
    """A setting that is None leaves the GPUs as they are."""

    persistence: Optional[bool] = option(
        None,
        [
            "Keep the driver loaded while no program uses the GPUs. Without it the driver forgets clocks and power "
            "limit when the last user of a GPU leaves.",
            "Where C(nvidia-persistenced) runs and holds it on, V(false) changes nothing and says so.",
        ],
    )
    clocks: Optional[Clocks] = option(
        None,
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
        read=clock_reader(BETWEEN_JOBS),
    )
    power_limit_watts: Optional[Union[str, float]] = option(
        None,
        [
            "The power limit in watts, V(default) for the driver's default or V(max) for the highest one allowed. "
            "Left alone when unset.",
            "A number outside the range of a GPU is refused, with the range named.",
        ],
        kind="raw",
        read=_power,
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


def _of_one(name: str, help: str = "As O({0}), for this GPU.") -> Any:  # pylint: disable=redefined-builtin
    return like(_OfEachGpu, name, help=help.format(name), example=None)


@options
class Override:
    """Settings of one GPU that differ from those of the others; None: those of the others."""

    gpu: str = option(
        REQUIRED,
        "The GPU by index, UUID or PCI address. It must be among O(gpus).",
        whole=INDEX,
        read=lambda value: parse_one(value, "option gpu"),
    )
    persistence: Optional[bool] = shared(_of_one("persistence"))
    clocks: Optional[Clocks] = shared(
        replaced(_of_one("clocks", "V(max), V(default) or a mapping, as O(clocks), for this GPU."), read=clock_reader())
    )
    power_limit_watts: Optional[Union[str, float]] = shared(_of_one("power_limit_watts"))
    ecc: Optional[bool] = shared(_of_one("ecc"))
    compute_mode: Optional[str] = shared(_of_one("compute_mode"))


@options
class Settings(_OfEachGpu):
    """The section as a converge stores it. What it does not have is left as it is."""

    # A converge may have others; what hooks, the boot unit and commands run has these.
    present = True
    declare = False
    require_gpus = False

    gpus: Tuple[str, ...] = option(
        (ALL,),
        [
            "The GPUs to set: V(all), or a list of indexes, UUIDs and PCI addresses (V(0001:00:00.0)).",
            "An index may mean another GPU after a reboot; UUIDs and PCI addresses do not.",
        ],
        whole=INDEX,
        read=lambda value: parse(value, "option gpus"),
    )
    overrides: Tuple[Override, ...] = option(
        (),
        "Settings of single GPUs that differ from those of the others. A setting that is left out here is that of the "
        "others.",
        inner=Override,
    )
    snap: bool = option(False, "Take the nearest supported clock, with a note, instead of refusing an unsupported one.")
    call_timeout_seconds: float = option(
        CALL_TIMEOUT_SECONDS,
        "A single call of the driver may take so long. A call that takes longer fails the GPU that it was made for.",
        bounds=(0.1, 600),
        unit="seconds",
    )


def asked_of(settings: Settings, gpu: Identity, name: str) -> Any:
    """What is asked of this setting for a GPU; its own override comes before what holds for all. None: nothing."""
    if not matches_any(gpu, settings.gpus):
        return None
    own = next((getattr(one, name) for one in settings.overrides if matches(gpu, one.gpu)), None)
    return getattr(settings, name) if own is None else own


def makes_slower(section: Optional[Mapping[str, Any]]) -> bool:
    """Whether a declared section may make a GPU slower than it comes: it sets clocks or power to a value."""
    settings = of_section(Settings, section)
    everything: List[Union[Settings, Override]] = [settings, *settings.overrides]
    return any(isinstance(one.clocks, Mapping) or isinstance(one.power_limit_watts, float) for one in everything)
