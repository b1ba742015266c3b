# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the steps of a plan lead to, for the diff of check mode. Pure.

What a GPU is divided into after its mode has changed may only be known then, and is not foreseen.
"""

from __future__ import annotations

from typing import Sequence, Tuple

from ...core.frozen import replaced
from ...core.resource import Action
from .instances import Compute, Instance
from .place import Placed
from .types import EndCompute, EndInstance, Gpu, GpuAction, MakeCompute, MakeInstance, SetMode

# Of what is not made yet: the driver numbers it.
NEW = -1


def predict(gpus: Sequence[Gpu], actions: Sequence[Action]) -> Tuple[Gpu, ...]:
    found = {gpu.uuid: gpu for gpu in gpus}
    for action in actions:
        if isinstance(action, GpuAction) and action.uuid in found:
            found[action.uuid] = _after(found[action.uuid], action)
    return tuple(found.values())


def _after(gpu: Gpu, action: GpuAction) -> Gpu:
    if isinstance(action, SetMode):
        return replaced(gpu, pending=action.on, mode=action.on if action.resetless else gpu.mode)
    if isinstance(action, MakeInstance):
        profile = gpu.part.by_id(action.profile_id)
        made = () if profile is None else (Instance(NEW, Placed(profile, action.start), _made(action.compute)),)
        return replaced(gpu, instances=gpu.instances + made)
    if isinstance(action, EndInstance):
        return replaced(gpu, instances=tuple(one for one in gpu.instances if one.id != action.gi))
    return replaced(gpu, instances=tuple(_divided(one, action) for one in gpu.instances))


def _divided(one: Instance, action: GpuAction) -> Instance:
    if isinstance(action, EndCompute) and one.id == action.gi:
        return replaced(one, compute=tuple(each for each in one.compute if each.id not in action.compute))
    if isinstance(action, MakeCompute) and one.id == action.gi:
        return replaced(one, compute=one.compute + _made(action.compute))
    return one


def _made(compute: Sequence[int]) -> Tuple[Compute, ...]:
    return tuple(Compute(NEW, slices) for slices in compute)
