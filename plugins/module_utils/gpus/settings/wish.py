# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of the GPUs: made of the options, and of what was declared, which hooks and health read too."""

from __future__ import annotations

import math
from typing import Any, Dict, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...core.resource import NodeError
from ...facts.nvml.selectors import ALL, parse, parse_one

SECTION = "gpu_settings"
COMPUTE_MODES = ("default", "exclusive_process", "prohibited")
SETTING_NAMES = ("persistence", "clocks", "power_limit_watts", "ecc", "compute_mode")
OTHER_NAMES = ("gpus", "overrides", "snap", "call_timeout_seconds")
CALL_TIMEOUT_SECONDS = 10.0
# Above every clock of every NVIDIA GPU; NVML's symbolic limits (0xffffff01 …) must not pass as numbers.
HIGHEST_CLOCK_MHZ = 100000
HIGHEST_POWER_WATTS = 100000.0
# Of the declaration alone: the hooks of Slurm raise the clocks of a job's GPUs, and the driver's default is between
# jobs. Of a GPU in MIG mode several jobs have a part, so that no hook sets its clocks: they are always the highest.
BETWEEN_JOBS = "between_jobs"


def _wrong(name: str, reason: str, remedy: str) -> NodeError:
    return NodeError("option {0}".format(name), reason, remedy)


@frozen
class Clocks:
    """``word`` is ``max``, ``default`` or ``between_jobs``; without it the given values are meant (MHz, None: left
    alone)."""

    word: Optional[str] = None
    graphics_mhz: Optional[int] = None
    memory_mhz: Optional[int] = None

    def of(self, mig: bool) -> "Clocks":
        """For a GPU that is in MIG mode, or is not."""
        if self.word != BETWEEN_JOBS:
            return self
        return Clocks("max" if mig else "default")

    def to_option(self) -> Any:
        if self.word is not None:
            return self.word
        pairs = (("graphics_mhz", self.graphics_mhz), ("memory_mhz", self.memory_mhz))
        return {name: value for name, value in pairs if value is not None}


@frozen
class PowerLimit:
    """``word`` is ``max`` or ``default``; without it ``milliwatts`` is meant."""

    word: Optional[str] = None
    milliwatts: int = 0

    def to_option(self) -> Any:
        return self.word if self.word is not None else self.milliwatts / 1000.0


@frozen
class Settings:
    """The settings of one GPU; None leaves that setting as it is."""

    persistence: Optional[bool] = None
    clocks: Optional[Clocks] = None
    power_limit: Optional[PowerLimit] = None
    ecc: Optional[bool] = None
    compute_mode: Optional[str] = None

    @classmethod
    def from_options(cls, options: Mapping[str, Any], where: str = "") -> "Settings":
        return cls(
            persistence=_boolean(options.get("persistence"), where + "persistence"),
            clocks=_declared_clocks(options.get("clocks"), where),
            power_limit=power_of(options.get("power_limit_watts"), where + "power_limit_watts"),
            ecc=_boolean(options.get("ecc"), where + "ecc"),
            compute_mode=_word(options.get("compute_mode"), where + "compute_mode", COMPUTE_MODES),
        )

    def to_options(self) -> Dict[str, Any]:
        options = {
            "persistence": self.persistence,
            "clocks": None if self.clocks is None else self.clocks.to_option(),
            "power_limit_watts": None if self.power_limit is None else self.power_limit.to_option(),
            "ecc": self.ecc,
            "compute_mode": self.compute_mode,
        }
        return {name: value for name, value in options.items() if value is not None}

    def over(self, base: "Settings") -> "Settings":
        """These settings, and ``base`` where these say nothing."""
        names = ("persistence", "clocks", "power_limit", "ecc", "compute_mode")
        pairs = ((getattr(self, name), getattr(base, name)) for name in names)
        return Settings(*(other if own is None else own for own, other in pairs))


@frozen
class Override:
    """Settings of one GPU that differ from those of the others."""

    gpu: str
    settings: Settings


@frozen
class Wish:
    """``gpus`` None means every GPU of the node. ``undo``: what was changed here is returned, on all of them."""

    settings: Settings = Settings()
    gpus: Optional[Tuple[str, ...]] = None
    overrides: Tuple[Override, ...] = ()
    undo: bool = False
    snap: bool = False
    declare: bool = False
    require_gpus: bool = False
    call_timeout_seconds: float = CALL_TIMEOUT_SECONDS

    @classmethod
    def from_section(cls, section: Mapping[str, Any]) -> "Wish":
        """What was declared.

        :raises NodeError: it is not what we write; naming the first value that is wrong.
        """
        _known(section, SETTING_NAMES + OTHER_NAMES, "")
        seconds = _number(section.get("call_timeout_seconds", CALL_TIMEOUT_SECONDS))
        if seconds is None or seconds <= 0:
            raise _wrong("call_timeout_seconds", "it is not a time limit", "use a number of seconds")
        return cls(
            settings=Settings.from_options(section),
            gpus=selectors_of(section.get("gpus")),
            overrides=overrides_of(section.get("overrides")),
            snap=_boolean(section.get("snap"), "snap") or False,
            call_timeout_seconds=seconds,
        )

    def to_dict(self) -> Dict[str, Any]:
        """The section of the declaration: what :meth:`from_section` turns into the same wish again."""
        options = self.settings.to_options()
        if self.gpus is not None:
            options["gpus"] = list(self.gpus)
        if self.overrides:
            options["overrides"] = [dict(one.settings.to_options(), gpu=one.gpu) for one in self.overrides]
        if self.snap:
            options["snap"] = True
        if self.call_timeout_seconds != CALL_TIMEOUT_SECONDS:
            options["call_timeout_seconds"] = self.call_timeout_seconds
        return options

    @property
    def asks_nothing(self) -> bool:
        return self.settings == Settings() and all(one.settings == Settings() for one in self.overrides)


def _known(options: Mapping[str, Any], names: Tuple[str, ...], where: str) -> None:
    unknown = sorted(str(name) for name in options if name not in names)
    if unknown:
        raise _wrong(where + unknown[0], "there is no such option", "use one of " + ", ".join(sorted(names)))


def _boolean(value: Any, name: str) -> Optional[bool]:
    if value is None or isinstance(value, bool):
        return value
    raise _wrong(name, "{0!r} is neither true nor false".format(value), "use true or false")


def _word(value: Any, name: str, choices: Tuple[str, ...]) -> Optional[str]:
    if value is None:
        return None
    if not isinstance(value, str) or value not in choices:
        raise _wrong(name, "{0!r} is not known".format(value), "use one of " + ", ".join(choices))
    return value


def _number(value: Any) -> Optional[float]:
    """A finite number, also from text (templates give text); None when it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _mhz(value: Any, name: str) -> Optional[int]:
    if value is None:
        return None
    number = _number(value)
    if number is None or number != int(number) or not 0 < number < HIGHEST_CLOCK_MHZ:
        raise _wrong(name, "{0!r} is not a clock".format(value), "use a whole number of MHz, such as 1410")
    return int(number)


def clocks_of(value: Any, name: str) -> Optional[Clocks]:
    if value is None:
        return None
    if isinstance(value, str) and value in ("max", "default"):
        return Clocks(word=value)
    if isinstance(value, Mapping):
        _known(value, ("graphics_mhz", "memory_mhz"), name + ".")
        clocks = Clocks(
            graphics_mhz=_mhz(value.get("graphics_mhz"), name + ".graphics_mhz"),
            memory_mhz=_mhz(value.get("memory_mhz"), name + ".memory_mhz"),
        )
        if clocks != Clocks():
            return clocks
    raise _wrong(
        name,
        "{0!r} names no clock".format(value),
        "use max, default, or a mapping with graphics_mhz, memory_mhz or both",
    )


def _declared_clocks(value: Any, where: str) -> Optional[Clocks]:
    return Clocks(BETWEEN_JOBS) if value == BETWEEN_JOBS and not where else clocks_of(value, where + "clocks")


def power_of(value: Any, name: str) -> Optional[PowerLimit]:
    if value is None:
        return None
    if isinstance(value, str) and value in ("max", "default"):
        return PowerLimit(word=value)
    number = _number(value)
    if number is None or not 0 < number <= HIGHEST_POWER_WATTS or round(number * 1000) == 0:
        raise _wrong(name, "{0!r} is not a power limit".format(value), "use a number of watts, default or max")
    return PowerLimit(milliwatts=int(round(number * 1000)))


def selectors_of(value: Any) -> Optional[Tuple[str, ...]]:
    found = parse(value, "option gpus")
    return None if found == (ALL,) else found


def overrides_of(value: Any) -> Tuple[Override, ...]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise _wrong("overrides", "{0!r} is not a list".format(value), "use a list of mappings, each with a gpu")
    overrides = []
    for number, one in enumerate(value):
        where = "overrides[{0}].".format(number)
        if not isinstance(one, Mapping):
            raise _wrong(where[:-1], "{0!r} is not a mapping".format(one), "use a mapping with a gpu and its settings")
        _known(one, SETTING_NAMES + ("gpu",), where)
        gpu = parse_one(one.get("gpu"), "option {0}gpu".format(where))
        overrides.append(Override(gpu, Settings.from_options(one, where)))
    return tuple(overrides)


def makes_slower(section: Any) -> bool:
    """Whether a declared section, which nobody has validated, may make a GPU slower than it comes: it sets clocks or
    power to a value of its own."""
    if not isinstance(section, Mapping):
        return False
    overrides = section.get("overrides")
    return any(
        isinstance(one, Mapping)
        and (isinstance(one.get("clocks"), Mapping) or isinstance(one.get("power_limit_watts"), (int, float)))
        for one in (section, *(overrides if isinstance(overrides, (list, tuple)) else ()))
    )
