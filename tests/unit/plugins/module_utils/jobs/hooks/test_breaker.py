# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No more nodes than the share are drained by us, whatever for and however many fall ill at once.

A model of slurmctld with a clock of whole seconds, and of nodes that look, drain, wait and look again, as
``slurm.Slurm.drain`` does it; hypothesis draws who falls ill, when, and how long each call takes.
"""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import breaker, drain, nodes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.client import SETTLE_SECONDS
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples

PERCENT = 20.0
# As sinfo of Slurm 22.05.8 wrote them.
SIZES = """gpu|1|allocated#
gpu|5|idle~
gpu|2|drained
gpu|1|drained*
gpu|3|mixed
gpu|1|idle%
all|2985|idle~
all|12|idle
"""
DRAINED = """gpu|gpu02|2026-11-22T14:01:26|drained|gpu_node: health: GPU 3 | it is lost
gpu|gpu01|2026-11-22T14:01:27|drained*|gpu_node: scratch /mnt/resource_nvme: it is not mounted
gpu|gpu03|2026-11-22T14:01:20|drained|anna: new memory
gpu|gpu09|2026-11-22T13:00:00|drained~|gpu_node: rolling: failed: GPU 2: slow
all|gpu09|2026-11-22T13:00:00|drained~|gpu_node: rolling: failed: GPU 2: slow
a line that somebody's reason brought with it
"""


def partition(size, drained=0, name="gpu"):
    return breaker.Partition(name, size, tuple("gpu{0:03}".format(number) for number in range(drained)))


def test_what_sinfo_tells():
    """Machines that Slurm powered down are none, but for those that nobody can use as we drained them."""
    found = breaker.partitions(("gpu", "all", "none"), SIZES, DRAINED)
    assert found == (
        breaker.Partition("gpu", 8, ("gpu09", "gpu02", "gpu01")),
        breaker.Partition("all", 13, ("gpu09",)),
        breaker.Partition("none", 0),
    )


def line(partition, state, reason):
    widths = [int(column.partition(":")[2]) for column in nodes.COLUMNS.split(",")]
    return "".join(cell.ljust(width) for cell, width in zip(("gpu01", partition, state, reason), widths))


def test_what_sinfo_tells_of_one_node():
    """Two partitions; the columns are as wide as was asked for, and a reason may hold any sign."""
    cells = ("idle+cloud+drain+powered_down", "gpu_node: health: GPU 3 | it is lost")
    lines = [line(name, *cells) for name in ("gpu", "all")]
    node = nodes.of_columns("\n".join([*lines, "what a reason brought with it"]))["gpu01"]
    assert node.flags == {"IDLE", "CLOUD", "DRAIN", "POWERED_DOWN"} and node.partitions == ("gpu", "all")
    assert node.reason == cells[1] and drain.is_for_health(node)
    assert nodes.of_columns(lines[0].replace(cells[1], "none"))["gpu01"].reason is None
    assert nodes.of_columns("") == nodes.of_columns("sinfo: error: x\n") == {}


@pytest.mark.parametrize(
    "other", [("idle", "none"), ("idle+drain", "anna: new memory"), ("idle", "gpu_node: health: x")]
)
def test_two_nodes_of_one_name_are_none(other):
    """As sinfo tells of the clusters of a federation; the last line won."""
    lines = [line("gpu", "idle+drain", "gpu_node: health: x"), line("gpu", *other)]
    assert nodes.of_columns(lines[0] + "\n" + lines[0])["gpu01"].reason == "gpu_node: health: x"
    for both in (lines, lines[::-1]):
        with pytest.raises(NodeError, match="node gpu01: slurmctld tells of two nodes of this name"):
            nodes.of_columns("\n".join(both))


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_answer_breaks_it(sizes, drained):
    breaker.partitions(("gpu",), sizes, drained)
    nodes.of_columns(sizes)


@pytest.mark.parametrize(
    "size, percent, limit",
    [(10, 20, 2), (10, 19.9, 1), (4, 20, 1), (1, 20, 1), (1000, 20, 200), (10, 100, 10), (10, 0, 0), (9, 50, 4)],
)
def test_a_share_may_go_and_one_in_any_case(size, percent, limit):
    for drained in range(size + 1):
        held = breaker.full((partition(size, drained),), percent)
        assert (held is None) == (drained < limit)
        assert held is None or ("a person must decide" in held and "partition gpu" in held)


def test_of_several_partitions_the_fullest_counts():
    assert "partition debug" in breaker.full((partition(100, 1), partition(5, 1, "debug")), PERCENT)
    assert breaker.full((), PERCENT) is None


@given(
    st.lists(st.builds(partition, st.integers(0, 50), st.integers(0, 12)), max_size=3),
    st.floats(0, 100),
    st.integers(0, 12),
)
def test_who_may_be_drained_need_not_withdraw(found, percent, number):
    """What is let through alone is no surplus afterwards; what is surplus would not have been let through."""
    node = "new{0:03}".format(number)
    after = tuple(breaker.Partition(one.name, one.size, (*one.ours, node)) for one in found)
    assert (breaker.full(found, percent) is None) == (breaker.surplus(node, after, percent) is None)


class Controller:
    def __init__(self, size):
        self.names = ["gpu{0:03}".format(number) for number in range(size)]
        self.ours = {}

    def look(self):
        lines = "".join("gpu|{0}|{1}|drained|{2}\n".format(name, *told) for name, told in self.ours.items())
        return breaker.partitions(("gpu",), "gpu|{0}|idle".format(len(self.names)), lines)

    def drain(self, name, time):
        since = "2026-01-31T12:{0:02}:{1:02}".format(int(time) // 60, int(time) % 60)
        self.ours[name] = (since, drain.PREFIX + "scratch: gone")

    @property
    def drained(self):
        return len(self.ours)


def fall_ill(controller, delays, pause=SETTLE_SECONDS):
    """``delays``: for each sick node when it looks, when it drains after that, and what its second look takes."""
    pending = [(delay[0], number, "look") for number, delay in enumerate(delays)]
    heapq.heapify(pending)
    while pending:
        now, number, step = heapq.heappop(pending)
        name, delay = controller.names[number], delays[number]
        if step == "look":
            if name not in controller.ours and breaker.full(controller.look(), PERCENT) is None:
                heapq.heappush(pending, (now + delay[1], number, "drain"))
        elif step == "again":
            if breaker.surplus(name, controller.look(), PERCENT) is not None:
                del controller.ours[name]
        else:
            controller.drain(name, now)
            heapq.heappush(pending, (now + pause + delay[2], number, "again"))


DELAYS = st.tuples(st.floats(0, 3), st.floats(0, 3), st.floats(0, 3))


@examples(150)
@given(st.integers(2, 40).flatmap(lambda size: st.tuples(st.just(size), st.lists(DELAYS, min_size=1, max_size=size))))
def test_however_calls_fall_the_share_is_kept(case):
    size, delays = case
    controller = Controller(size)
    fall_ill(controller, delays)
    limit = max(1, size // 5)
    assert controller.drained <= limit
    # Once more, one after the other, as at the next interval: then it is exactly the share.
    fall_ill(controller, [(10.0 * number, 0.0, 0.0) for number in range(len(delays))])
    assert controller.drained == min(limit, len(delays))


def test_when_sixty_percent_fall_ill_in_the_same_second_the_breaker_holds():
    controller = Controller(100)
    fall_ill(controller, [(0.0, 0.1, 0.0)] * 60)
    assert controller.drained == 20


def test_without_the_pause_it_would_not_hold():
    """That the model can fail: a node that looks before the others of its second are drained keeps its drain."""
    controller = Controller(10)
    # Slurm's seconds tell no order within one; the names do, and the last one to drain comes first by name.
    fall_ill(controller, [(0.0, 0.9 - 0.1 * number, 0.0) for number in range(8)], pause=0.0)
    assert controller.drained > 2
