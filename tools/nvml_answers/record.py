# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask one GPU every question and note code, type and value of each answer. Who the GPU is, is masked."""

from __future__ import annotations

import ctypes
import re
from typing import Any, Dict, Optional, Tuple

from .getters import FIELDS, LINK_FIELDS, SYSTEM, Peer, Question, Room, Struct, questions

FORMAT = 1
# Functions and members of structures that tell one GPU, machine or user from another: letters and digits become x.
_PRIVATE = re.compile(r"uuid|serial|guid|boardid|pdi$|hostname|platforminfo|^pid$|processname|checksum", re.IGNORECASE)
# nvml.h, nvmlValueType_t → the member of the union.
_MEMBERS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
_FIELD_LINK_COUNT = 91
_AT_ONCE = 32
Answers = Dict[str, Dict[str, Any]]


def record(binding: Any, index: int = 0) -> Dict[str, Any]:
    """Everything that the GPU with this index answers.

    :raises binding.NVMLError: when NVML cannot be opened, or has no such GPU.
    """
    binding.nvmlInit()
    try:
        count = binding.nvmlDeviceGetCount()
        handle = binding.nvmlDeviceGetHandleByIndex(index)
        peer = binding.nvmlDeviceGetHandleByIndex((index + 1) % count) if count > 1 else None
        answers: Answers = {name: _answer(binding, Question(name, name, ()), None, None) for name in SYSTEM}
        links = _links(binding, handle)
        for question in questions(binding, links, _memory_clocks(binding, handle)):
            answers[question.label] = _answer(binding, question, handle, peer)
        answers.update(_fields(binding, handle, [(field, 0) for field in FIELDS]))
        answers.update(
            _fields(binding, handle, [(field, link) for link in range(1, links + 1) for field in LINK_FIELDS])
        )
    finally:
        binding.nvmlShutdown()
    return {"format": FORMAT, "gpus": count, "links": links, "answers": answers}


def _memory_clocks(binding: Any, handle: Any) -> Tuple[int, ...]:
    try:
        return tuple(binding.nvmlDeviceGetSupportedMemoryClocks(handle))
    except binding.NVMLError:
        return ()


def _links(binding: Any, handle: Any) -> int:
    try:
        (field,) = binding.nvmlDeviceGetFieldValues(handle, [_FIELD_LINK_COUNT])
    except binding.NVMLError:
        return 0
    return int(field.value.uiVal) if field.nvmlReturn == 0 else 0


def _answer(binding: Any, question: Question, handle: Any, peer: Any) -> Dict[str, Any]:
    function = getattr(binding, question.function, None)
    if function is None:
        return {"code": None, "reason": "not in this binding"}
    arguments = []
    filled: Optional[Any] = None
    count = ctypes.c_uint()
    for one in question.arguments:
        if isinstance(one, Room):
            count.value, filled = one.length, (getattr(binding, one.name) * one.length)()
            arguments += [filled, ctypes.byref(count)]
        elif isinstance(one, Struct):
            filled = getattr(binding, one.name, lambda: None)()
            if filled is None:
                return {"code": None, "reason": "not in this binding"}
            arguments.append(ctypes.byref(filled))
        elif isinstance(one, Peer):
            if peer is None:
                return {"code": None, "reason": "there is one GPU"}
            arguments.append(peer)
        else:
            arguments.append(one)
    try:
        value = function(*([] if handle is None else [handle]), *arguments)
    except binding.NVMLError as error:
        return {"code": int(error.value)}
    except Exception as error:  # the binding stumbles over some old drivers
        return {"code": None, "reason": type(error).__name__}
    if isinstance(filled, ctypes.Array):
        value = list(filled)[: count.value]
    elif filled is not None:
        value = filled
    private = _PRIVATE.search(question.function) is not None
    return {"code": 0, "type": kind(value), "value": plain(value, private)}


def _fields(binding: Any, handle: Any, wanted: Any) -> Answers:
    answers: Answers = {}
    for start in range(0, len(wanted), _AT_ONCE):
        part = wanted[start : start + _AT_ONCE]
        try:
            values = binding.nvmlDeviceGetFieldValues(handle, part)
        except binding.NVMLError as error:
            answers.update({_label(*one): {"code": int(error.value)} for one in part})
            continue
        for (field, scope), told in zip(part, values):
            answer: Dict[str, Any] = {"code": int(told.nvmlReturn)}
            if told.nvmlReturn == 0:
                member = _MEMBERS.get(int(told.valueType))
                answer["type"] = "field type {0}".format(int(told.valueType))
                answer["value"] = None if member is None else getattr(told.value, member)
            answers[_label(field, scope)] = answer
    return answers


def _label(field: int, scope: int) -> str:
    return "field {0} of {1}".format(field, scope)


def kind(value: Any) -> str:
    """The type of an answer as the binding gives it."""
    if isinstance(value, (list, tuple)):
        return "list of {0}".format(kind(value[0])) if value else "list"
    if isinstance(value, ctypes.Array):
        return "array"
    return type(value).__name__


def plain(value: Any, private: bool = False) -> Any:
    """A value as JSON can hold it; what is private keeps its shape only."""
    if isinstance(value, (ctypes.Structure, ctypes.Union)):
        names = [field[0] for field in value._fields_]
        return {name: plain(getattr(value, name), private or _PRIVATE.search(name) is not None) for name in names}
    if isinstance(value, (list, tuple, ctypes.Array)):
        return [plain(item, private) for item in value]
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return re.sub(r"\w", "x", value) if private else value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return 0 if private else value
    return type(value).__name__  # a handle
