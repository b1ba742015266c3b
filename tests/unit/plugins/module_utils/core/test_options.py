# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a resource: one description, from which the checks, the argument specification and the way back come."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import options as core
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import option, options, state
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.registry import AT_BOOT
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Refused


@options
class Part:
    name: str = option(core.REQUIRED, "Its name.")
    source: str = option("", "Where it is.", secret=True)


@options
class Wish:
    """All kinds of options."""

    present: bool = state("V(absent) takes it away.")
    count: Optional[int] = option(None, "How many.", bounds=(1, 8), unit="disks", profile="nvme.count")
    rate: float = option(1.5, "How fast.", bounds=(0.5, 9), unit="GB/s")
    mode: str = option("slow", "How.", choices=("slow", "fast"))
    label: str = option("", "A name.", form=("[a-z]+", "name", "use small letters"), needs=("mode",))
    words: Tuple[str, ...] = option((), "Words.", form=("[a-z]+", "word", "use small letters"))
    table: Mapping[str, Any] = option({}, "Names and values.")
    parts: Tuple[Part, ...] = option((), "Parts.", inner=Part)
    folder: str = option("/srv", "Where.", kind="path", read=lambda value: value.rstrip("/"))

    def __post_init__(self) -> None:
        if self.mode == "fast" and self.rate < 1:
            raise NodeError("option rate", "it is too small for fast", "give more")


def test_what_ansible_is_told():
    assert core.argument_spec(Wish) == {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "count": {"type": "int"},
        "rate": {"type": "float", "default": 1.5},
        "mode": {"type": "str", "choices": ["slow", "fast"], "default": "slow"},
        "label": {"type": "str", "default": ""},
        "words": {"type": "list", "elements": "str", "default": []},
        "table": {"type": "dict", "default": {}},
        "parts": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "name": {"type": "str", "required": True},
                "source": {"type": "str", "default": ""},
            },
        },
        "folder": {"type": "path", "default": "/srv"},
    }


@pytest.mark.parametrize(
    "wish, told",
    [
        ({"contu": 1}, "option contu: there is no such option; did you mean 'count'? use some of state, count, rate"),
        ({"state": "gone"}, "option state: 'gone' is not known here; use one of present, absent."),
        ({"count": 9}, "option count: 9 disks is out of range; give 1 to 8 disks."),
        ({"count": 1.5}, "option count: 1.5 is no whole number; give a whole number."),
        ({"count": True}, "option count: True is no whole number; give a whole number."),
        ({"count": "4"}, "option count: '4' is no whole number; write it without quotes."),
        ({"rate": "quick"}, "option rate: 'quick' is no number; give a number."),
        ({"rate": float("nan")}, "option rate: nan GB/s is out of range; give 0.5 to 9 GB/s."),
        ({"mode": "no"}, "option mode: 'no' is not known here; use one of slow, fast."),
        ({"label": "A", "mode": "fast"}, "option label: 'A' is no name; use small letters."),
        ({"label": "a"}, "option label: it is nothing without option mode; give both."),
        ({"words": ["a", "B"]}, "option words: 'B' is no word; use small letters."),
        ({"words": "ab"}, "option words: 'ab' is no list; write it as [\"ab\"]."),
        ({"mode": 511}, "option mode: it is the number 511 and no text; put it in quotes."),
        ({"mode": True}, "option mode: it is true and no text; put it in quotes."),
        ({"table": []}, "option table: [] is no mapping of names to values; give a mapping."),
        ({"parts": [{"name": "a"}, 3]}, "option parts[1]: 3 is no mapping of names to values; give a mapping."),
        (
            {"parts": [{"name": "a"}, "b"]},
            'option parts[1]: \'b\' is no mapping of names to values; write it as {"name": "b"}.',
        ),
        ({"parts": "b"}, 'option parts: \'b\' is no list; write it as [{"name": "b"}].'),
        ({"parts": [{"name": "a"}, {"source": "/a"}]}, "option parts[1].name: it is missing; give it."),
        (
            {"parts": [{"nam": "a", "name": "b"}]},
            "option parts[0].nam: there is no such option; did you mean 'name'? use some of name, source.",
        ),
        ({"parts": [{"name": 3600.0}]}, "option parts[0].name: it is the number 3600.0 and no text; put it in quotes."),
        ({"mode": "fast", "rate": 0.7}, "option rate: it is too small for fast; give more."),
    ],
)
def test_what_is_wrong_is_one_sentence(wish, told):
    with pytest.raises(NodeError) as error:
        core.of(Wish, wish)
    assert str(error.value).startswith(told)


@options
class Handed:
    command: Tuple[str, ...] = option((), "A program with its arguments.", private=True)


def test_a_command_in_one_text_is_told_how_commands_are_written_and_not_shown():
    with pytest.raises(NodeError) as error:
        core.of(Handed, {"command": "/usr/bin/az vm deallocate --password X9"})
    assert str(error.value) == (
        "option command: it is a text and no list; give each word by itself, as [/usr/bin/az, vm, deallocate]."
    )


@pytest.mark.parametrize(
    "wish, things",
    [
        ({"colour": 1, "count": "many", "parts": [{}]}, ["option colour", "option count", "option parts[0].name"]),
        # What is of another kind does not hide what is out of range, nor one entry the next.
        (
            {"table": [], "count": 9, "mode": "soso", "parts": [{"name": 1}, {"nam": "a", "name": 2}]},
            ["option table", "option parts[0].name", "option parts[1].nam", "option parts[1].name", "option count"]
            + ["option mode"],
        ),
        (
            {"count": 9, "mode": "soso", "words": ["a", "B", "C"]},
            ["option count", "option mode"] + ["option words"] * 2,
        ),
    ],
)
def test_all_that_is_wrong_is_told_at_once(wish, things):
    with pytest.raises(Refused) as error:
        core.of(Wish, wish)
    assert [one.thing for one in error.value.refusals] == things


def test_whoever_makes_one_is_told_the_same():
    with pytest.raises(NodeError, match="count: 9 disks is out of range"):
        Wish(count=9)


def test_the_profile_has_the_value_of_what_is_not_given():
    profile = {"nvme": {"count": 4}}
    assert core.of(Wish, {}, profile).count == 4
    assert core.of(Wish, {"count": None}, profile).count == 4
    assert core.of(Wish, {"count": 2}, profile).count == 2
    assert core.of(Wish, {}, {"nvme": "none"}).count is None
    with pytest.raises(NodeError, match="count: 64 disks is out of range"):
        core.of(Wish, {}, {"nvme": {"count": 64}})


@options
class Tunable:
    """``path`` matters to what goes away, too."""

    _for_absent = ("path",)

    present: bool = state("V(absent) takes it away.")
    path: str = option("/a", "Where.", form=("/[a-z]", "path", "give one"))
    level: int = option(1, "How much.", bounds=(0, 2))
    names: Mapping[str, Any] = option({}, "Names.", profile="names", of_profile=lambda value: dict(value, b=2))
    kind: str = option("", "Which.", of_role="other_kind")


def test_what_goes_away_is_checked_for_what_matters_to_it():
    assert Tunable(present=False, level=3).level == 3
    with pytest.raises(NodeError, match="option level: 3 is out of range"):
        Tunable(level=3)
    with pytest.raises(NodeError, match="option path: 'b' is no path"):
        Tunable(present=False, path="b")


@options
class Slice:
    size: int = option(..., "How large.", bounds=(0, 2))


@options
class Whole:
    _for_absent = ("lid",)

    present: bool = state("V(absent) takes it away.")
    slices: Tuple[Slice, ...] = option((), "Slices.", inner=Slice)
    lid: Optional[Slice] = option(None, "What lies on top.", inner=Slice)


def test_what_goes_away_is_not_checked_in_the_options_of_its_options():
    wrong = {"size": 3}
    assert core.of(Whole, {"state": "absent", "slices": [wrong]}) == Whole(present=False)
    for given_ in ({"slices": [wrong]}, {"state": "absent", "lid": wrong}):
        with pytest.raises(NodeError, match=r"option (lid|slices\[0\]).size: 3 is out of range"):
            core.of(Whole, given_)


def test_what_the_profile_has_may_be_another_value():
    assert core.of(Tunable, {}, {"names": {"a": 1}}).names == {"a": 1, "b": 2}
    assert core.of(Tunable, {"names": {"c": 3}}, {"names": {"a": 1}}).names == {"c": 3}
    assert core.of(Tunable, {}, {}).names == core.of(Tunable, {}).names == {}


def test_what_another_role_may_tell_has_no_default_for_ansible():
    assert core.argument_spec(Tunable)["kind"] == {"type": "str"} and core.of(Tunable, {"kind": None}).kind == ""


@given(
    st.builds(
        Wish,
        present=st.booleans(),
        count=st.none() | st.integers(1, 8),
        rate=st.floats(1, 9),
        mode=st.sampled_from(("slow", "fast")),
        words=st.lists(st.sampled_from("abc")).map(tuple),
        table=st.dictionaries(st.text(), st.integers()),
        parts=st.lists(st.builds(Part, st.text(), st.text())).map(tuple),
    )
)
def test_what_was_given_gives_the_same_again(wish):
    again = core.of(Wish, core.given(wish))
    assert again == wish and core.given(again) == core.given(wish)


def test_only_what_is_not_at_its_default_is_given():
    assert core.given(Wish()) == {}
    assert core.given(Wish(present=False, rate=2.0)) == {"state": "absent", "rate": 2.0}


@pytest.mark.parametrize("name", registry.NAMES)
def test_each_resource_can_be_described_and_made_of_nothing(name):
    resource = registry.resource(name)
    known = core.described(resource.options)
    assert resource.name == name and known["state"].kind == "state"
    assert (resource.at_boot is not None) is ("boot_unit" in known) is (name in AT_BOOT)
    for one in known.values():
        assert one.help and not (one.bounds and one.kind not in ("int", "float"))
    if not any(one.default is core.REQUIRED for one in known.values()):
        assert core.given(core.of(resource.options, {})) == {}


def test_each_entry_of_a_list_is_of_its_kind():
    @core.options
    class Names:
        names: Tuple[str, ...] = core.option((), "Names.", form=("[a-z]+", "name", "give one"))

    for entry in (None, ["a"]):
        with pytest.raises(NodeError, match="option names: .* is no text; give a text"):
            core.of(Names, {"names": ["a", entry]})
    for entry in (7, 2.1, True):
        with pytest.raises(
            NodeError, match="option names: it is (the number (7|2.1)|true) and no text; put it in quotes"
        ):
            core.of(Names, {"names": ["a", entry]})


def test_a_whole_number_is_its_text_where_people_write_indexes():
    @core.options
    class Chosen:
        gpus: Tuple[str, ...] = core.option((), "GPUs.", whole=(0, 31))
        one: str = core.option("", "A GPU.", whole=(0, 31))

    assert core.of(Chosen, {"gpus": [0, "GPU-1", 31], "one": 7}) == Chosen(("0", "GPU-1", "31"), "7")
    assert core.of(Chosen, {"gpus": "all"}).gpus == ("all",) and core.of(Chosen, {"gpus": 3}).gpus == ("3",)
    assert core.of(Chosen, {"gpus": "0, 1"}).gpus == ("0", "1")
    with pytest.raises(Refused) as error:
        core.of(Chosen, {"gpus": [3600.0, 32, True, "0"], "one": 60})
    assert [one.reason for one in error.value.refusals] == [
        "it is the number 3600.0 and no text",
        "it is the number 32 and no text",
        "it is true and no text",
        "it is the number 60 and no text",
    ]


def test_single_values_are_checked_without_a_class():
    known = {"mode": core.Option(None, "", kind="str", choices=("a", "b"), name="mode", field="mode")}
    assert core.refused(known, {"mode": "a"}) == core.refused(known, {}) == []
    assert [str(one) for one in core.refused(known, {"mode": "c", "mod": 1})] == [
        "option mod: there is no such option; did you mean 'mode'? use some of mode.",
        "option mode: 'c' is not known here; use one of a, b.",
    ]
    known["mode"] = core.Option(None, "", kind="str", choices=("", "a"), name="mode", field="mode")
    assert [one.remedy for one in core.refused(known, {"mode": "c"})] == ["use one of a"]


def test_secrets_are_looked_for_in_whatever_was_given():
    assert core.secrets(Wish, {"parts": 3}) == [] and core.secrets(Wish, {"parts": [{"source": "x"}]}) == ["x"]


@pytest.mark.parametrize("power", [400, -400, "inf", "nan"])
def test_a_number_that_no_float_can_hold_is_out_of_range(power):
    value = float(power) if isinstance(power, str) else 10**400 if power > 0 else -(10**400)

    @options
    class Sizes:
        rate: float = option(1.0, "A rate.", bounds=(0, 10))
        count: int = option(1, "A count.", bounds=(0, 10))

    for name in ("rate", "count") if isinstance(value, int) else ("rate",):
        with pytest.raises(NodeError, match="is out of range"):
            core.of(Sizes, {name: value})
