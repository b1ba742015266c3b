# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Call NVML through NVIDIA's binding, and tell what its error codes mean.

A feature that a GPU, a driver or the binding lacks is no error: :meth:`Gpu.read` answers it as a
:class:`Reading` without a value and with the reason. :meth:`Gpu.call` is for calls that must succeed
(setters): every failure is a :class:`CallError`, one sentence with a remedy, sorted by :class:`Kind`.

This module never loads the binding or opens NVML: ``session.py`` does, in a child process.
"""

from __future__ import annotations

import enum
import os
import time
from typing import Any, Callable, Dict, Generic, Mapping, Optional, Tuple, TypeVar, cast

from ...core.frozen import frozen
from ...core.resource import NodeError
from .identity import Identity
from .values import NotTold

Value = TypeVar("Value")
Other = TypeVar("Other")


class Kind(enum.Enum):
    """What an NVML error asks of us. The values appear in module results."""

    ABSENT = "absent"  # this GPU, driver or binding does not have it: report null
    NO_DATA = "no_data"  # it has it, and has nothing to tell just now: report null
    UNUSABLE = "unusable"  # it has it, and told what cannot be: report null, and never take it for healthy
    PERMISSION = "permission"
    WRONG_VALUE = "wrong_value"
    IN_USE = "in_use"
    NOT_FOUND = "not_found"
    LOST = "lost"  # the GPU no longer answers
    RESET_REQUIRED = "reset_required"
    DRIVER_NOT_LOADED = "driver_not_loaded"
    DRIVER_MISMATCH = "driver_mismatch"
    NO_LIBRARY = "no_library"
    NOT_INITIALIZED = "not_initialized"
    HUNG = "hung"  # the call did not return within the limit (told by the parent, never by NVML)
    OUT_OF_TIME = "out_of_time"  # not tried: the limit for the whole run was used up
    FAILED = "failed"


# After one of these, no further call on this GPU makes sense.
ENDS_GPU = frozenset([Kind.LOST, Kind.OUT_OF_TIME, Kind.HUNG])
# After one of these, no further call at all makes sense.
ENDS_SESSION = frozenset([Kind.DRIVER_NOT_LOADED, Kind.DRIVER_MISMATCH, Kind.NO_LIBRARY, Kind.NOT_INITIALIZED])

# What helps a GPU that does not answer; the commands, the modules and the checks all say it in these words.
LOG = "look for NVRM and Xid lines in the kernel log"
REBOOT = LOG + ", drain the node and reboot it"
_STAYS = LOG + ", and reboot the node when it stays"
RESET = "drain the node, then reset the GPU with nvidia-smi --gpu-reset, or reboot"
REPLACE = "drain the node; redeploy the machine or have the GPU replaced"
_BECOME_ROOT = "run it as root (in a play: become: true)"
_CONTAINER = (
    "run it on the node itself; a container needs the devices /dev/nvidia* in its device cgroup, and CAP_SYS_ADMIN for "
    "what only root may do"
)

# nvml.h, enum nvmlReturn_enum: code → (its name there, kind, reason, remedy).
CODES: Dict[int, Tuple[str, Kind, str, str]] = {
    1: ("UNINITIALIZED", Kind.NOT_INITIALIZED, "NVML is not initialized", "report this as a bug"),
    2: ("INVALID_ARGUMENT", Kind.WRONG_VALUE, "the driver rejects this value", "choose a value that gpu_info lists"),
    3: ("NOT_SUPPORTED", Kind.ABSENT, "this GPU or driver does not support it", "leave this setting out for this GPU"),
    4: ("NO_PERMISSION", Kind.PERMISSION, "the driver allows this to root only", _BECOME_ROOT),
    5: ("ALREADY_INITIALIZED", Kind.FAILED, "NVML is initialized already", "report this as a bug"),
    6: ("NOT_FOUND", Kind.NOT_FOUND, "the driver does not find it", "list what is there with gpu_info"),
    7: ("INSUFFICIENT_SIZE", Kind.FAILED, "the answer did not fit", "run it again"),
    8: (
        "INSUFFICIENT_POWER",
        Kind.FAILED,
        "its power cables are not attached properly",
        "check the power cables of the GPU",
    ),
    9: (
        "DRIVER_NOT_LOADED",
        Kind.DRIVER_NOT_LOADED,
        "the NVIDIA kernel driver is not loaded",
        "load it with modprobe nvidia, and see the kernel log when that fails",
    ),
    10: ("TIMEOUT", Kind.FAILED, "the driver gave up waiting for the GPU", _STAYS),
    11: ("IRQ_ISSUE", Kind.FAILED, "the kernel has an interrupt problem with the GPU", _STAYS),
    12: (
        "LIBRARY_NOT_FOUND",
        Kind.NO_LIBRARY,
        "the library libnvidia-ml.so.1 was not found",
        "install the NVIDIA driver, or add the folder of that library to the linker cache with ldconfig",
    ),
    13: (
        "FUNCTION_NOT_FOUND",
        Kind.ABSENT,
        "this driver version does not have this call",
        "use another driver version",
    ),
    14: ("CORRUPTED_INFOROM", Kind.FAILED, "the InfoROM of the GPU is corrupted", REPLACE),
    15: ("GPU_IS_LOST", Kind.LOST, "the GPU is lost: it fell off the bus or stopped answering", REBOOT),
    16: ("RESET_REQUIRED", Kind.RESET_REQUIRED, "the GPU needs a reset before it can be used again", RESET),
    17: (
        "OPERATING_SYSTEM",
        Kind.FAILED,
        "the operating system blocked the request",
        "check the cgroup and container limits",
    ),
    18: (
        "LIB_RM_VERSION_MISMATCH",
        Kind.DRIVER_MISMATCH,
        "libnvidia-ml.so.1 and the loaded kernel driver are of different versions, as after an update",
        "reboot, or unload and load the nvidia kernel modules",
    ),
    19: (
        "IN_USE",
        Kind.IN_USE,
        "the GPU is in use",
        "stop the processes that use it (gpu_info lists them), then run it again",
    ),
    20: ("MEMORY", Kind.FAILED, "there is not enough memory", "free some memory, then run it again"),
    21: ("NO_DATA", Kind.NO_DATA, "the driver has no data for it", "run it again later"),
    22: ("VGPU_ECC_NOT_SUPPORTED", Kind.FAILED, "ECC and vGPU exclude each other here", "turn one of the two off"),
    23: (
        "INSUFFICIENT_RESOURCES",
        Kind.FAILED,
        "the GPU has run out of resources for it",
        "free the resources, then run it again",
    ),
    24: (
        "FREQ_NOT_SUPPORTED",
        Kind.WRONG_VALUE,
        "the driver rejects this clock",
        "choose a clock that gpu_info lists as supported",
    ),
    25: (
        "ARGUMENT_VERSION_MISMATCH",
        Kind.ABSENT,
        "this driver version has another form of this call",
        "use another driver version",
    ),
    26: ("DEPRECATED", Kind.ABSENT, "this driver version has withdrawn this call", "use another setting in its place"),
    27: ("NOT_READY", Kind.FAILED, "the driver is not ready to tell it", "run it again later"),
    28: ("GPU_NOT_FOUND", Kind.NOT_FOUND, "no such GPU was found", "list the GPUs with gpu_info"),
    29: ("INVALID_STATE", Kind.FAILED, "the GPU is not in a state that allows it", "run it again when the GPU is idle"),
    30: ("RESET_TYPE_NOT_SUPPORTED", Kind.ABSENT, "the GPU does not support this kind of reset", "reboot"),
    999: ("UNKNOWN", Kind.FAILED, "the driver failed without telling why", _STAYS),
}
_FUNCTION_NOT_FOUND = 13
# A process that sleeps may wake up late on a busy machine.
_PAUSE_SLACK_SECONDS = 10.0


def permitted() -> str:
    """The remedy for what the driver does not allow. Root of a container may less than root."""
    return _CONTAINER if os.geteuid() == 0 else _BECOME_ROOT


def classify(code: int) -> Kind:
    """The kind of an NVML return code; codes that are newer than this table count as failures."""
    return CODES[code][1] if code in CODES else Kind.FAILED


class CallError(NodeError):
    """One NVML call failed. ``code`` is NVML's return code, or None when the answer is not NVML's."""

    def __init__(self, thing: str, reason: str, remedy: str, kind: Kind, call: str, code: Optional[int] = None) -> None:
        super().__init__(thing, reason, remedy)
        self.kind = kind
        self.call = call
        self.code = code

    def __reduce__(self) -> Tuple[Any, ...]:  # it travels from the child process to its parent
        return type(self), (self.thing, self.reason, self.remedy, self.kind, self.call, self.code)

    @classmethod
    def of_code(cls, thing: str, call: str, code: int) -> CallError:
        if code not in CODES:
            return cls(thing, "{0} failed with the NVML code {1}".format(call, code), _STAYS, Kind.FAILED, call, code)
        name, kind, reason, remedy = CODES[code]
        if kind is Kind.PERMISSION:
            reason, remedy = reason + (", and this root may not" if os.geteuid() == 0 else ""), permitted()
        return cls(thing, "{0} ({1}: {2})".format(reason, call, name), remedy, kind, call, code)


@frozen
class Reading(Generic[Value]):
    """A value that NVML told, or the reason why there is none. ``value`` None goes with a ``reason``."""

    value: Optional[Value]
    reason: Optional[str] = None
    kind: Optional[Kind] = None

    # Written out, which is three times as fast: a look at 8 GPUs makes some thousand of these.
    def __init__(self, value: Optional[Value], reason: Optional[str] = None, kind: Optional[Kind] = None) -> None:
        values = self.__dict__
        values["value"], values["reason"], values["kind"] = value, reason, kind

    @property
    def ok(self) -> bool:
        return self.reason is None

    @property
    def absent(self) -> bool:
        """Whether this GPU, driver or binding does not have the feature at all."""
        return self.kind is Kind.ABSENT

    def map(self, convert: Callable[[Any], Other]) -> Reading[Other]:
        """The converted value; a value that cannot be converted counts as none."""
        if self.reason is not None:
            return cast(Reading[Other], self)
        try:
            return Reading(convert(self.value))
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            kind = Kind.NO_DATA if isinstance(error, NotTold) else Kind.UNUSABLE
            return Reading(None, "the driver told no usable value ({0})".format(error), kind)


def missing(reason: str, kind: Kind = Kind.ABSENT) -> Reading[Any]:
    """A reading without a value."""
    return Reading(None, reason, kind)


class Nvml:
    """The binding with error handling. Lives in the child process only.

    ``report`` is told the name of each call before it is made; ``deadline`` (time.monotonic) ends the whole run.
    """

    def __init__(self, binding: Any, report: Callable[..., None], deadline: Optional[float] = None) -> None:
        self.binding = binding
        self._report = report
        self._deadline = deadline

    def constant(self, name: str, default: int) -> int:
        """A constant of the binding; older bindings lack some, so the value of nvml.h stands beside it."""
        value = getattr(self.binding, name, default)
        return value if isinstance(value, int) else default

    def call(self, thing: str, name: str, *arguments: Any) -> Any:
        """What ``pynvml.<name>(*arguments)`` returns.

        :raises CallError: whatever went wrong; nothing else escapes.
        """
        return self.call_limited(None, thing, name, *arguments)

    def call_limited(self, limit_seconds: Optional[float], thing: str, name: str, *arguments: Any) -> Any:
        """As :meth:`call`, with a time limit of its own."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise CallError(
                thing,
                "the time limit of the whole run was used up before {0}".format(name),
                "look at the GPUs that hung, or raise the limit",
                Kind.OUT_OF_TIME,
                name,
            )
        function = getattr(self.binding, name, None)
        if function is None:
            raise CallError(
                thing,
                "this version of NVIDIA's Python binding does not have {0}".format(name),
                "install a newer nvidia-ml-py",
                Kind.ABSENT,
                name,
                _FUNCTION_NOT_FOUND,
            )
        self._report("{0} of {1}".format(name, thing), limit_seconds)
        try:
            return function(*arguments)
        except self.binding.NVMLError as error:
            raise CallError.of_code(thing, name, int(error.value)) from error
        except Exception as error:  # the binding itself stumbles over old drivers now and then
            if type(error).__name__ == "NVMLLibraryMismatchError":  # its own word for a missing symbol
                raise CallError.of_code(thing, name, _FUNCTION_NOT_FOUND) from error
            raise CallError(
                thing,
                "NVIDIA's Python binding failed in {0} ({1}: {2})".format(name, type(error).__name__, error),
                "install another version of nvidia-ml-py",
                Kind.FAILED,
                name,
            ) from error

    def pause(self, seconds: float) -> None:
        """Make no call for a while; the time limit of a call does not run meanwhile."""
        self._report("a pause between calls", seconds + _PAUSE_SLACK_SECONDS)
        time.sleep(seconds)

    def read(self, thing: str, name: str, *arguments: Any) -> Reading[Any]:
        """The answer of a getter, or the reason why there is none.

        :raises CallError: only when no further call on this GPU, or at all, makes sense.
        """
        try:
            return Reading(self.call(thing, name, *arguments))
        except CallError as error:
            if error.kind in ENDS_GPU or error.kind in ENDS_SESSION:
                raise
            return Reading(None, error.reason, error.kind)


class Gpu:
    """One GPU of an open session: NVML calls whose first argument is its handle.

    ``peers`` are the other GPUs of the machine that could be opened, for questions about pairs; ``nameless`` says
    why a part of the identity is None.
    """

    def __init__(self, nvml: Nvml, handle: Any, identity: Identity, nameless: Mapping[str, Reading[Any]]) -> None:
        self.nvml = nvml
        self.handle = handle
        self.identity = identity
        self.nameless = nameless
        self.peers: Tuple[Gpu, ...] = ()
        self.name = identity.label

    def call(self, function: str, *arguments: Any) -> Any:
        """Make a call that must succeed (a setter). ``function`` is a name of pynvml.

        :raises CallError: whatever went wrong.
        """
        return self.nvml.call(self.name, function, self.handle, *arguments)

    def read(self, function: str, *arguments: Any) -> Reading[Any]:
        """Ask for something that may be absent.

        :raises CallError: only when the GPU is lost or the whole session ended.
        """
        return self.nvml.read(self.name, function, self.handle, *arguments)

    def first(self, *calls: Tuple[Any, ...]) -> Reading[Any]:
        """The first answer of several ways to ask for the same, each ``(function, *arguments)``.

        A later way is tried only where the earlier ones gave no value; the reason told is that of the first way.
        """
        answer: Optional[Reading[Any]] = None
        for function, *arguments in calls:
            reading = self.read(function, *arguments)
            if reading.ok:
                return reading
            answer = answer or reading
        if answer is None:
            raise ValueError("no call was given")
        return answer
