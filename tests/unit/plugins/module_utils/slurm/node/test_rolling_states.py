# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same state in the words of scontrol, of JSON and of older versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import states


@pytest.mark.parametrize(
    "words, names",
    [
        (["IDLE"], ("idle",)),
        (["idle"], ("idle",)),
        (["IDLE+DRAIN"], ("drained",)),
        (["idle", "DRAIN"], ("drained",)),
        (["IDLE", "DRAIN"], ("drained",)),
        (["MIXED+DRAIN"], ("draining", "mixed")),
        (["IDLE+COMPLETING+DRAIN"], ("draining", "completing")),
        (["DOWN+DRAIN+NOT_RESPONDING"], ("drained", "down", "not_responding")),
        (["DOWN*"], ("down", "not_responding")),
        (["IDLE~"], ("powered_down",)),
        (["IDLE+CLOUD+POWER"], ("cloud", "powered_down")),
        (["IDLE", "CLOUD", "POWERED_DOWN"], ("cloud", "powered_down")),
        (["IDLE+CLOUD"], ("idle", "cloud")),
        (["IDLE#"], ("powering_up",)),
        (["IDLE", "MAINTENANCE", "RESERVED"], ("maint", "reserved")),
        (["IDLE+MAINT"], ("maint",)),
        (["ALLOCATED+RESERVED"], ("allocated", "reserved")),
        (["IDLE+PLANNED"], ("idle", "planned")),
        (["UNKNOWN+NOT_RESPONDING"], ("unknown", "not_responding")),
        ([""], ("unknown",)),
        (["???"], ("unknown",)),
    ],
)
def test_names(words, names):
    assert states.names(states.normalised(words)) == names


@given(st.lists(st.text(max_size=20), max_size=5))
def test_no_word_is_too_odd(words):
    flags = states.normalised(words)
    assert states.normalised(flags) == flags
    assert states.names(flags) and all(name == name.lower() for name in states.names(flags))
