# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose resources are numbers, for tests of the whole converge."""

from __future__ import annotations

from typing import Optional

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import option, options, state
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import (
    Action,
    NodeError,
    Plan,
    Refusal,
    Resource,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import converge as whole

NEEDS = {"node_profile": (), "disks": (), "nvme_scratch": ("disks",), "enroot": ("nvme_scratch",), "rdma": ()}
DATA = {"infiniband": {"count": 8}}


@options
class Wanted:
    present: bool = state("Whether it is there.")
    size: int = option(1, "Its size.", bounds=(0, 9))
    ports: Optional[int] = option(None, "Its ports.", profile="infiniband.count")
    name: str = option("auto", "Of the profile.")
    profiles: str = option("", "Of the profile.")
    asked: tuple = option((), "Of the profile.", kind="list", elements="str")
    scratch_models: tuple = option((), "Of the profile.", kind="list", elements="str")
    models: tuple = option((), "Of the scratch.", kind="list", elements="str")


class Grow(Action):
    def describe(self):
        return "grow"


class Node:
    """Resources that are numbers; ``sizes`` is what stands, ``ran`` who was applied, in order."""

    def __init__(self, tmp_path, needs, roles):
        self.host = Host(str(tmp_path))
        self.sizes, self.ran, self.seen, self.broken, self.refused, self.skipped = {}, [], {}, set(), set(), set()
        self.needs, self.roles = needs, roles
        self.during = lambda name: None

    def resource(self, name):
        def observe(host, desired):
            self.seen[name] = desired
            return self.sizes.get(name, 0)

        def plan(size, desired):
            if name in self.refused:
                return Plan(refusals=(Refusal(name, "it is foreign", "move it away"),))
            if name in self.skipped:
                return Plan(skipped="nothing here")
            return Plan((Grow(),) if size != (desired.size if desired.present else 0) else ())

        def grow(host, action, desired):
            self.ran.append(name)
            self.during(name)
            if name in self.broken:
                raise NodeError(name, "it broke", "repair it")
            self.sizes[name] = desired.size if desired.present else 0

        def facts(outcome, desired):
            if name != "node_profile" or not desired.present:
                return {"size": outcome.after}
            fact = {"name": "big", "compared": True, "data": DATA, "roles": self.roles}
            return {"ansible_facts": {"gpu_node_profile": fact}}

        return Resource(name, Wanted, observe, plan, {Grow: grow}, facts, lambda *dummy: "", name)

    def converge(self, *names, **more):
        sections = more.pop("sections", {name: {} for name in names or self.needs})
        return whole.converge(self.host, whole.Request(sections, **more))


def numbers(tmp_path, monkeypatch):
    """The registry of such resources, on a node of its own."""
    made = Node(tmp_path, NEEDS, ["nvme_scratch", "enroot", "rdma"])
    resources = {name: registry.Registration(name, requires) for name, requires in NEEDS.items()}
    monkeypatch.setattr(registry, "RESOURCES", resources)
    monkeypatch.setattr(registry, "NAMES", tuple(NEEDS))
    monkeypatch.setattr(registry, "resource", made.resource)
    return made
