# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Silences: what an entry must have, where and how long it holds, and that a broken one silences nothing."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import registry, silences
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data import azure_categories
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost, Silence

GIVEN = {"finding": "gpu_xid/xid_63/*", "until": "2026-12-31", "owner": "anna", "reason": "known"}
END = 1798761600.0  # 2027-01-01T00:00:00Z


def test_a_silence_is_read():
    entry = silences.parse(dict(GIVEN, nodes=["gpu0*", "login1"]))
    assert entry.to_dict() == dict(GIVEN, nodes=["gpu0*", "login1"]) and silences.parse(entry.to_dict()) == entry
    found, problems = silences.of_node({"silences": [GIVEN]}, "gpu01")
    assert found == (Silence("gpu_xid/xid_63/*", END, "anna", "known"),) and problems == ()


@pytest.mark.parametrize(
    "until, seconds",
    [
        ("2026-12-31", END),
        ("2026-12-31T18:00Z", END - 6 * 3600),
        ("2026-12-31 18:00:30", END - 6 * 3600 + 30),
        # As for the lease of a node.
        ("2026-12-31 19:00:30+01:00", END - 6 * 3600 + 30),
        ("2026-12-31t12:00:30.5-0600", END - 6 * 3600 + 30),
        ("9999-12-31", 253402300800.0),
    ],
)
def test_a_date_holds_to_its_end_in_utc(until, seconds):
    assert silences.ends(until) == seconds


@pytest.mark.parametrize(
    "change, told",
    [
        ({"until": "31.12.2026"}, "this is no date"),
        ({"until": "2026-13-01"}, "this is no date"),
        ({"until": "2026-12-31T18:00+99:99"}, "this is no date"),
        ({"until": "0000-01-01"}, "this is no date"),
        ({"until": ""}, "it has no until"),
        ({"owner": "  "}, "it has no owner"),
        ({"reason": None}, "it has no reason"),
        ({"finding": "*"}, "faults of any kind"),
        ({"finding": "[a-z]*"}, "faults of any kind"),
        ({"end": "x"}, "unknown field end"),
    ],
)
def test_what_a_silence_lacks_is_one_sentence(change, told):
    with pytest.raises(NodeError, match=told):
        silences.parse(dict(GIVEN, **change))


def test_it_holds_on_the_nodes_that_it_names():
    settings = {"silences": [dict(GIVEN, nodes=["gpu0[1-3]", "login*"])]}
    for node, holds in (("gpu01", True), ("gpu03.cluster.example", True), ("gpu04", False), ("login7", True)):
        assert bool(silences.of_node(settings, node)[0]) is holds


def test_a_broken_entry_takes_no_other_with_it():
    found, problems = silences.of_node({"silences": [7, dict(GIVEN, owner=""), GIVEN]}, "gpu01")
    assert len(found) == 1 and len(problems) == 2
    assert silences.of_node({"silences": "x"}, "gpu01") == (
        (),
        ("section health: silences is no list; converge the node again",),
    )


def test_one_that_has_ended_is_told_to_the_day():
    found, dummy = silences.of_node({"silences": [GIVEN]}, "gpu01")
    assert silences.ended(found, END - 1) == ()
    assert silences.ended(found, END) == (
        "the silence of gpu_xid/xid_63/* by anna ended on 2026-12-31: take it out, or give it a new date",
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from((*GIVEN, "nodes", "x")), inner),
    max_leaves=8,
)


@given(JSON)
def test_no_section_crashes_it(given):
    found, dummy = silences.of_node({"silences": given}, "gpu01")
    silences.ended(found, 0.0)


# Azure's categories -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "finding, category",
    [
        ("gpu_xid/xid_79/0000:0b:00.0", "XID79FallenOffBus"),
        ("gpu_xid/xid_48", "XID48DoubleBitECC"),
        ("gpu_xid/xid_119/0000:0b:00.0", "GpuXIDError"),
        ("gpu_count/missing", "HpcMissingGpu"),
        ("gpu_lost/reset_required/0000:0b:00.0", None),
        ("ib_ports/count", "MissingIB"),
        ("ib_ports/link_down/mlx5_0", "IBPortDown"),
        ("ib_ports/rate/mlx5_0", "IBPerformance"),
        ("nvme_count", None),
    ],
)
def test_a_finding_has_its_category(finding, category):
    found = azure_categories.category(finding)
    assert (found.category if found else None) == category


def test_every_category_is_of_a_check_that_there_is():
    known = {check.id for check in registry.checks(Cost.ACTIVE)}
    named = {one.finding.split("/")[0].rstrip("*") for one in azure_categories.CATEGORIES}
    assert named - known == set()


def test_every_category_has_its_source_and_can_be_reached():
    for number, one in enumerate(azure_categories.CATEGORIES):
        assert one.source and one.meaning and one.name.startswith("Resource.Hpc.Unhealthy.")
        earlier = azure_categories.CATEGORIES[:number]
        assert not any(fnmatch.fnmatchcase(one.finding, before.finding) for before in earlier), one.finding
