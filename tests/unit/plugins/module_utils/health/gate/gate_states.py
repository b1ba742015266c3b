# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""States of a node and of its history, for the tests of the gate."""

from __future__ import annotations

from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.history import Debt, Entry, History, lost
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.settings import Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost, Outcome
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import drain
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import SlurmNode

NOW = 1795000000.0
PASS, WARN, UNKNOWN, FAIL = Outcome.PASS, Outcome.WARN, Outcome.UNKNOWN, Outcome.FAIL
QUICK, PASSIVE, ACTIVE = Cost.QUICK, Cost.PASSIVE, Cost.ACTIVE
LOST = "GPU 3 (0000:0b:00.0): it has fallen off the bus"
OUR_REASON = drain.PREFIX + drain.HEALTH + LOST

IN_SERVICE = SlurmNode(frozenset({"IDLE"}))
OURS = SlurmNode(frozenset({"IDLE", "DRAIN"}), OUR_REASON)
PERSON = SlurmNode(frozenset({"IDLE", "DRAIN"}), "anna: new memory on Monday")
HOOK = SlurmNode(frozenset({"IDLE", "DRAIN"}), drain.PREFIX + "scratch /mnt/resource_nvme: it is not mounted")
LEAVING = SlurmNode(frozenset({"IDLE", "CLOUD", "POWERING_DOWN"}))
DOWN = SlurmNode(frozenset({"DOWN"}), "Not responding")
OURS_DOWN = SlurmNode(frozenset({"DOWN", "DRAIN"}), OUR_REASON)
NODES = (IN_SERVICE, LEAVING, OURS, PERSON, HOOK, DOWN, OURS_DOWN)


def history(*outcomes, level=PASSIVE, every_seconds=300.0):
    """One verdict after another, the last one now; a pair names its level too."""
    entries = []
    for number, one in enumerate(outcomes):
        outcome, its_level = one if isinstance(one, tuple) else (one, level)
        time = NOW - (len(outcomes) - 1 - number) * every_seconds
        entries.append(Entry(time, its_level, outcome, LOST if outcome in (FAIL, UNKNOWN) else ""))
    return History(tuple(entries))


# Anything -----------------------------------------------------------------------------------------------

FLAGS = st.frozensets(
    st.sampled_from(
        ("IDLE", "MIXED", "ALLOCATED", "DRAIN", "DRAINING", "DRAINED", "DOWN", "FAIL", "RESERVED", "POWERING_DOWN")
    ),
    min_size=1,
    max_size=3,
)
REASONS = (
    st.none()
    | st.text(max_size=20)
    | st.text(max_size=20).map(lambda text: drain.PREFIX + text)
    | st.text(max_size=20).map(lambda text: drain.PREFIX + drain.HEALTH + text)
)
STATES = st.builds(SlurmNode, FLAGS, REASONS)
ENTRIES = st.builds(
    Entry,
    st.floats(NOW - 200000, NOW),
    st.sampled_from(Cost),
    st.sampled_from(Outcome),
    st.text(max_size=20),
    st.sampled_from(("", "", "drain", "resume")),
    remedy=st.sampled_from(("", *drain.REMEDIES)),
)
BOOTS = st.sampled_from(("", "boot-1", "boot-2"))
HISTORIES = st.builds(
    History,
    st.lists(ENTRIES, min_size=1, max_size=12).map(tuple),
    st.sampled_from((None, False, True)),
    boot=BOOTS,
    debt=st.sampled_from((Debt(), Debt(), lost("cut").debt)),
)
SETTINGS = st.builds(
    Settings,
    drain=st.booleans(),
    resume=st.booleans(),
    unknown_drains=st.booleans(),
    drain_after=st.integers(1, 4),
    resume_after=st.integers(1, 5),
    resumes_a_day=st.integers(1, 3),
    drained_percent=st.floats(0, 100),
)
