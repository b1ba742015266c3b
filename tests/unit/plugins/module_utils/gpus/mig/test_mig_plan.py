# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided of a node: pure, without NVML."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import options
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.boot_unit import BootUnitState
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.choose import silent
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.instances import Compute, Instance
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.place import Part, Placed
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.plan import decide, reboot_pending
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.types import (
    Client,
    Entry,
    FailedGpu,
    Gpu,
    Piece,
    Standing,
    State,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import mig_layout
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.gpus import A100_40

NOTHING = Standing(False)


def gpu(number: int = 0, mode: Optional[bool] = True, **more: Any) -> Gpu:
    fields: Dict[str, Any] = {"pci_id": 0x20B010DE, "part": A100_40, "resetless": False, "pending": mode}
    return Gpu(number, "GPU-{0}".format(number), "000{0}:00:00.0".format(number), mode=mode, **dict(fields, **more))


def three_g(start: int, number: int = 1) -> Instance:
    profile = A100_40.by_id(9)
    assert profile is not None
    return Instance(number, Placed(profile, start), (Compute(0, 3),))


def wish(**given: Any) -> Desired:
    return options.of(Desired, given)


def layout(*names: str, gpus: Any = ("all",)) -> Dict[str, Any]:
    return {"gpus": list(gpus), "instances": [{"profile": name} for name in names]}


def kinds(plan: Plan) -> List[str]:
    return [type(action).__name__ for action in plan.actions]


def parted(*specs: Dict[str, Any]) -> Desired:
    return wish(parted_config={"version": "v1", "mig-configs": {"a": list(specs)}})


def test_indices_of_the_file_count_gpus_that_do_not_answer_too() -> None:
    """Otherwise, with the first GPU lost, the layout of the second one would be made on the third."""
    second = parted({"devices": [1], "mig-enabled": True, "mig-devices": {"3g.20gb": 1}})
    lost = FailedGpu(None, None, "0000:00:00.0", "lost")
    whole = State(gpus=(gpu(1), gpu(2)))
    assert [action.uuid for action in decide(whole, second).actions if hasattr(action, "uuid")] == ["GPU-2"]
    one_lost = replaced(whole, failed=(lost,))
    assert [action.uuid for action in decide(one_lost, second).actions if hasattr(action, "uuid")] == ["GPU-1"]
    nameless = replaced(whole, failed=(replaced(lost, pci_address=None),))
    assert "its indices may mean other GPUs" in str(decide(nameless, second).refusals[0])
    every = parted({"devices": "all", "mig-enabled": True, "mig-devices": {"3g.20gb": 1}})
    assert kinds(decide(nameless, every)).count("MakeInstance") == 2


def test_gpus_without_mig_are_left_out_of_all_and_refused_by_their_index() -> None:
    state = State(gpus=(gpu(0, mode=None, part=Part(())), gpu(1)))
    off = {"devices": "all", "mig-enabled": False}
    every = {"devices": "all", "mig-enabled": True, "mig-devices": {"3g.20gb": 1}}
    for desired in (parted(every), wish(layouts=[layout("3g")])):
        assert [action.uuid for action in decide(state, desired).actions if hasattr(action, "uuid")] == ["GPU-1"]
    assert decide(State(gpus=state.gpus[:1]), parted(off)) == Plan()
    for desired in (parted(dict(every, devices=[0])), wish(layouts=[layout("3g", gpus=["0"])])):
        assert str(decide(state, desired).refusals[0]).startswith(
            "GPU 0 (0000:00:00.0): it cannot be divided (no MIG);"
        )


def test_the_record_is_written_before_the_first_step_and_settled_after_the_last() -> None:
    plan = decide(State(gpus=(gpu(instances=(three_g(0),)),)), wish(layouts=[layout("2g")]))
    assert kinds(plan) == ["Remember", "EndInstance", "MakeInstance", "Remember"]
    before, after = plan.actions[0], plan.actions[-1]
    was = Standing(True, (Piece(9, 0, (3,)),))
    assert before.entries == (("GPU-0", Entry(was, was)),)  # type: ignore[attr-defined]
    made = Standing(True, (Piece(14, 0, (2,)),))
    assert after.entries == (("GPU-0", Entry(was, None, made)),)  # type: ignore[attr-defined]


def test_what_a_killed_run_started_from_is_kept_until_the_change_is_done() -> None:
    origin, half = Standing(True), Standing(True, (Piece(9, 4, (3,)),))
    state = State(gpus=(gpu(),), entries=(("GPU-0", Entry(origin, half)),))
    plan = decide(state, wish(layouts=[layout("2g")]))
    assert kinds(plan) == ["MakeInstance", "Remember"]
    # It had come to its end: only the record says otherwise.
    done = decide(replaced(state, gpus=(gpu(instances=(three_g(4),)),)), wish(layouts=[layout("3g")]))
    assert kinds(done) == ["Remember"]
    made = Standing(True, (Piece(9, 4, (3,)),))
    assert done.actions[0].entries == (("GPU-0", Entry(origin, None, made)),)  # type: ignore[attr-defined]


def test_where_it_stands_is_noted_and_made_again_after_a_boot() -> None:
    """It was so before us, or an earlier version has made it and noted no places."""
    ask = wish(layouts=[layout("3g")])
    now = Standing(True, (Piece(9, 0, (3,)),))
    there = State(gpus=(gpu(instances=(three_g(0),)),))
    plan = decide(there, ask)
    assert kinds(plan) == ["Remember"]
    noted = Entry(now, None, now)
    assert plan.actions[0].entries == (("GPU-0", noted),)  # type: ignore[attr-defined]
    assert not decide(replaced(there, entries=(("GPU-0", noted),)), ask).actions
    old = decide(replaced(there, entries=(("GPU-0", Entry(NOTHING)),)), ask)
    assert old.actions[0].entries == (("GPU-0", Entry(NOTHING, None, now)),)  # type: ignore[attr-defined]
    booted = State(gpus=(gpu(),), entries=(("GPU-0", noted),))
    made = decide(booted, ask)
    assert kinds(made) == ["Remember", "MakeInstance", "Remember"] and made.actions[1].start == 0  # type: ignore[attr-defined]
    # The way back of the change keeps the places, and those are the same afterwards.
    assert made.actions[0].entries == (("GPU-0", Entry(now, Standing(True), now)),)  # type: ignore[attr-defined]
    assert made.actions[2].entries == (("GPU-0", noted),)  # type: ignore[attr-defined]


def test_what_was_made_is_what_stands_after_the_steps() -> None:
    divided = replaced(three_g(4, 1), compute=(Compute(0, 1), Compute(1, 2)))
    state = State(gpus=(gpu(instances=(divided, three_g(0, 2))),))
    ask = [{"profile": "3g", "compute": ["1c", "1c", "1c"]}, {"profile": "1g"}]
    plan = decide(state, wish(layouts=[{"gpus": ["all"], "instances": ask}]))
    assert kinds(plan) == ["Remember", "EndCompute", "EndInstance", "MakeInstance", "MakeCompute", "Remember"]
    made = plan.actions[-1].entries[0][1].made  # type: ignore[attr-defined]
    assert made == Standing(True, (Piece(19, 0, (1,)), Piece(9, 4, (1, 1, 1))))
    # Of a whole GPU, and of one without instances, there is nothing to make again.
    for layouts in ([{"gpus": ["all"], "mig": False}], [layout()]):
        entries = (("GPU-0", Entry(NOTHING, None, made)),)
        gone = State(gpus=(gpu(mode=bool(layouts[0].get("mig", True))),), entries=entries)
        done = decide(gone, wish(layouts=layouts))
        assert done.actions[0].entries == (("GPU-0", Entry(NOTHING)),)  # type: ignore[attr-defined]


def test_gpus_of_another_machine_are_forgotten() -> None:
    """An image carries the record on."""
    other = Entry(NOTHING, None, Standing(True, (Piece(9, 4, (3,)),)))
    lost = FailedGpu(1, "GPU-1", "0001:00:00.0", "lost")
    state = State(gpus=(gpu(),), failed=(lost,), entries=(("GPU-1", other), ("GPU-9", other)))
    for ask in (wish(layouts=[layout("3g")]), wish(state="default")):
        assert not any(getattr(action, "stage", "") == "gone" for action in decide(state, ask).actions)
        first = decide(replaced(state, moved=True), ask).actions[0]
        assert (first.stage, first.entries) == ("gone", (("GPU-9", None),))  # type: ignore[attr-defined]


def test_whether_a_reboot_is_all_that_lacks() -> None:
    ask, waiting = wish(layouts=[layout("3g", gpus=["0"])]), gpu(mode=False, pending=True)
    assert reboot_pending(State(gpus=(waiting,)), ask)
    for other in (
        State(gpus=(gpu(mode=False),)),
        State(gpus=(gpu(instances=(three_g(0),)),)),
        State(gpus=(gpu(mode=True, pending=False),)),  # it is about to lose what is wanted
        State(gpus=(gpu(), gpu(1, mode=False, pending=True))),  # nobody asked that of it
        State(gpus=(gpu(mode=None),)),
    ):
        assert not reboot_pending(other, ask)
    back = State(gpus=(gpu(mode=True, pending=False),), entries=(("GPU-0", Entry(NOTHING)),))
    assert reboot_pending(back, wish(state="default"))
    assert not reboot_pending(replaced(back, entries=()), wish(state="default"))


def test_a_mode_that_waits_keeps_the_way_back() -> None:
    waiting = gpu(mode=False, pending=True, reset_told=True)
    state = State(gpus=(waiting,), entries=(("GPU-0", Entry(NOTHING, NOTHING)),))
    plan = decide(state, wish(layouts=[layout("3g")]))
    assert plan.actions == () and "waits for a reset of the GPU" in plan.notes[0]


def test_a_mode_that_waited_for_a_process_is_tried_again_when_that_is_gone() -> None:
    """nvml.h: after IN_USE the caller is to idle the GPU and to set the mode again."""
    held = gpu(mode=False, pending=True, clients=(Client(7, command="nv-hostengine"), Client(8, command="p")))
    entries = (("GPU-0", Entry(NOTHING, NOTHING)),)
    plan = decide(State(gpus=(held,), entries=entries), wish(layouts=[layout("3g")]))
    assert plan.actions == () and plan.notes == (
        "GPU 0 (0000:00:00.0): MIG is switched on and waits for process 7 (nv-hostengine) and process 8 (p); end them"
        " and run it again, or reboot the node",
    )
    idle = State(gpus=(replaced(held, clients=()),), entries=entries)
    assert kinds(decide(idle, wish(layouts=[layout("3g")]))) == ["SetMode"]


def test_a_change_that_somebody_else_began_is_taken_back() -> None:
    """Whoever uses the GPU is not touched by that."""
    begun = gpu(mode=True, pending=False, clients=(Client(7),))
    assert kinds(decide(State(gpus=(begun,)), wish(layouts=[layout()]))) == ["Remember", "SetMode"]


def test_gpus_whose_mode_changes_first_come_last() -> None:
    """After them the node is looked at again: then what they can be divided into is known."""
    state = State(gpus=(gpu(0, mode=False), gpu(1)))
    plan = decide(state, wish(layouts=[layout("3g")]))
    assert kinds(plan) == ["Remember", "MakeInstance", "Remember", "SetMode"]
    assert plan.actions[-1].then_look()
    # One that needs no reset is divided in the same session, by what it tells while MIG is off.
    at_once = State(gpus=(gpu(0, mode=False, resetless=True),))
    assert kinds(decide(at_once, wish(layouts=[layout("3g")]))) == ["Remember", "SetMode", "MakeInstance", "Remember"]
    # A driver that tells no profiles while MIG is off is asked when it is on.
    unknown = State(gpus=(gpu(0, mode=False, resetless=True, part=Part(())),))
    assert kinds(decide(unknown, wish(layouts=[layout("3g")]))) == ["Remember", "SetMode"]


def test_instances_go_before_the_mode_is_switched_off() -> None:
    off = wish(layouts=[{"gpus": ["all"], "mig": False}])
    state = State(gpus=(gpu(instances=(three_g(0),)),))
    assert kinds(decide(state, off)) == ["Remember", "EndInstance", "SetMode"]
    used = State(gpus=(gpu(instances=(three_g(0),), clients=(Client(7, 1, 0, "train"),)),))
    assert str(decide(used, off).refusals[0]) == (
        "GPU 0 (0000:00:00.0): process 7 (train) uses it; end it to switch MIG off."
    )


def test_many_clients_are_counted() -> None:
    clients = tuple(Client(pid, command="p") for pid in range(1, 8))
    told = decide(State(gpus=(gpu(mode=False, clients=clients),)), wish(layouts=[layout("3g")]))
    assert str(told.refusals[0]).endswith("process 4 (p) and 3 more use it; end them to switch MIG on.")


def test_back_to_what_was_before_with_places_and_compute_instances() -> None:
    was = Standing(True, (Piece(9, 0, (1, 2)),))
    state = State(gpus=(gpu(instances=(three_g(4),)),), entries=(("GPU-0", Entry(was)), ("GPU-9", Entry(NOTHING))))
    plan = decide(state, wish(state="default"))
    assert kinds(plan) == ["Remember", "EndInstance", "MakeInstance", "Remember"]
    made = plan.actions[2]
    assert (made.start, made.compute) == (0, (2, 1))  # type: ignore[attr-defined]
    # The entry of a GPU that does not answer stays for the day when it does.
    assert plan.actions[-1].entries == (("GPU-0", None),)  # type: ignore[attr-defined]
    there = replaced(three_g(0), compute=(Compute(0, 1), Compute(1, 2)))
    again = decide(replaced(state, gpus=(gpu(instances=(there,)),)), wish(state="default"))
    assert kinds(again) == ["Remember"]


def test_back_to_an_instance_that_had_no_compute_instance() -> None:
    was = Standing(True, (Piece(9, 0, ()),))
    elsewhere = State(gpus=(gpu(instances=(three_g(4),)),), entries=(("GPU-0", Entry(was)),))
    made = decide(elsewhere, wish(state="default")).actions[2]
    assert (made.start, made.compute) == (0, ())  # type: ignore[attr-defined]
    assert made.describe() == "GPU 0 (0000:00:00.0): make 3g.20gb at 0, divided into nothing"
    # Where it stands, what was made in it goes; then nothing is left to do.
    there = replaced(elsewhere, gpus=(gpu(instances=(three_g(0),)),))
    assert kinds(decide(there, wish(state="default"))) == ["Remember", "EndCompute", "Remember"]
    bare = replaced(elsewhere, gpus=(gpu(instances=(replaced(three_g(0), compute=()),)),))
    assert kinds(decide(bare, wish(state="default"))) == ["Remember"]


def test_going_back_that_waits_for_a_reset_keeps_its_entry() -> None:
    waiting = gpu(mode=True, pending=False, reset_told=True)
    state = State(gpus=(waiting,), entries=(("GPU-0", Entry(NOTHING)),))
    plan = decide(state, wish(state="default"))
    assert plan.actions == () and "MIG is switched off and waits for a reset of the GPU" in plan.notes[0]
    assert kinds(decide(replaced(state, gpus=(gpu(mode=False),)), wish(state="default"))) == ["Remember"]


def test_without_gpus_it_is_skipped_or_refused() -> None:
    state = State(absent="no GPU here")
    assert decide(state, wish(layouts=[layout("3g")])).skipped == "no GPU here"
    assert decide(state, wish(state="default")).skipped == "no GPU here"
    refused = decide(state, wish(layouts=[layout("3g")], require_gpus=True))
    assert str(refused.refusals[0]).startswith("this node: no GPU here; set require_gpus to false")


def test_silent_gpus_are_told_where_they_are_wanted() -> None:
    lost, nobody = FailedGpu(3, None, "0003:00:00.0", "lost"), FailedGpu(None, None, None, "who is it")
    state = State(gpus=(gpu(),), failed=(lost, nobody))
    assert silent(state, wish(layouts=[layout("3g")])) == ["lost", "who is it"]
    assert silent(state, wish(layouts=[layout("3g", gpus=["0"])])) == ["who is it"]
    assert silent(state, wish(layouts=[layout("3g", gpus=["0003:00:00.0"])])) == ["lost", "who is it"]
    assert silent(state, parted({"devices": "all", "mig-enabled": False})) == ["lost", "who is it"]
    assert silent(state, wish()) == silent(state, wish(state="default")) == []


def test_layouts_that_are_no_longer_asked_for_are_told_while_they_stand() -> None:
    """No boot makes them again, so whoever relies on them would find out after the next one."""
    told = (
        "1 GPU(s) keep instances made here until the next reboot; set mig_layout_state: default to give them back now",
    )
    made = State(gpus=(gpu(instances=(three_g(0),)), gpu(1)), entries=(("GPU-0", Entry(NOTHING)),))

    def notes(seen: State, **given: Any) -> Any:
        return mig_layout.plan(mig_layout.Found(seen), wish(**given)).notes

    assert notes(made) == told
    assert told[0] not in notes(made, layouts=[layout("3g")]) and notes(made, state="default") == ()
    # After the reboot they are gone; those that stood before us are not ours.
    assert notes(replaced(made, gpus=(gpu(), gpu(1)))) == ()
    before = Standing(True, (Piece(9, 0, (3,)),))
    assert notes(replaced(made, entries=(("GPU-0", Entry(before)),))) == ()


GONE = State(absent="no GPU here")


def _declared(desired: Desired) -> Any:
    """A node on which this is declared and whose boot unit is there."""
    unit = mig_layout.unit_of(desired)
    declared = replaced(GONE, declared=options.given(desired))
    return mig_layout.Found(declared, BootUnitState(text=unit.text(), enabled=True))


def test_a_node_whose_gpus_are_all_gone_keeps_what_was_declared() -> None:
    """After the reboot that brings them back, the boot unit has to make their layouts."""
    ask = wish(layouts=[layout("3g")])
    there = _declared(ask)
    assert mig_layout.plan(there, ask) == Plan(skipped="no GPU here")
    # A new wish is on record for that day; nobody is told that it was made.
    other = mig_layout.plan(there, wish(layouts=[layout("7g")]))
    assert [type(action).__name__ for action in other.actions] == ["Declare"] and other.notes == ("no GPU here",)
    assert other.actions[0].content is not None  # type: ignore[attr-defined]
    # Whoever undoes it, or asks for nothing any more, is heard.
    for gone in (wish(state="default"), wish()):
        assert sorted(kinds(mig_layout.plan(there, gone))) == ["Declare", "ReloadSystemd", "RemoveUnit"]
    # A machine that never had a GPU declares nothing.
    assert mig_layout.plan(mig_layout.Found(GONE), ask) == Plan(skipped="no GPU here")
