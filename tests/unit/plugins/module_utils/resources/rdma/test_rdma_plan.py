# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA: ports of captured machines, every state that the files can be in, and the text of the rules."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import managed_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import MARKER, Files, Seen
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files.plan import named
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.rdma.compare import differences
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.rdma.naming import names, rules
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.rdma.observe import devices
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.rdma.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.rdma.plan import plan, reboot_pending
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.rdma.types import (
    IPOIB,
    PATHS,
    RULES,
    Device,
    Port,
    State,
)
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import shared

FABRIC = ["{0:04x}:00:00.0".format(0x0101 + number) for number in range(8)]
ORDERED = Desired(names="ordered", ipoib="off")


def card(address, name, layer="InfiniBand", state="ACTIVE", rate=200.0, physical="LinkUp", virtual=False):
    port = Port(1, state, physical, rate, layer)
    return Device(name, address, 0, (), None, None, None, virtual, (port,))


# As the kernel numbers them when they come up in another order.
SHUFFLED = tuple(card(address, "mlx5_{0}".format((5 * place) % 8)) for place, address in enumerate(FABRIC))
BLANK = State(
    devices=(*SHUFFLED, card("7afd:00:02.0", "mlx5_8", "Ethernet", rate=40.0)),
    files=Files(missing_folders=("/etc/udev", "/etc/udev/rules.d", "/etc/modprobe.d")),
    rename_program="/usr/lib/udev/rdma_rename",
    fixed_names=True,
)


def described(result):
    return [action.describe() for action in result.actions]


def applied(state, result):
    """The state after the actions of a plan, as the disk would be."""
    declared = dict(state.declared)
    for action in result.actions:
        if isinstance(action, Declare):
            declared = dict(action.content or {})
    return dataclasses.replace(state, files=managed_files.after(state.files, result.actions), declared=declared)


def with_devices(state, found):
    return dataclasses.replace(state, devices=tuple(found))


# Captured machines -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "machine, ports, rate",
    [("ndv2", 1, 100), ("ndv4", 8, 200), ("ndv5", 8, 400), ("gb200", 4, 400)],
)
def test_healthy_machines_are_what_their_profiles_say(machine, ports, rate):
    found = devices(Host(shared(machine)))
    assert differences(found, Desired(expected_ports=ports, rate_gbps=rate)) == ()
    wrong = differences(found, Desired(expected_ports=ports + 1, rate_gbps=rate))
    assert [one.reason for one in wrong] == ["{0} are there instead of {1}".format(ports, ports + 1)]
    slow = differences(found, Desired(expected_ports=ports, rate_gbps=rate * 2))
    assert len(slow) == ports and "instead of {0} Gb/s".format(rate * 2) in slow[0].reason


def test_ndv4_comes_in_pci_order_with_numa_nodes():
    fabric = [one for one in devices(Host(shared("ndv4"))) if one.infiniband]
    assert [one.pci_address for one in fabric] == FABRIC
    # Pairs of ports sit on NUMA nodes 1, 0, 3, 2: Azure's vector.
    assert [one.numa_node for one in fabric] == [1, 1, 0, 0, 3, 3, 2, 2]


def test_a_machine_without_rdma_is_skipped():
    found = devices(Host(shared("laptop")))
    assert found == ()
    assert plan(State(devices=found), ORDERED).skipped == "this node has no RDMA device"
    lacking = plan(State(), Desired(expected_ports=8))
    assert lacking.skipped and "0 are there instead of 8" in lacking.notes[0]
    assert "0 are there" in str(plan(State(), Desired(expected_ports=8, strict=True)).refusals[0])


# Comparing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "port, told",
    [
        ({"physical": "Polling", "state": "DOWN"}, "link is Polling instead of LinkUp; look at its cable"),
        ({"state": "INIT"}, "state is INIT instead of ACTIVE; see that a subnet manager runs"),
        ({"state": "DOWN", "layer": "Ethernet"}, "state is DOWN instead of ACTIVE; bring its interface up"),
        ({"rate": 100.0}, "rate is 100 Gb/s instead of 200 Gb/s"),
    ],
)
def test_what_is_wrong_with_a_port_is_one_sentence(port, told):
    state = with_devices(BLANK, [card("0101:00:00.0", "mlx5_0", **port)])
    desired = Desired(expected_ports=1, rate_gbps=200)
    result = plan(state, desired)
    assert len(result.notes) == 1 and told in result.notes[0] and "mlx5_0/1" in result.notes[0]
    strict = plan(state, dataclasses.replace(desired, strict=True))
    assert len(strict.refusals) == 1 and strict.actions == ()


def test_nothing_is_compared_without_a_wish():
    assert differences((card(None, "rxe0", "Ethernet", state="DOWN"),), Desired()) == ()


def test_virtual_functions_and_the_other_link_layer_do_not_count():
    found = (*BLANK.devices, card("0101:00:00.1", "mlx5_9", virtual=True))
    assert differences(found, Desired(expected_ports=8)) == ()
    assert differences(found, Desired(expected_ports=1, link_layer="ethernet")) == ()
    assert len(differences(found, Desired(expected_ports=9, link_layer="infiniband"))) == 1


# Names -------------------------------------------------------------------------------------------------


def test_names_go_by_pci_address_whatever_the_kernel_calls_them():
    assert names(BLANK, ORDERED) == (
        *((address, "mlx5_ib{0}".format(place)) for place, address in enumerate(FABRIC)),
        ("7afd:00:02.0", "mlx5_an0"),
    )


def test_the_rules_of_two_cards():
    state = with_devices(BLANK, [card("0000:af:00.1", "mlx5_1"), card("0000:af:00.0", "mlx5_0")])
    assert rules(state, ORDERED).splitlines() == [
        "# Managed by trainyard.gpu_node. Changes will be lost.",
        "# Names of RDMA devices; udev reads this file in place of rdma-core's own of the same name.",
        'ACTION!="add", GOTO="gpu_node_rdma_end"',
        'SUBSYSTEM!="infiniband", GOTO="gpu_node_rdma_end"',
        'DEVPATH=="*/0000:af:00.0/infiniband/*", PROGRAM="rdma_rename %k NAME_FIXED mlx5_ib0", '
        'GOTO="gpu_node_rdma_end"',
        'DEVPATH=="*/0000:af:00.1/infiniband/*", PROGRAM="rdma_rename %k NAME_FIXED mlx5_ib1", '
        'GOTO="gpu_node_rdma_end"',
        "# Any other device, as rdma-core names it.",
        'PROGRAM="rdma_rename %k NAME_FALLBACK"',
        'LABEL="gpu_node_rdma_end"',
    ]
    assert rules(state, Desired(names="kernel")).splitlines()[-1] == (
        'ACTION=="add", SUBSYSTEM=="infiniband", PROGRAM="rdma_rename %k NAME_KERNEL"'
    )


def test_a_blank_node_gets_both_files_and_waits_for_a_boot():
    first = plan(BLANK, ORDERED)
    assert described(first) == [
        "declare section rdma in /etc/gpu_node/node.json",
        "make the folder /etc/udev",
        "make the folder /etc/udev/rules.d",
        "make the folder /etc/modprobe.d",
        "write " + RULES,
        "write " + IPOIB,
    ]
    assert "mlx5_0 becomes mlx5_ib0, mlx5_5 becomes mlx5_ib1" in first.notes[0]
    made = applied(BLANK, first)
    assert plan(made, ORDERED).actions == () and reboot_pending(made, ORDERED)
    booted = with_devices(
        made,
        [dataclasses.replace(one, name=made.declared["names"][one.pci_address]) for one in made.devices],
    )
    assert plan(booted, ORDERED) == Plan() and not reboot_pending(booted, ORDERED)


def test_a_missing_card_does_not_move_the_others():
    made = applied(BLANK, plan(BLANK, ORDERED))
    lacking = with_devices(made, (*made.devices[:3], *made.devices[4:]))
    result = plan(lacking, dataclasses.replace(ORDERED, expected_ports=8))
    assert result.actions == () and "7 are there instead of 8" in result.notes[0]


def test_names_are_not_given_before_all_ports_are_there():
    desired = dataclasses.replace(ORDERED, expected_ports=8)
    lacking = with_devices(BLANK, BLANK.devices[1:])
    result = plan(lacking, desired)
    assert "write " + RULES not in described(result)
    assert any("once all 8 ports are there" in note for note in result.notes)
    complete = plan(with_devices(applied(lacking, result), BLANK.devices), desired)
    assert "write " + RULES in described(complete)
    # A card in another place, and one that is gone: what was written stays.
    made = applied(BLANK, plan(BLANK, desired))
    moved = with_devices(made, [*made.devices[2:], card("0abc:00:00.0", "mlx5_0")])
    assert plan(moved, desired).actions == ()


def test_new_cards_are_named_anew():
    made = applied(BLANK, plan(BLANK, ORDERED))
    elsewhere = with_devices(made, [card("0201:00:00.0", "mlx5_0"), card("0202:00:00.0", "mlx5_1")])
    assert names(elsewhere, ORDERED) == (("0201:00:00.0", "mlx5_ib0"), ("0202:00:00.0", "mlx5_ib1"))
    renamed = dataclasses.replace(ORDERED, infiniband_prefix="ib")
    assert names(made, renamed)[0] == ("0101:00:00.0", "ib0")


def test_azures_own_service_is_left_its_work():
    result = plan(dataclasses.replace(BLANK, azure_naming=True), Desired(names="ordered"))
    assert result.actions == () and "azure_persistent_rdma_naming" in result.notes[0]


@pytest.mark.parametrize(
    "change, told",
    [
        ({"rename_program": None}, "rdma-core is not installed"),
        ({"fixed_names": False}, "knows no NAME_FIXED"),
    ],
)
def test_what_naming_needs_is_told(change, told):
    result = plan(dataclasses.replace(BLANK, **change), ORDERED)
    assert told in str(result.refusals[0]) and result.actions == ()
    assert not plan(dataclasses.replace(BLANK, **change), Desired()).refusals


def test_soft_devices_get_no_name():
    result = plan(with_devices(BLANK, [card(None, "rxe0", "Ethernet")]), Desired(names="ordered"))
    assert result.actions == () and "no RDMA device here has a PCI address" in result.notes[0]


# IPoIB and undoing -------------------------------------------------------------------------------------


def test_a_loaded_ipoib_stays_until_the_next_boot():
    state = dataclasses.replace(BLANK, ipoib_loaded=True)
    result = plan(state, Desired(ipoib="off"))
    assert "write " + IPOIB in described(result) and "until the next boot" in result.notes[-1]
    assert plan(state, Desired()).actions == () and not reboot_pending(state, Desired())


def test_only_what_is_wanted_no_more_goes():
    made = applied(BLANK, plan(BLANK, ORDERED))
    result = plan(made, Desired(names="ordered"))
    assert described(result) == ["declare section rdma in /etc/gpu_node/node.json", "remove " + IPOIB]


def test_absent_takes_back_what_was_made():
    made = applied(BLANK, plan(BLANK, ORDERED))
    result = plan(made, Desired(present=False))
    assert described(result) == [
        "remove " + RULES,
        "remove " + IPOIB,
        "remove the folder /etc/modprobe.d, if it is empty",
        "remove the folder /etc/udev/rules.d, if it is empty",
        "remove the folder /etc/udev, if it is empty",
        "take section rdma out of /etc/gpu_node/node.json",
    ]
    assert plan(applied(made, result), Desired(present=False)).actions == ()


def test_a_rules_file_of_somebody_else_stops_it():
    state = dataclasses.replace(BLANK, files=Files(found=((RULES, Seen("file", "# site\n", 0o644)),)))
    result = plan(state, ORDERED)
    assert RULES in str(result.refusals[0]) and result.actions == ()
    assert plan(state, Desired(present=False)).actions == ()


SEEN = st.sampled_from(
    [Seen(), Seen("file", MARKER + "\n", 0o600), Seen("file", "theirs\n", 0o644), Seen("link", MARKER), Seen("other")]
)
CARDS = st.builds(
    card,
    st.sampled_from([*FABRIC, "0000:af:00.1", None]),
    st.sampled_from(["mlx5_0", "mlx5_ib0", "rxe0"]),
    st.sampled_from(["InfiniBand", "Ethernet", None]),
    st.sampled_from(["ACTIVE", "DOWN", None]),
    st.sampled_from([200.0, 0.0, None]),
    st.sampled_from(["LinkUp", "Disabled", None]),
    st.booleans(),
)
DECLARED = st.sampled_from(
    [
        {},
        {"files": [RULES], "made_folders": ["/etc/udev"], "names": {FABRIC[0]: "mlx5_ib0", FABRIC[1]: "mlx5_ib1"}},
        {"files": [RULES, 7], "names": {FABRIC[0]: "mlx5_ib0", FABRIC[1]: "mlx5_ib0", "x": 'y"', FABRIC[2]: 3}},
        {"names": ["nonsense"]},
    ]
)
STATES = st.builds(
    lambda found, seen, declared, program, fixed, azure, loaded: State(
        devices=tuple(found),
        files=Files(tuple(zip(PATHS, seen)), (), *named(declared)),
        declared=declared,
        rename_program=program,
        fixed_names=fixed,
        azure_naming=azure,
        ipoib_loaded=loaded,
    ),
    st.lists(CARDS, max_size=4),
    st.lists(SEEN, min_size=2, max_size=2),
    DECLARED,
    st.sampled_from(["/usr/lib/udev/rdma_rename", None]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
WISHES = st.builds(
    Desired,
    present=st.booleans(),
    expected_ports=st.sampled_from([None, 0, 2]),
    rate_gbps=st.sampled_from([None, 200.0]),
    link_layer=st.sampled_from(["auto", "ethernet"]),
    strict=st.booleans(),
    names=st.sampled_from(["leave", "ordered", "pci", "kernel"]),
    ipoib=st.sampled_from(["leave", "off"]),
)


@given(STATES, WISHES)
def test_every_state_has_a_plan_that_ends_and_touches_nothing_foreign(state, desired):
    result = plan(state, desired)
    reboot_pending(state, desired)
    for action in result.actions:
        assert not state.files.seen(getattr(action, "path", "")).foreign
    if not result.refusals:
        assert plan(applied(state, result), desired).actions == ()
    given_names = [name for dummy, name in names(state, desired)]
    assert len(set(given_names)) == len(given_names)


@pytest.mark.parametrize(
    "options, told",
    [
        ({"expected_ports": -1}, "-1 is out of range; give 0 to 1024"),
        ({"rate_gbps": 0.0}, "0 Gb/s is out of range; give 0.1 to 100000 Gb/s"),
        ({"names": "order"}, "use one of leave, ordered, pci, kernel"),
        ({"infiniband_prefix": 'ib" '}, "is no beginning of a name"),
        ({"infiniband_prefix": "mlx5_"}, "names of kernel drivers begin with"),
        ({"ethernet_prefix": "mlx5_ib"}, "give each link layer its own"),
        ({"ipoib": "on"}, "use one of leave, off"),
        ({"link_layer": "iwarp"}, "use one of auto"),
    ],
)
def test_wrong_options_are_one_sentence(options, told):
    with pytest.raises(NodeError, match=told):
        Desired(**options)
