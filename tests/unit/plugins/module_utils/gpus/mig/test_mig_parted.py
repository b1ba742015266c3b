# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-mig-parted's configuration file, with the labels of the one that it ships (0.15, config-default.yaml)."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.parted import (
    Entry,
    NotParted,
    entries,
    of_gpu,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.parted_labels import (
    A30,
    A100_40,
    A100_80,
    H100,
    SHIPPED,
)


def config(label: str, *specs: Dict[str, Any]) -> Dict[str, Any]:
    return {"version": "v1", "mig-configs": {label: list(specs)}}


def spec(**fields: Any) -> Dict[str, Any]:
    named = {"devices": "all", "mig-enabled": True, "mig-devices": {}}
    named.update({name.replace("_", "-"): value for name, value in fields.items()})
    return {name: value for name, value in named.items() if value is not None}


def test_the_labels_that_it_ships_for_one_profile() -> None:
    names = [(count, name) for count, text in SHIPPED.items() for name in text.split()]
    assert len(names) == 81 - 5  # all-disabled, all-enabled, all-balanced, all-1g.10gb and all-1g.35gb are below
    for count, name in names:
        found = entries(config("all-" + name.replace("+", "."), spec(mig_devices={name: count})), None)
        assert found == (Entry(None, (), True, ((name, count),)),)


def test_a_label_that_wants_another_number_of_another_gpu() -> None:
    tens = config(
        "all-1g.10gb",
        spec(device_filter=["0x233010DE", "0x20B210DE"], mig_devices={"1g.10gb": 7}),
        spec(device_filter=["0x20B010DE"], mig_devices={"1g.10gb": 4}),
    )
    found = entries(tens, "all-1g.10gb")
    assert [of_gpu(found, 0, number, None) for number in (H100, A100_40, A30)] == [found[0], found[1], None]
    assert found[1].instances == (("1g.10gb", 4),)


def test_balanced_by_a_filter_that_is_one_text() -> None:
    found = entries(
        config("all-balanced", spec(device_filter="0x20B710DE", mig_devices={"1g.6gb": 2, "2g.12gb": 1})), None
    )
    assert found[0].filters == ((A30, None),)
    assert found[0].instances == (("1g.6gb", 2), ("2g.12gb", 1))


def test_all_disabled_and_all_enabled() -> None:
    off = {"devices": "all", "mig-enabled": False}
    assert entries(config("all-disabled", off), None) == (Entry(None, (), False),)
    assert entries(config("all-disabled", dict(off, **{"mig-devices": {}})), None) == (Entry(None, (), False),)
    assert entries(config("all-enabled", spec()), None) == (Entry(None, (), True),)


def test_counts_of_nothing_are_left_out() -> None:
    found = entries(config("a", spec(mig_devices={"3g.20gb": 1, "1g.5gb": 0})), "a")
    assert found[0].instances == (("3g.20gb", 1),)


def test_indices_choose_and_the_later_entry_holds() -> None:
    found = entries(config("a", spec(), spec(devices=[1, 3], mig_enabled=False, mig_devices=None)), "a")
    chosen = [of_gpu(found, index, A100_40, None) for index in range(4)]
    assert [entry is not None and entry.enabled for entry in chosen] == [True, False, True, False]
    assert of_gpu(entries(config("a", spec(devices=[2])), "a"), 1, A100_40, None) is None


@pytest.mark.parametrize(
    "written, pci_id, subsystem, chosen",
    [
        ("0x20B210DE", A100_80, None, True),
        ("0x20b210de", A100_80, 1, True),
        (str(A100_80), A100_80, None, True),
        ("0x20B210DE", None, None, False),
        ("0x20B210DE:0x134F10DE", A100_80, 0x134F10DE, True),
        ("0x20B210DE:0x134F10DE", A100_80, 0x147F10DE, False),
        ("0x20B210DE:0x134F10DE", A100_80, None, False),
    ],
)
def test_filters(written: str, pci_id: Optional[int], subsystem: Optional[int], chosen: bool) -> None:
    found = entries(config("a", spec(device_filter=written)), "a")
    assert (of_gpu(found, 0, pci_id, subsystem) is not None) == chosen


def test_a_label_is_needed_where_there_are_several_and_a_wrong_one_is_told() -> None:
    several = config("all-3g.20gb", spec())
    several["mig-configs"]["all-2g.10gb"] = [spec()]
    with pytest.raises(NotParted, match=r"^it has 2 configurations; name one of them with parted_label$"):
        entries(several, None)
    with pytest.raises(NotParted) as told:
        entries(several, "all-3g.2gb")
    assert str(told.value) == (
        "it has no label 'all-3g.2gb'; did you mean 'all-3g.20gb'? there are all-2g.10gb, all-3g.20gb"
    )


BAD: List[Tuple[Any, str]] = [
    (None, "the configuration is no mapping"),
    ({}, "its version is None, and v1 is the one that is known"),
    ({"version": "v2", "mig-configs": {"a": [spec()]}}, "its version is 'v2', and v1 is the one that is known"),
    ({"version": "v1"}, "mig-configs is no mapping"),
    ({"version": "v1", "mig-configs": {}}, "mig-configs has no entry; it needs one at least"),
    (
        {"version": "v1", "mig-configs": {"a": [spec()]}, "more": 1},
        "unexpected field more; there are version and mig-c",
    ),
    (config("a"), "a is no list with an entry at least"),
    (config("a", spec(gpus="all")), "a[0]: unexpected field gpus; there are devices, device-filter, mig-enabled, mig-"),
    (config("a", spec(devices=None)), "a[0]: the field devices is missing"),
    (config("a", spec(mig_enabled=None)), "a[0]: the field mig-enabled is missing"),
    (config("a", spec(), spec(mig_devices=None)), "a[1]: the field mig-devices is missing; an empty one makes no inst"),
    (config("a", spec(mig_enabled="yes")), "a[0]: mig-enabled is 'yes', neither true nor false"),
    (config("a", spec(mig_enabled=False, mig_devices={"1g.5gb": 1})), "a[0]: mig-devices wants instances, and mig-ena"),
    (config("a", spec(devices="some")), "a[0]: devices is 'some', neither all nor a list of indices"),
    (config("a", spec(devices=[0, -1])), "a[0]: devices is [0, -1], neither all nor a list of indices"),
    (config("a", spec(devices=[True])), "a[0]: devices is [True], neither all nor a list of indices"),
    (config("a", spec(device_filter="A100")), "a[0]: device-filter has 'A100', which is no PCI id as 0x20B010DE or"),
    (config("a", spec(device_filter=[1])), "a[0]: device-filter has 1, which is no PCI id as 0x20B010DE or"),
    (config("a", spec(mig_devices=["3g.20gb"])), "a[0]: mig-devices is no mapping"),
    (config("a", spec(mig_devices={"large": 1})), "a[0]: mig-devices has 'large', which is no name of a profile as 3g"),
    (config("a", spec(mig_devices={"3g.20gb": -1})), "a[0]: mig-devices wants -1 of 3g.20gb; that is no count"),
    (config("a", spec(mig_devices={"3g.20gb": True})), "a[0]: mig-devices wants True of 3g.20gb; that is no count"),
    (config("a", spec(mig_devices={"3g.20gb": 0})), "a[0]: all counts of mig-devices are 0"),
]


@pytest.mark.parametrize("document, said", BAD, ids=[said for _document, said in BAD])
def test_what_is_no_configuration(document: Any, said: str) -> None:
    with pytest.raises(NotParted) as told:
        entries(document, None)
    assert str(told.value).startswith(said)
