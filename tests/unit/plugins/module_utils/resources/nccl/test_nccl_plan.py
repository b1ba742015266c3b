# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's surroundings: every state that a node can be in, what is foreign, what is put back, and what is told."""

from __future__ import annotations

import dataclasses
import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import managed_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import MARKER, Files, Seen
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files.plan import named
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.units import ReloadSystemd
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl import (
    Desired,
    State,
    build_xml,
    machine,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl.notes import notes, restart_pending
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl.observe import observe
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl.types import (
    ASIDE,
    CONF,
    MODULES,
    PATHS,
    PROFILE,
    SLURMD,
    SYSCTL,
    TOPOLOGY,
    KeepAside,
    Peermem,
    PutBack,
    SetSysctl,
    Slurmd,
)
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import shared

SWAP = {"vm.zone_reclaim_mode": "1"}
DESIRED = Desired(
    settings={"NCCL_DEBUG": "WARN"},
    switches="numa_node",
    link_speed="16.0",
    environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    limits={"memlock": "unlimited"},
    sysctl=SWAP,
)
ABSENT = Desired(present=False)
THEIRS = Seen("file", "NCCL_TOPO_FILE=/opt/microsoft/ndv4/topo.xml\n", 0o644)


@functools.lru_cache(maxsize=None)
def seen(name):
    return machine.observe(Host(shared(name)))


BLANK = State(
    files=Files(missing_folders=("/etc/gpu_node", "/etc/systemd/system/slurmd.service.d")),
    machine=seen("ndv4"),
    sysctl=(("vm.zone_reclaim_mode", "0"),),
    peermem=Peermem(True, True),
)


def applied(state, result):
    """The state after these steps, as the machine would be found then."""
    for action in result.actions:
        state = dataclasses.replace(state, files=managed_files.after(state.files, [action]))
        found = dict(state.files.found)
        if isinstance(action, Declare):
            state = dataclasses.replace(state, declared=action.content or {})
        elif isinstance(action, KeepAside):
            state = dataclasses.replace(state, aside=True, aside_text=found[CONF].text)
            found[CONF] = Seen()
        elif isinstance(action, PutBack):
            found[CONF] = Seen("file", state.aside_text or "", 0o644)
            state = dataclasses.replace(state, aside=False, aside_text=None)
        elif isinstance(action, SetSysctl):
            state = dataclasses.replace(state, sysctl=tuple({**dict(state.sysctl), action.name: action.value}.items()))
        elif isinstance(action, ReloadSystemd):
            state = dataclasses.replace(state, slurmd=dataclasses.replace(state.slurmd, stale=False))
        state = dataclasses.replace(state, files=dataclasses.replace(state.files, found=tuple(found.items())))
    return state


def holding(state, path, what):
    found = dict(state.files.found, **{path: what})
    return dataclasses.replace(state, files=dataclasses.replace(state.files, found=tuple(found.items())))


def described(result):
    return [action.describe() for action in result.actions]


def text_of(result, path):
    return [one.text for one in result.actions if getattr(one, "path", None) == path][0]


def test_a_blank_node():
    assert described(plan(BLANK, DESIRED)) == [
        "declare section nccl in /etc/gpu_node/node.json",
        "make the folder /etc/gpu_node",
        "write /etc/gpu_node/nccl_topology.xml",
        "write /etc/nccl.conf",
        "write /etc/profile.d/gpu_node_nccl.sh",
        "write /etc/security/limits.d/90-gpu_node_nccl.conf",
        "write /etc/sysctl.d/90-gpu_node_nccl.conf",
        "write /etc/modules-load.d/gpu_node_peermem.conf",
        "set vm.zone_reclaim_mode to 1",
    ]
    assert text_of(plan(BLANK, DESIRED), CONF).splitlines()[2:] == [
        "NCCL_DEBUG=WARN",
        "NCCL_TOPO_FILE=/etc/gpu_node/nccl_topology.xml",
    ]


def test_absent_reads_no_setting_that_was_only_asked_for():
    host = Host(shared("ndv4"))
    assert observe(host, Desired(present=False, sysctl={3: 4})).sysctl == ()
    assert observe(host, DESIRED).sysctl == (("vm.zone_reclaim_mode", None),)


def test_absent_leaves_what_was_found():
    made = applied(BLANK, plan(BLANK, DESIRED))
    assert made.declared["made_folders"] == ["/etc/gpu_node"]
    gone = applied(made, plan(made, ABSENT))
    assert not any(one.ours for dummy, one in gone.files.found)
    assert gone.declared == {} and dict(gone.sysctl) == {"vm.zone_reclaim_mode": "0"}
    assert plan(gone, ABSENT).actions == ()


# /etc/nccl.conf of somebody else -------------------------------------------------------------------------


@pytest.mark.parametrize("what", [THEIRS, Seen("file", "", 0o644), Seen("link", MARKER), Seen("other")])
def test_a_foreign_conf_stops_it_and_nothing_is_done(what):
    result = plan(holding(BLANK, CONF, what), DESIRED)
    assert not result.actions and str(result.refusals[0]).startswith(CONF)


def test_a_foreign_conf_makes_room_and_comes_back():
    desired = dataclasses.replace(DESIRED, replace_foreign=True)
    state = holding(BLANK, CONF, THEIRS)
    first = plan(state, desired)
    assert described(first)[1] == "keep /etc/nccl.conf as /etc/nccl.conf.before_gpu_node"
    made = applied(state, first)
    assert made.files.seen(CONF).ours and made.aside_text == THEIRS.text
    assert plan(made, desired).actions == ()
    gone = applied(made, plan(made, ABSENT))
    assert gone.files.seen(CONF) == THEIRS and not gone.aside and gone.declared == {}


def test_a_conf_with_nothing_to_say_gives_its_place_back():
    desired = dataclasses.replace(DESIRED, replace_foreign=True)
    state = holding(BLANK, CONF, THEIRS)
    made = applied(state, plan(state, desired))
    empty = dataclasses.replace(desired, settings={}, topology="none")
    result = plan(made, empty)
    # It is forgotten only when it is back: a power cut in between must not lose it.
    steps = described(result)
    back = steps.index("put /etc/nccl.conf back from /etc/nccl.conf.before_gpu_node")
    assert steps[-1].startswith("declare section") and back < len(steps) - 1
    after = applied(made, result)
    assert after.files.seen(CONF) == THEIRS and plan(after, empty).actions == ()


def test_an_image_that_writes_its_conf_again_at_boot():
    desired = dataclasses.replace(DESIRED, replace_foreign=True)
    state = holding(BLANK, CONF, THEIRS)
    made = applied(state, plan(state, desired))
    for text in (THEIRS.text, "", "\n"):
        booted = holding(made, CONF, Seen("file", text, 0o644))
        result = plan(booted, desired)
        assert described(result) == ["write /etc/nccl.conf"]
        assert applied(booted, result).aside_text == THEIRS.text
    other = plan(holding(made, CONF, Seen("file", "NCCL_DEBUG=INFO\n", 0o644)), desired)
    assert not other.actions and "holds another one already" in str(other.refusals[0])


def test_a_file_aside_that_we_did_not_put_there_stays():
    state = dataclasses.replace(BLANK, aside=True, aside_text="somebody's\n")
    made = applied(state, plan(state, DESIRED))
    assert "kept_aside" not in made.declared
    assert not any("back" in one for one in described(plan(made, ABSENT)))


# The topology file ----------------------------------------------------------------------------------------


def test_no_file_where_none_is_needed():
    plain = dataclasses.replace(DESIRED, switches="none", link_speed="")
    for name in ("ndv2", "ndv4", "nps4", "gb200", "hb176", "offline"):
        result = plan(dataclasses.replace(BLANK, machine=seen(name)), plain)
        assert "NCCL_TOPO_FILE" not in text_of(result, CONF) and not result.refusals


def test_a_login_node_gets_limits_and_environment():
    for desired in (DESIRED, dataclasses.replace(DESIRED, topology="/opt/site/topology.xml", settings={})):
        result = plan(dataclasses.replace(BLANK, machine=seen("offline")), desired)
        written = [one.path for one in result.actions if hasattr(one, "text")]
        assert PROFILE in written and SYSCTL in written and TOPOLOGY not in written and MODULES not in written
        assert result.refusals == () and result.notes == ()


def test_a_gpu_that_nothing_places_is_told_or_refused():
    state = dataclasses.replace(BLANK, machine=seen("minus_one"))
    result = plan(state, DESIRED)
    assert "NUMA node of 0000:81:00.0, 0000:a1:00.0" in result.notes[0] and TOPOLOGY not in str(result.actions)
    forced = plan(state, dataclasses.replace(DESIRED, topology="generate"))
    assert not forced.actions and "0000:81:00.0" in str(forced.refusals[0])


def test_a_file_of_the_site_must_fit():
    desired = dataclasses.replace(DESIRED, topology="/opt/site/topology.xml")
    fits = dataclasses.replace(BLANK, given=build_xml(seen("ndv4")))
    assert "NCCL_TOPO_FILE=/opt/site/topology.xml" in text_of(plan(fits, desired), CONF)
    for given_text, told in ((build_xml(seen("ndv5")), "is not about this machine"), (None, "cannot be read")):
        result = plan(dataclasses.replace(BLANK, given=given_text), desired)
        assert not result.actions and told in str(result.refusals[0])


@pytest.mark.parametrize("where", ["settings", "extra"])
def test_a_graph_file_must_fit(where):
    lines = (
        {"settings": {"NCCL_GRAPH_FILE": "/g.xml"}} if where == "settings" else {"extra": ("NCCL_GRAPH_FILE=/g.xml",)}
    )
    text = '<graphs version="1"><graph><channel><gpu dev="0"/><gpu dev="1"/></channel></graph></graphs>'
    result = plan(dataclasses.replace(BLANK, graph=text), Desired(**lines))
    assert "a channel goes over the GPUs 0, 1, this machine has 8" in str(result.refusals[0])
    assert "/g.xml: it is not there" in str(plan(BLANK, Desired(**lines)).refusals[0])


def test_a_lost_gpu_changes_the_file_and_not_the_pairs():
    made = applied(BLANK, plan(BLANK, DESIRED))
    less = dataclasses.replace(made, machine=dataclasses.replace(made.machine, devices=made.machine.devices[1:]))
    assert described(plan(less, DESIRED)) == ["write /etc/gpu_node/nccl_topology.xml"]


# Settings of the kernel -----------------------------------------------------------------------------------


def test_a_value_that_was_right_before_is_not_ours():
    state = dataclasses.replace(BLANK, sysctl=(("vm.zone_reclaim_mode", "1"),))
    made = applied(state, plan(state, DESIRED))
    assert "sysctl" not in made.declared
    assert not any(isinstance(one, SetSysctl) for one in plan(made, ABSENT).actions)


def test_a_value_that_somebody_changed_since_is_theirs():
    made = applied(BLANK, plan(BLANK, DESIRED))
    changed = dataclasses.replace(made, sysctl=(("vm.zone_reclaim_mode", "3"),))
    assert not any(isinstance(one, SetSysctl) for one in plan(changed, ABSENT).actions)


def test_another_value_later_keeps_the_first_one_for_absent():
    made = applied(BLANK, plan(BLANK, DESIRED))
    other = dataclasses.replace(DESIRED, sysctl={"vm.zone_reclaim_mode": "2"})
    again = applied(made, plan(made, other))
    assert again.declared["sysctl"] == {"vm.zone_reclaim_mode": {"before": "0", "set": "2"}}
    assert dict(applied(again, plan(again, ABSENT)).sysctl) == {"vm.zone_reclaim_mode": "0"}


def test_a_name_that_is_wanted_no_more_goes_back():
    made = applied(BLANK, plan(BLANK, DESIRED))
    less = dataclasses.replace(DESIRED, sysctl={})
    result = plan(made, less)
    assert "set vm.zone_reclaim_mode to 0" in described(result) and described(result)[-1].startswith("declare")
    after = applied(made, result)
    assert "sysctl" not in after.declared and plan(after, less).actions == ()


def test_a_name_that_the_kernel_lacks_is_written_and_not_set():
    state = dataclasses.replace(BLANK, sysctl=(("vm.zone_reclaim_mode", None),))
    result = plan(state, DESIRED)
    assert SYSCTL in [getattr(one, "path", None) for one in result.actions]
    assert not any(isinstance(one, SetSysctl) for one in result.actions)


# slurmd and peermem ----------------------------------------------------------------------------------------


def test_slurmd_gets_the_limits_where_it_is_and_has_them_after_a_restart():
    state = dataclasses.replace(BLANK, slurmd=Slurmd(True, (("memlock", "65536"), ("nofile", "1024")), False))
    result = plan(state, DESIRED)
    assert text_of(result, SLURMD).splitlines()[1:] == ["[Service]", "LimitMEMLOCK=infinity"]
    assert "have systemd read its units again" in described(result)
    assert restart_pending(state, DESIRED, result.actions)
    made = dataclasses.replace(state, files=managed_files.after(state.files, result.actions))
    older = dataclasses.replace(made, slurmd=dataclasses.replace(state.slurmd, older=True))
    assert restart_pending(older, DESIRED, ()) and not notes(older, DESIRED)
    for other in (dataclasses.replace(DESIRED, slurmd_limits=False), Desired(present=False)):
        assert not restart_pending(older, other, result.actions)
    restarted = dataclasses.replace(older, slurmd=Slurmd(True, (("memlock", "unlimited"),), False, True))
    assert not restart_pending(restarted, DESIRED, ()) and not notes(restarted, DESIRED)
    # Something else gives slurmd its limits: no restart helps, and none is repeated for ever.
    assert not restart_pending(made, DESIRED, ())
    assert "although it was started after that was written" in notes(made, DESIRED)[0]
    assert SLURMD not in str(plan(state, dataclasses.replace(DESIRED, slurmd_limits=False)).actions)


def test_peermem_or_dma_buf():
    assert plan(BLANK, DESIRED).notes == ()
    waiting = plan(dataclasses.replace(BLANK, peermem=Peermem(True, False)), DESIRED)
    assert "modprobe nvidia-peermem" in waiting.notes[0]
    missing = plan(dataclasses.replace(BLANK, peermem=Peermem()), DESIRED)
    assert "DMA-BUF" in missing.notes[0] and MODULES not in str(missing.actions)


def test_an_image_that_rewrites_the_conf_is_named():
    made = dataclasses.replace(applied(BLANK, plan(BLANK, DESIRED)), rewriter="sku-customizations.service")
    assert "sku-customizations.service of this image writes /etc/nccl.conf anew" in plan(made, DESIRED).notes[0]


# Any state -------------------------------------------------------------------------------------------------

SEEN = st.sampled_from(
    [Seen(), Seen("file", MARKER + " old\n", 0o644), Seen("file", MARKER + " old\n", 0o600), THEIRS,
     Seen("link", MARKER), Seen("other"), Seen("file", "", 0o644)]
)  # fmt: skip
DECLARED = st.sampled_from(
    [
        {},
        {"kept_aside": ASIDE, "files": [CONF, "/etc/old", 7], "made_folders": ["/etc/gpu_node"]},
        {"sysctl": {"vm.zone_reclaim_mode": {"before": "0", "set": "1"}, "kernel.old": {"before": "a", "set": "b"}}},
        {"sysctl": {"../../etc/shadow": {"before": "0", "set": "1"}, "x": 3, "y.z": {"before": 1}}, "kept_aside": 4},
        {"sysctl": ["no"], "files": "no", "kept_aside": ASIDE},
    ]
)
STATES = st.builds(
    lambda found, declared, aside, name, values, slurmd, peermem: State(
        files=Files(tuple(zip(PATHS, found)), (), *named(declared)),
        declared=declared,
        aside=aside is not None,
        aside_text=aside,
        machine=seen(name),
        sysctl=tuple(zip(("vm.zone_reclaim_mode", "kernel.old"), values)),
        slurmd=slurmd,
        peermem=peermem,
    ),
    st.lists(SEEN, min_size=len(PATHS), max_size=len(PATHS)),
    DECLARED,
    st.sampled_from([None, "", THEIRS.text]),
    st.sampled_from(["ndv4", "ndv5", "minus_one", "offline"]),
    st.lists(st.sampled_from([None, "0", "1", "a", "b"]), min_size=2, max_size=2),
    st.sampled_from([Slurmd(), Slurmd(True, (("memlock", "1"),), True)]),
    st.sampled_from([Peermem(), Peermem(True, False)]),
)
WANTED = st.sampled_from(
    [DESIRED, ABSENT, dataclasses.replace(DESIRED, replace_foreign=True), Desired(), Desired(topology="generate")]
)


@given(STATES, WANTED)
def test_every_state_has_a_plan_that_ends_and_loses_nothing(state, desired):
    result = plan(state, desired)
    if result.refusals:
        assert result.actions == ()
        return
    kept = [one.path for one in result.actions if isinstance(one, KeepAside)]
    for action in result.actions:
        path = getattr(action, "path", None)
        found = state.files.seen(path) if path else Seen()
        if found.foreign and not isinstance(action, (KeepAside, PutBack)):
            same = found.text.strip() in ("", (state.aside_text or "").strip())
            assert path == CONF and (kept or same)
    after = applied(state, result)
    assert plan(after, desired).actions == ()


@given(STATES, WANTED)
def test_each_value_is_remembered_before_it_is_set(state, desired):
    declared = state.declared
    for action in plan(state, desired).actions:
        if isinstance(action, Declare):
            declared = action.content or {}
        if isinstance(action, SetSysctl):
            assert action.name in declared.get("sysctl", {})
        if isinstance(action, KeepAside):
            assert declared["kept_aside"] == ASIDE
