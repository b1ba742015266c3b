# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plans of cleanup and node_lease: a second one is empty, what is of others stays, and absent leaves nothing."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command.main import parser
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import lease, managed_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.lease import Memory, Phase
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import (
    MARKER,
    Files,
    RemoveFile,
    Seen,
    WriteFile,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files.plan import named
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import as_section, of, of_section
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.timer import TimerState
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.units import (
    DisableUnit,
    EnableUnit,
    ReloadSystemd,
    StartUnit,
    StopUnit,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.lease.follow import MOTD
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.leftovers.types import Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import cleanup, node_lease
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.cleanup import types as cleanup_types
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.cleanup.plan import plan as cleanup_plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.cleanup.plan import (
    service as cleanup_service,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.cleanup.plan import wanted as cleanup_wanted
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_lease import types as lease_types
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_lease.plan import plan as lease_plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_lease.plan import (
    service as lease_service,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_lease.types import (
    EndReservation,
    Forget,
    Remember,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import on_node
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.client import Slurm
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.commands import NoAnswer

UNTIL, END = "2040-12-01T18:00Z", 2237997600.0
RUNNING = TimerState(running=True)
LEASED = lease_types.State(timer=RUNNING, now=END - 1e6, machine="m")
LEASE = of(node_lease.Desired, {"until": UNTIL})
CLEANED = cleanup_types.State(timer=RUNNING)
KINDS = (
    (cleanup_plan, CLEANED, cleanup.Desired(), cleanup.Desired(present=False), cleanup_types.UNIT.paths),
    (lease_plan, LEASED, LEASE, node_lease.Desired(present=False), lease_types.UNIT.paths),
)


def applied(state, result, units):
    """The state after the actions of a plan, as node and systemd would be."""
    declared, timer = dict(state.declared), state.timer
    memory = getattr(state, "memory", None)
    more = {}
    for action in result.actions:
        if isinstance(action, Declare):
            declared = dict(action.content or {})
        elif isinstance(action, (EnableUnit, DisableUnit)):
            timer = replaced(timer, enabled=isinstance(action, EnableUnit))
        elif isinstance(action, (StartUnit, StopUnit)):
            timer = replaced(timer, active=isinstance(action, StartUnit))
        elif isinstance(action, ReloadSystemd):
            timer = replaced(timer, stale=False)
        elif isinstance(action, Remember):
            before = memory if memory.machine == state.machine else Memory(state.machine)
            more.update(memory=replaced(before, until=action.until, seen=1.0), remembered=True)
        elif isinstance(action, Forget):
            more.update(memory=Memory(), remembered=False)
        elif isinstance(action, EndReservation):
            more.update(memory=replaced(memory, reserved=""))
        elif isinstance(action, RemoveFile) and action.path == MOTD:
            more.update(motd=False)
    rest = [one for one in result.actions if isinstance(one, (WriteFile, RemoveFile)) and one.path in units]
    former, made = named(declared)
    files = replaced(managed_files.after(state.files, rest), former=former, made_folders=made)
    return replaced(state, files=files, declared=declared, timer=timer, **more)


@pytest.mark.parametrize("plan, state, wanted, absent, units", KINDS, ids=["cleanup", "node_lease"])
def test_a_timer_comes_and_goes(plan, state, wanted, absent, units):
    first = plan(state, wanted)
    kinds = [type(one) for one in first.actions if not isinstance(one, Remember)]
    assert kinds == [Declare, WriteFile, WriteFile, EnableUnit, ReloadSystemd, StartUnit]
    after = applied(state, first, units)
    assert plan(after, wanted).actions == () and {path for path, seen in after.files.found if seen.ours} == set(units)
    gone = plan(after, absent)
    assert [type(one) for one in gone.actions][:2] == [StopUnit, DisableUnit]
    left = applied(after, gone, units)
    assert left.declared == {} and not any(seen.ours for dummy, seen in left.files.found)
    assert plan(left, absent).actions == () and plan(state, absent).actions == ()
    # The last run died after it had removed the units, before systemd read that.
    died = replaced(left, timer=replaced(left.timer, stale=True))
    assert plan(died, absent).actions == (ReloadSystemd(),)


SEEN = st.sampled_from((Seen(), Seen("file", MARKER + "\nold\n", 0o644), Seen("file", "mine\n", 0o600), Seen("other")))
TIMERS = st.builds(TimerState, st.just(True), st.booleans(), st.booleans(), st.booleans())


@given(
    st.sampled_from(KINDS),
    st.tuples(SEEN, SEEN),
    TIMERS,
    st.booleans(),
    st.sampled_from(
        (Memory(), Memory("m", END, 1.0), Memory("m", 5.0, 1.0, (), "r", Phase.ENDED), Memory("x", END, 1.0))
    ),
    st.booleans(),
)
def test_whatever_is_found_a_second_plan_is_empty_and_what_is_of_others_stays(
    kind, files, timer, present, memory, motd
):
    plan, state, wanted, absent, units = kind
    state = replaced(state, files=Files(found=tuple(zip(units, files))), timer=timer)
    if hasattr(state, "memory"):
        state = replaced(state, memory=memory, remembered=memory != Memory(), motd=motd)
    desired = wanted if present else absent
    first = plan(state, desired)
    assert not (first.refusals and first.actions)
    touched = {one.path for one in first.actions if isinstance(one, (WriteFile, RemoveFile))}
    assert all(not seen.foreign for path, seen in state.files.found if path in touched)
    after = applied(state, first, units)
    assert plan(after, desired).actions == () or first.refusals
    if not present:
        assert not after.declared and not any(seen.ours for dummy, seen in after.files.found)
        assert not getattr(after, "motd", False) and not getattr(after, "remembered", False)


def test_a_lease_that_is_over_is_refused_unless_it_is_in_force_here():
    late = replaced(LEASED, now=END)
    refused = lease_plan(late, LEASE)
    assert refused.actions == () and "it is over already" in str(refused.refusals[0])
    ended = replaced(applied(LEASED, lease_plan(LEASED, LEASE), lease_types.UNIT.paths), now=END + 1)
    for until in (UNTIL, "2040-12-01T19:00+01:00"):
        told = lease_plan(ended, replaced(LEASE, until=until))
        assert told.actions == () and told.refusals == () and "the lease ended at 2040-12-01" in told.notes[0]
    assert lease_plan(ended, replaced(LEASE, reset=not LEASE.reset)).refusals


def test_a_machine_that_cannot_be_told_apart_is_told_that_nothing_will_be_reset():
    found = lease_plan(replaced(LEASED, machine=""), LEASE)
    assert not any(isinstance(one, Remember) for one in found.actions) and "will not be reset" in found.notes[0]


def test_without_a_time_there_is_no_lease_and_one_that_was_there_goes():
    assert "no lease is wanted" in lease_plan(LEASED, node_lease.Desired()).skipped
    before = applied(LEASED, lease_plan(LEASED, LEASE), lease_types.UNIT.paths)
    before = replaced(before, memory=replaced(before.memory, reserved="r", phase=Phase.ENDED), motd=True)
    gone = lease_plan(before, node_lease.Desired())
    assert EndReservation("r") in gone.actions and Forget() in gone.actions and RemoveFile(MOTD) in gone.actions
    assert "stays so" in gone.notes[0]
    # That of another machine, in an image, is not this one's to end.
    other = lease_plan(replaced(before, machine="x"), node_lease.Desired())
    assert EndReservation("r") not in other.actions and other.notes == ()


@pytest.mark.parametrize("has_slurm", [True, False])
def test_a_reservation_is_forgotten_only_where_slurm_is_gone(tmp_path, monkeypatch, has_slurm):
    host = Host(str(tmp_path))
    lease.write(host, Memory("m", reserved="r"))

    def silent(self, name):
        raise NoAnswer("slurmctld", "it does not answer: squeue did not end within 10 s", "look at 'scontrol ping'")

    monkeypatch.setattr(Slurm, "unreserve", silent)
    monkeypatch.setattr(on_node, "has_slurm", lambda *dummy: has_slurm)
    end = node_lease.RESOURCE.steps[EndReservation]
    if has_slurm:
        with pytest.raises(NoAnswer):
            end(host, EndReservation("r"))
    else:
        end(host, EndReservation("r"))
    assert lease.read(host).reserved == ("r" if has_slurm else "")


def test_the_note_that_the_machine_runs_under_it_comes_before_the_timer():
    kinds = [type(one) for one in lease_plan(LEASED, LEASE).actions]
    assert kinds.index(Remember) < kinds.index(Declare) < kinds.index(StartUnit)


@pytest.mark.parametrize("text", [cleanup_service(), lease_service()], ids=["cleanup", "node_lease"])
def test_the_units_run_a_command_that_there_is(text):
    (start,) = re.findall("^ExecStart=(.*)$", text, re.MULTILINE)
    words = shlex.split(start)[1:]
    assert parser().parse_args(words).command == words[0] and text.startswith(MARKER)


def test_the_timer_of_the_clean_up_goes_by_the_calendar():
    texts = cleanup_wanted(cleanup.Desired(on_calendar="Sun 04:00", delay_seconds=60))
    assert "OnCalendar=Sun 04:00\nRandomizedDelaySec=60\n" in texts[1].text and "OnBootSec" not in texts[1].text


def test_what_is_declared_is_what_the_commands_read():
    wanted = of(cleanup.Desired, {"kinds": ["tmp_files"], "tmp_days": 2, "beside_jobs": False, "cache_days": 5})
    read = of_section(Settings, as_section(Settings, wanted))
    assert read == Settings(("tmp_files",), cache_days=5, tmp_days=2, beside_jobs=False)
    wanted = of(node_lease.Desired, {"until": UNTIL, "on_expiry": ["/bin/x", "y"], "motd": False, "slurm_node": "n1"})
    read = lease.declared(as_section(lease.Settings, wanted))
    assert read == lease.Settings(UNTIL, True, ("/bin/x", "y"), True, False, "n1") and read.ends == END


@pytest.mark.parametrize(
    "cls, options, sentence",
    [
        (cleanup.Desired, {"on_calendar": "daily\nExecStart=/bin/x"}, "calendar event"),
        (cleanup.Desired, {"kinds": ["everything"]}, "kinds"),
        (cleanup.Desired, {"keep_free_percent": 100}, "keep_free_percent"),
        (node_lease.Desired, {"until": "2040-12-01"}, "no time with a zone"),
        (node_lease.Desired, {"until": UNTIL, "on_expiry": ["az", "vm", "deallocate"]}, "no absolute path"),
        (node_lease.Desired, {"until": UNTIL, "on_expiry": ["/usr/bin/az vm deallocate"]}, "give each word by itself"),
        (node_lease.Desired, {"until": UNTIL, "slurm_node": "gpu[1-2]"}, "give one node"),
    ],
)
def test_what_cannot_be_is_one_sentence(cls, options, sentence):
    with pytest.raises(NodeError, match=sentence) as refused:
        of(cls, options)
    assert "\n" not in str(refused.value)


def test_a_program_of_the_end_that_is_not_there_is_told_long_before_it(tmp_path):
    wanted = of(node_lease.Desired, {"until": UNTIL, "on_expiry": [str(tmp_path / "hand")]})
    found = node_lease.RESOURCE.observe(Host(str(tmp_path)), wanted)
    (note,) = (one for one in lease_plan(found, wanted).notes if "node_lease_on_expiry" in one)
    assert note.startswith("{0}/hand, which ".format(tmp_path)) and "is no program on this node" in note
    (tmp_path / "hand").touch(0o755)
    found = node_lease.RESOURCE.observe(Host(str(tmp_path)), wanted)
    assert not any("node_lease_on_expiry" in one for one in lease_plan(found, wanted).notes)


def test_what_is_wrong_holds_up_no_undo():
    assert of(node_lease.Desired, {"until": "soon", "state": "absent"}).present is False
