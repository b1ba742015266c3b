# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs as values, and what each action does to them: the driver reduced to a pure function, for planner tests."""

from __future__ import annotations

import dataclasses

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import declaration
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings import types as t

A100_GRAPHICS = tuple(range(1410, 209, -15))
LOAD = "boot one module 7 driver 550"


def a100(index=0, **changes):
    values = dict(
        index=index,
        uuid="GPU-{0:08d}".format(index),
        pci_address="{0:04x}:00:00.0".format(index + 1),
        name="NVIDIA A100-SXM4-40GB",
        persistence=False,
        ecc=True,
        ecc_pending=True,
        compute_mode="default",
        mig=False,
        power_limit_mw=400000,
        power_default_mw=400000,
        power_min_mw=100000,
        power_max_mw=400000,
        graphics_clock_mhz=210,
        memory_clock_mhz=1215,
        max_graphics_clock_mhz=1410,
        max_memory_clock_mhz=1215,
        application_graphics_mhz=1095,
        application_memory_mhz=1215,
        default_application_graphics_mhz=1095,
        default_application_memory_mhz=1215,
        event_reasons=1,
        can_lock_graphics=True,
        can_lock_memory=True,
        can_set_application=True,
        supported_clocks=((1215, A100_GRAPHICS),),
    )
    values.update(changes)
    return t.Gpu(**values)


def two_memory_clocks(index=0, **changes):
    """As a PCIe part: two memory clocks, fewer graphics clocks beside the lower one."""
    values = dict(
        memory_clock_mhz=810,
        max_memory_clock_mhz=6251,
        application_memory_mhz=6251,
        default_application_memory_mhz=6251,
        supported_clocks=((6251, A100_GRAPHICS), (810, A100_GRAPHICS[40:])),
    )
    values.update(changes)
    return a100(index, **values)


def state_of(*gpus, **changes):
    return t.State(gpus=tuple(gpus), driver_load=LOAD, **changes)


class Driver:
    """What locks are on and which calls the driver refuses; ``apply`` gives the state after an action."""

    def __init__(self, refuses=()):
        self.refuses = frozenset(refuses)
        self.ways = {}

    def apply(self, state, action):
        if isinstance(action, declaration.Declare):
            return dataclasses.replace(state, declared=action.content)
        if isinstance(action, t.Forget):
            return dataclasses.replace(state, entries=())
        if isinstance(action, t.Remember):
            entries = dict(state.entries)
            for uuid, entry in action.entries:
                if entry is None:
                    entries.pop(uuid, None)
                    continue
                if action.stage == "after" and uuid in self.ways and entry.clocks is not None:
                    entry = dataclasses.replace(entry, clocks=dataclasses.replace(entry.clocks, **self.ways[uuid]))
                entries[uuid] = entry
            return dataclasses.replace(state, entries=tuple(sorted(entries.items())))
        gpus = tuple(self._one(gpu, action) if gpu.uuid == action.uuid else gpu for gpu in state.gpus)
        return dataclasses.replace(state, gpus=gpus)

    def _one(self, gpu, action):
        if isinstance(action, t.SetPersistence):
            return dataclasses.replace(gpu, persistence=action.enabled)
        if isinstance(action, t.SetEcc):
            return dataclasses.replace(gpu, ecc_pending=action.enabled)
        if isinstance(action, t.SetPowerLimit):
            return dataclasses.replace(gpu, power_limit_mw=action.limit_mw)
        if isinstance(action, t.SetComputeMode):
            return dataclasses.replace(gpu, compute_mode=action.mode)
        if isinstance(action, t.ResetClocks):
            changes = {"graphics_clock_mhz": 210}
            if action.application:
                changes["application_graphics_mhz"] = gpu.default_application_graphics_mhz
                changes["application_memory_mhz"] = gpu.default_application_memory_mhz
            return dataclasses.replace(gpu, **changes)
        assert isinstance(action, t.SetClocks)
        return self._clocks(gpu, action)

    def _clocks(self, gpu, action):
        ways = {"graphics_way": action.graphics_way, "memory_way": action.memory_way}
        changes = {}
        for name in ("graphics", "memory"):
            if ways[name + "_way"] == t.LOCKED:
                if name in self.refuses:
                    ways[name + "_way"] = t.APPLICATION
                else:
                    changes[name + "_clock_mhz"] = getattr(action, name + "_mhz")
        if t.APPLICATION in ways.values():
            if action.application_memory_mhz is None or "application" in self.refuses:
                ways = {name: t.UNSUPPORTED if way == t.APPLICATION else way for name, way in ways.items()}
            else:
                changes["application_graphics_mhz"] = action.application_graphics_mhz
                changes["application_memory_mhz"] = action.application_memory_mhz
        self.ways[gpu.uuid] = dict(ways, graphics_seen=ways["graphics_way"] == t.LOCKED)
        return dataclasses.replace(gpu, **changes)

    def run(self, state, actions):
        for action in actions:
            state = self.apply(state, action)
        return state
