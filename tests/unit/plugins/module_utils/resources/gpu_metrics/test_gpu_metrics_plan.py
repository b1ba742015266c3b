# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of gpu_metrics: whoever tells of the GPUs, nothing of another is left, and a second run changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import managed_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.folder_given import Folder
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import (
    MARKER,
    Files,
    RemoveFile,
    Seen,
    WriteFile,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files.plan import named
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.timer import TimerState
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.units import (
    DisableUnit,
    EnableUnit,
    ReloadSystemd,
    StartUnit,
    StopUnit,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import dcgm
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_metrics import texts
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_metrics.observe import place
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_metrics.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_metrics.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_metrics.types import (
    EXPORTERS,
    TABLE,
    TMPFILES,
    UNIT,
    Exporter,
    StartExporter,
    State,
)

PROM = "/var/lib/prometheus/node-exporter/gpu_node_gpus.prom"
OWNERS = "/var/lib/prometheus/node-exporter/gpu_node_jobs.prom"
DROP_IN = texts.drop_in_path(EXPORTERS[0])
UNITS = UNIT.paths
HERE = TimerState(running=True)
NODE = State(timer=HERE, textfile=PROM, folder=Folder("/var/lib/prometheus/node-exporter"))
EXPORTER = Exporter(EXPORTERS[0], "/usr/bin/dcgm-exporter", active=True, enabled=True)
WITH_DCGM = replaced(NODE, exporter=EXPORTER)
ABSENT = Desired(present=False)


def kinds(result):
    return [type(one) for one in result.actions]


def applied(state, result):
    """The state after the actions of a plan, as node and systemd would be."""
    declared, timer, exporter, left = dict(state.declared), state.timer, state.exporter, list(state.left)
    for action in result.actions:
        if isinstance(action, Declare):
            declared = dict(action.content or {})
        elif isinstance(action, (EnableUnit, DisableUnit)):
            timer = replaced(timer, enabled=isinstance(action, EnableUnit))
        elif isinstance(action, (StartUnit, StopUnit)):
            timer = replaced(timer, active=isinstance(action, StartUnit))
        elif isinstance(action, ReloadSystemd):
            timer, exporter = replaced(timer, stale=False), replaced(exporter, stale=False)
        elif isinstance(action, StartExporter):
            exporter = replaced(exporter, active=True, enabled=True)
        elif isinstance(action, RemoveFile) and action.path in left:
            left.remove(action.path)
    rest = [
        one for one in result.actions if isinstance(one, (WriteFile, RemoveFile)) and not one.path.endswith(".prom")
    ]
    files = managed_files.after(state.files, rest)
    former, made = named(declared)
    if declared.get("source") == "nvml" and timer.active:
        left = list(dict.fromkeys([*left, declared["textfile"]]))  # the timer writes it
    return replaced(
        state,
        files=replaced(files, former=former, made_folders=made),
        declared=declared,
        timer=timer,
        exporter=exporter,
        left=tuple(left),
    )


def ours(state):
    return {path for path, seen in state.files.found if seen.ours} | set(state.left)


def test_without_dcgm_a_timer_writes_a_file():
    first = plan(NODE, Desired())
    assert kinds(first) == [Declare, WriteFile, WriteFile, EnableUnit, ReloadSystemd, StartUnit] and not first.notes
    after = applied(NODE, first)
    assert after.declared["source"] == "nvml" and after.declared["textfile"] == PROM
    assert after.declared["interval_seconds"] == 30
    assert plan(after, Desired()).actions == ()
    assert ours(after) == {*UNITS, PROM}
    gone = applied(after, plan(after, ABSENT))
    assert ours(gone) == set() and gone.declared == {} and not gone.timer.active and not gone.timer.enabled
    assert plan(gone, ABSENT).actions == ()


def test_with_dcgm_its_exporter_gets_our_fields_and_runs():
    first = plan(WITH_DCGM, Desired())
    assert kinds(first) == [Declare, WriteFile, WriteFile, ReloadSystemd, StartExporter]
    after = applied(WITH_DCGM, first)
    assert ours(after) == {TABLE, DROP_IN} and after.declared["source"] == "dcgm" and after.declared["textfile"] == ""
    assert plan(after, Desired()).actions == ()
    gone = plan(after, ABSENT)
    # As its package has it, and nobody waits for an answer at our port.
    assert StartExporter(EXPORTERS[0]) in gone.actions and ours(applied(after, gone)) == set()


def test_who_told_before_tells_no_more():
    ours_first = applied(NODE, plan(NODE, Desired()))
    with_both = replaced(ours_first, exporter=EXPORTER)
    now = plan(with_both, Desired())
    assert {StopUnit, DisableUnit, RemoveFile, StartExporter} <= set(kinds(now))
    assert ours(applied(with_both, now)) == {TABLE, DROP_IN}
    theirs_first = applied(WITH_DCGM, plan(WITH_DCGM, Desired()))
    back = plan(theirs_first, Desired(source="nvml"))
    assert StartExporter(EXPORTERS[0]) in back.actions
    assert ours(applied(theirs_first, back)) == {*UNITS, PROM}
    assert back.actions.index(StartExporter(EXPORTERS[0])) > list(map(type, back.actions)).index(ReloadSystemd)


def test_where_nobody_reads_there_is_nothing_to_do_and_what_was_there_goes():
    nowhere = replaced(NODE, textfile="", folder=None)
    assert "no folder of Prometheus' node exporter" in plan(nowhere, Desired()).skipped
    before = applied(NODE, plan(NODE, Desired()))
    moved = replaced(before, textfile="", folder=None)
    gone = plan(moved, Desired())
    assert gone.notes and ours(applied(moved, gone)) == set()
    assert plan(applied(moved, gone), Desired()).skipped


def test_another_place_takes_the_old_file_away():
    before = applied(NODE, plan(NODE, Desired()))
    other = "/srv/metrics/gpus.prom"
    moved = replaced(before, textfile=other, folder=Folder("/srv/metrics", there=False))
    now = plan(moved, Desired(textfile=other))
    assert RemoveFile(PROM) in now.actions and "there is no folder /srv/metrics" in now.notes[0]


@pytest.mark.parametrize("desired", [Desired(), Desired(source="nvml")])
def test_a_file_of_others_is_refused(desired):
    refused = plan(replaced(NODE, foreign=(PROM,)), desired)
    assert refused.refusals[0].thing == PROM and refused.actions == ()


@pytest.mark.parametrize(("state", "source"), [(NODE, "nvml"), (WITH_DCGM, "dcgm")])
def test_the_file_of_the_owners_is_declared_with_either_source(state, source):
    wanted = replaced(state, owners=OWNERS, owners_folder=Folder("/var/lib/prometheus/node-exporter"))
    first = plan(wanted, Desired())
    assert not first.notes
    after = applied(wanted, first)
    assert (after.declared["source"], after.declared["owners_textfile"]) == (source, OWNERS)
    assert TMPFILES in ours(after) and plan(after, Desired()).actions == ()
    # Prolog wrote it: it stays until nobody wants it, then it goes with the line for systemd-tmpfiles.
    written = replaced(after, left=(*after.left, OWNERS))
    assert plan(written, Desired()).actions == ()
    off = plan(replaced(written, owners="", owners_folder=None), Desired(owners=False))
    assert all(RemoveFile(path) in off.actions for path in (OWNERS, TMPFILES))
    assert applied(written, off).declared["owners_textfile"] == ""
    assert all(RemoveFile(path) in plan(written, ABSENT).actions for path in (OWNERS, TMPFILES))


@pytest.mark.parametrize("state", [NODE, WITH_DCGM])
def test_a_file_of_owners_that_cannot_be_is_refused(state):
    refused = plan(replaced(state, owners=OWNERS, foreign=(OWNERS,)), Desired())
    assert refused.refusals[0].thing == OWNERS and refused.actions == ()
    lost = replaced(state, owners="/srv/jobs.prom", owners_folder=Folder("/srv", there=False))
    assert "gpu_metrics_owners_textfile: there is no folder /srv" in plan(lost, Desired()).notes[0]


def test_two_metrics_do_not_share_a_file():
    assert "give another name" in str(plan(replaced(NODE, owners=PROM), Desired()).refusals[0])
    # DCGM's exporter writes none.
    assert not plan(replaced(WITH_DCGM, owners=PROM), Desired()).refusals


@pytest.mark.parametrize(("path", "state"), [(TABLE, WITH_DCGM), (DROP_IN, WITH_DCGM), (UNITS[0], NODE)])
def test_files_that_are_not_ours_are_never_touched(path, state):
    foreign = replaced(state, files=Files(found=((path, Seen("file", "theirs\n", 0o644)),)))
    refused = plan(foreign, Desired())
    assert refused.refusals[0].thing == path and refused.actions == ()
    gone = plan(foreign, ABSENT)
    assert RemoveFile(path) not in gone.actions and path in gone.notes[0]


def test_dcgm_that_is_wanted_and_not_there_is_refused():
    refused = plan(NODE, Desired(source="dcgm"))
    assert "it is not installed" in str(refused.refusals[0])


def test_a_port_that_is_taken_is_refused():
    taken = replaced(WITH_DCGM, exporter=replaced(EXPORTER, active=False, taken=True))
    refused = plan(taken, Desired())
    assert "another program listens there" in str(refused.refusals[0]) and refused.actions == ()


def test_what_dcgm_does_not_tell_is_noted_once_it_has_had_the_time():
    fresh = plan(replaced(WITH_DCGM, exporter=replaced(EXPORTER, told=frozenset())), Desired())
    assert fresh.actions and not fresh.notes
    done = applied(WITH_DCGM, plan(WITH_DCGM, Desired()))
    every = frozenset(one.name for one in dcgm.FIELDS)
    assert not plan(replaced(done, exporter=replaced(done.exporter, told=every)), Desired()).notes
    some = every - {"DCGM_FI_PROF_SM_ACTIVE"}
    noted = plan(replaced(done, exporter=replaced(done.exporter, told=some)), Desired()).notes
    assert len(noted) == 1 and "it does not tell DCGM_FI_PROF_SM_ACTIVE" in noted[0]
    silent = plan(replaced(done, exporter=replaced(done.exporter, why="it wants TLS or a user")), Desired()).notes
    assert "it wants TLS" in silent[0]
    apart = plan(replaced(done, exporter=replaced(done.exporter, unpaired=("4.5.3", "4.2.0"))), Desired()).notes
    assert "made with DCGM 4.5.3, and DCGM 4.2.0 is installed" in apart[0]


@pytest.mark.parametrize("change", [{"active": False}, {"enabled": False}, {"stale": True}])
def test_an_exporter_that_does_not_run_as_it_should_is_started(change):
    done = applied(WITH_DCGM, plan(WITH_DCGM, Desired()))
    again = plan(replaced(done, exporter=replaced(done.exporter, **change)), Desired())
    assert again.actions[-1] == StartExporter(EXPORTERS[0], ":9400")


def test_gpus_without_counters_have_none_of_their_fields():
    written = [
        one for one in plan(replaced(WITH_DCGM, profiling=False), Desired()).actions if isinstance(one, WriteFile)
    ]
    assert "PROF" not in written[0].text and "PROF" in texts.of_dcgm(WITH_DCGM, Desired())[0].text


def test_the_exporter_is_started_as_it_was_asked():
    desired = Desired(listen="10.0.0.7:9500", host_engine="", web_config="/etc/dcgm-exporter/web.yml", jobs=False)
    text = texts.drop_in(EXPORTER, desired)
    assert text.splitlines()[0].startswith(MARKER)
    start = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    # Two of one kind are refused by systemd, unless an empty one comes before.
    assert start == [
        "ExecStart=",
        "ExecStart=/usr/bin/dcgm-exporter -f {0} -a 10.0.0.7:9500 -c 30000 --web-config-file "
        "/etc/dcgm-exporter/web.yml".format(TABLE),
    ]
    usual = texts.drop_in(EXPORTER, Desired())
    assert "-r localhost:5555" in usual and "--hpc-job-mapping-dir /run/gpu_node/gpu_jobs" in usual


@pytest.mark.parametrize(
    ("listen", "expected"),
    [(":9400", ("127.0.0.1", 9400)), ("[::1]:9400", ("::1", 9400)), ("10.0.0.7:80", ("10.0.0.7", 80))],
)
def test_where_the_exporter_is_asked(listen, expected):
    assert place(listen) == expected


@pytest.mark.parametrize(
    ("given_options", "sentence"),
    [
        ({"source": "both"}, "source"),
        ({"interval_seconds": 5}, "interval_seconds"),
        ({"activity_seconds": 0.01}, "activity_seconds"),
        ({"activity_seconds": 9, "interval_seconds": 10}, "more than half of interval_seconds"),
        ({"textfile": "/srv/gpus.txt"}, ".prom"),
        ({"textfile": "/srv/../etc/x.prom"}, "textfile"),
        ({"owners_textfile": "/srv/jobs.txt"}, ".prom"),
        ({"fields": ["DCGM_FI_X; rm"]}, "field of DCGM"),
        ({"fields": ["SM_CLOCK"]}, "field of DCGM"),
        ({"listen": ":99999"}, "there is no port 99999"),
        ({"listen": "9400"}, "use ADDRESS:PORT"),
        ({"host_engine": "a b:1"}, "host_engine"),
        ({"profiling": "two words"}, "one word"),
        ({"source": "nvml", "fields": ["DCGM_FI_DEV_FAN_SPEED"]}, "means nothing with source: nvml"),
        ({"source": "dcgm", "textfile": "/srv/gpus.prom"}, "means nothing with source: dcgm"),
        ({"web_config": "web.yml"}, "absolute path"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(given_options, sentence):
    with pytest.raises(NodeError, match=sentence.replace("(", "\\(")) as refused:
        of(Desired, given_options)
    assert "\n" not in str(refused.value)


SEEN = st.sampled_from((Seen(), Seen("file", MARKER + "\nold\n", 0o644), Seen("file", "mine\n", 0o600), Seen("other")))
STATES = st.builds(
    State,
    files=st.builds(
        Files,
        found=st.tuples(*[SEEN] * 5).map(lambda five: tuple(zip((*UNITS, TABLE, DROP_IN, TMPFILES), five))),
    ),
    timer=st.builds(TimerState, st.just(True), st.booleans(), st.booleans(), st.booleans())
    | st.builds(TimerState, st.just(False), st.booleans()),
    exporter=st.just(Exporter())
    | st.builds(
        Exporter,
        unit=st.just(EXPORTERS[0]),
        program=st.just("/usr/bin/dcgm-exporter"),
        active=st.booleans(),
        enabled=st.booleans(),
        stale=st.booleans(),
        taken=st.booleans(),
    ),
    textfile=st.sampled_from(("", PROM)),
    owners=st.sampled_from(("", OWNERS)),
    foreign=st.sampled_from(((), (PROM,), (OWNERS,))),
    left=st.sampled_from(((), (PROM,), (PROM, OWNERS))),
    profiling=st.booleans(),
)
DESIREDS = st.builds(
    Desired, present=st.booleans(), source=st.sampled_from(("auto", "dcgm", "nvml")), jobs=st.booleans()
)


@given(STATES, DESIREDS)
def test_whatever_is_found_a_second_plan_is_empty_and_what_is_of_others_stays(state, desired):
    first = plan(state, desired)
    assert not (first.refusals and first.actions)
    touched = {one.path for one in first.actions if isinstance(one, (WriteFile, RemoveFile))}
    assert all(not seen.foreign for path, seen in state.files.found if path in touched)
    after = applied(state, first)
    assert plan(after, desired).actions == () or first.refusals
    if not desired.present:
        assert ours(after) == set() and not after.declared
