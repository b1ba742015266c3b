# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts to render: a healthy node, a sick one, and any that hypothesis can think of."""

from __future__ import annotations

from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import (
    Certainty,
    Cost,
    Finding,
    Measured,
    Observed,
    Outcome,
    Remedy,
    Result,
    Silence,
    Silenced,
    Verdict,
    worst,
)

NOW = 1795000000.0  # 2026-11-18T11:06:40Z
LOST = Finding(
    Outcome.FAIL,
    "GPU 3 (0000:0b:00.0)",
    "it has fallen off the bus (Xid 79)",
    "reboot the node, and replace it when that does not help",
    Remedy.REPLACE,
    Certainty.CERTAIN,
    "0000:0b:00.0",
    "xid_79",
)
WARM = Finding(
    Outcome.WARN, "GPU 1", "84 C", "look at the fans", Remedy.WATCH, Certainty.LIKELY, "0000:07:00.0", "warm"
)
DARK = Finding(Outcome.UNKNOWN, "disk nvme0", "no nvme command", "install nvme-cli", Remedy.CONFIGURE, key="nvme0")
HOT = Measured("temperature_celsius", 84.0, "0000:07:00.0", better="lower")
REPLAYS = Measured("pcie_replays", 3.0, "0000:07:00.0", counter=True)


def result(check, *findings, measured=()):
    outcome = worst(tuple(one.outcome for one in findings))
    return Result(check, "All is well with " + check, outcome, "8 GPUs", tuple(findings), tuple(measured), 0.25)


def verdict(*results, silenced=(), observed=(), not_applicable=None, level=Cost.PASSIVE, node="gpu01", time=NOW):
    outcome = worst(tuple(one.outcome for one in results))
    gone = not_applicable or {}
    return Verdict(
        node, time, level, "nd96asr_v4", outcome, tuple(results), gone, tuple(silenced), 0.5, tuple(observed)
    )


HEALTHY = verdict(result("gpu_count"), result("gpu_xid"), not_applicable={"ib_ports": "no port"})
SICK = verdict(
    result("gpu_count"),
    result("gpu_temperature", WARM, measured=(HOT, REPLAYS)),
    result("nvme_smart", DARK),
    result("gpu_xid", LOST),
    silenced=(Silenced("gpu_ecc", WARM, Silence("gpu_ecc/*", NOW + 86400, "anna", "known")),),
)

OBSERVED = verdict(
    result("gpu_count"),
    result("gpu_temperature"),
    result("gpu_xid"),
    observed=(Observed("gpu_temperature", WARM, "gpu_temp*"), Observed("gpu_xid", LOST, "*")),
)

# Anything -----------------------------------------------------------------------------------------------

# Lone surrogates are what bytes of a log that are no UTF-8 are read as.
TEXTS = st.text(st.characters(exclude_categories=()), max_size=40)
NAMES = st.text("abcz019_:./-", min_size=1, max_size=70)
FINDINGS = st.builds(
    Finding,
    st.sampled_from((Outcome.WARN, Outcome.UNKNOWN, Outcome.FAIL)),
    TEXTS,
    TEXTS,
    TEXTS,
    st.sampled_from(Remedy),
    st.sampled_from(Certainty),
    TEXTS,
    NAMES,
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
FIGURES = st.builds(
    Measured,
    NAMES | TEXTS,
    NUMBERS,
    TEXTS,
    st.booleans(),
    st.sampled_from(("", "higher", "lower")),
    labels=st.dictionaries(NAMES | TEXTS, TEXTS, max_size=2),
)
RESULTS = st.builds(
    lambda check, findings, measured: result(check, *findings, measured=measured),
    st.from_regex(r"\A[a-z][a-z0-9_]{0,70}\Z"),
    st.lists(FINDINGS, max_size=3),
    st.lists(FIGURES, max_size=4),
)
SILENCED = st.builds(Silenced, NAMES, FINDINGS, st.builds(Silence, NAMES, st.floats(-1e12, 1e13), TEXTS, TEXTS))
OBSERVATIONS = st.builds(Observed, NAMES, FINDINGS, NAMES)
VERDICTS = st.builds(
    lambda results, silenced, observed, gone, level, node, time: verdict(
        *results, silenced=silenced, observed=observed, not_applicable=gone, level=level, node=node, time=time
    ),
    st.lists(RESULTS, max_size=4),
    st.lists(SILENCED, max_size=2),
    st.lists(OBSERVATIONS, max_size=2),
    st.dictionaries(NAMES, TEXTS, max_size=2),
    st.sampled_from(Cost),
    TEXTS,
    st.floats(0, 1e11),
)
