# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No state crashes the planner of the scratch, and no action names a disk that is not proven to be ours."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.scratch.record import Build, Record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import actions as act
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import (
    Array,
    Content,
    Disk,
    Filesystem,
    Member,
    Mount,
    MountPoint,
    Signature,
    State,
)

sys.path.insert(0, str(Path(__file__).parent))
from scratch_model import MODEL
from scratch_wishes import FOREIGN, IDENTITIES, OLDER, OURS, SINGLE_VOLUME, VOLUME, plan, wanted

# Any state at all --------------------------------------------------------------------------------------

uuids = st.sampled_from([OURS, OLDER, FOREIGN, VOLUME, SINGLE_VOLUME, "", "odd"])
maybe = st.one_of(st.none(), uuids)
names = st.sampled_from(["nvme0n1", "nvme1n1", "nvme2n1", "md127", "md126", "dm-0", ""])
tuples = st.lists(names, max_size=3).map(tuple)
kinds_of = st.sampled_from(["linux_raid_member", "xfs", "ext4", "gpt", "dos", "zfs_member", "LVM2_member", ""])
signatures = st.lists(
    st.builds(Signature, kinds_of, maybe, st.one_of(st.none(), st.just("gpu_scratch"))), max_size=2
).map(tuple)
numbers = st.one_of(st.none(), st.integers(-2, 5))
filesystems = st.one_of(
    st.none(),
    st.builds(
        Filesystem,
        st.sampled_from(["xfs", "ext4"]),
        uuids,
        st.sampled_from(["gpu_scratch", ""]),
        st.booleans(),
        numbers,
        numbers,
    ),
)
paths = st.lists(st.sampled_from(["/mnt/scratch", "/nvme", "/data"]), max_size=2).map(tuple)
disks = st.builds(
    Disk,
    name=names,
    serial=st.sampled_from(["S0", "S1", "S2", ""]),
    model=st.sampled_from([MODEL, "other"]),
    size_bytes=st.integers(-1, 3),
    transport=st.sampled_from(["pcie", "pcie", "loop", "tcp"]),
    aliases=st.just(()),
    read_only=st.booleans(),
    partitions=tuples,
    holders=tuples,
    mount_points=paths,
    swap=st.booleans(),
    busy=st.booleans(),
    openers=st.sampled_from([(), (), (), None, ("process 7 (dd)",)]),
    signatures=signatures,
    content=st.sampled_from([Content(1), Content(1), Content(1), Content(1, 0), None]),
    member=st.one_of(
        st.none(),
        st.builds(
            Member,
            uuids,
            st.just("any:gpu_node_scratch"),
            st.sampled_from(["raid0", "raid0", "raid4", None]),
            numbers,
            numbers,
            numbers,
            st.booleans(),
        ),
    ),
    filesystem=filesystems,
    read_error=st.one_of(st.none(), st.just("dead")),
)
arrays = st.builds(
    Array,
    name=names,
    uuid=maybe,
    array_name=st.sampled_from(["any:gpu_node_scratch", "x", ""]),
    level=st.sampled_from(["raid0", "raid1", None]),
    raid_devices=st.integers(0, 3),
    state=st.sampled_from(["clean", "inactive", "broken", "readonly", ""]),
    reshaping=st.booleans(),
    content=st.sampled_from([Content(1), Content(1, 0), None]),
    members=tuples,
    chunk_bytes=st.just(524288),
    size_bytes=st.just(9),
    holders=tuples,
    partitions=st.just(()),
    mount_points=paths,
    swap=st.booleans(),
    busy=st.booleans(),
    signatures=signatures,
    filesystem=filesystems,
    read_error=st.one_of(st.none(), st.just("dead")),
)
builds = st.builds(
    Build,
    st.one_of(st.none(), st.just(OURS), st.just(OLDER)),
    uuids,
    st.sampled_from(["xfs", "ext4"]),
    st.just(("S0", "S1")),
    st.booleans(),
)
states = st.builds(
    State,
    disks=st.lists(disks, max_size=4).map(tuple),
    arrays=st.lists(arrays, max_size=3).map(tuple),
    mounts=st.lists(
        st.builds(
            Mount,
            st.sampled_from(["/mnt/scratch", "/nvme"]),
            st.one_of(st.none(), names),
            st.just("xfs"),
            st.booleans(),
            st.just("x"),
            st.booleans(),
            tuples,
        ),
        max_size=2,
    ).map(tuple),
    mount_point=st.one_of(
        st.none(),
        st.builds(
            MountPoint,
            st.just("/mnt/scratch"),
            st.sampled_from(["missing", "folder", "file", "symlink", "blocked", "?"]),
            st.booleans(),
        ),
    ),
    fstab=st.one_of(
        st.none(),
        st.text(max_size=40),
        st.sampled_from(["UUID=" + VOLUME + " /mnt/scratch xfs nofail 0 0", "x /y z x-gpu-node.scratch"]),
    ),
    record=st.one_of(
        st.none(),
        st.builds(Record, st.lists(builds, max_size=3).map(tuple), st.one_of(st.none(), st.just("/mnt/scratch"))),
    ),
    record_error=st.sampled_from([None, None, None, "broken"]),
    machine=st.sampled_from([None, "dmi:1"]),
    others=st.lists(builds, max_size=1).map(tuple),
    owner=numbers,
    group=numbers,
)
desireds = st.builds(
    wanted,
    state=st.sampled_from(["present", "present", "absent"]),
    count=st.one_of(st.none(), st.integers(1, 4)),
    adopt=st.booleans(),
    overwrite_serials=st.sampled_from([[], ["S0"]]),
    rebuild=st.booleans(),
)


@settings(max_examples=300, deadline=None)
@given(states, desireds)
def test_no_state_crashes_the_planner_and_no_action_names_an_unproven_disk(state, desired):
    result = plan(state, desired, IDENTITIES[0])
    assert not (result.actions and result.refusals)
    assert result == plan(state, desired, IDENTITIES[0])
    record = state.record or Record()
    ours_arrays = {build.array_uuid for build in record.builds}
    ours_volumes = {build.filesystem_uuid for build in record.builds}
    for action in result.actions:
        action.to_dict()
        if isinstance(action, act.EraseMark) and desired.present and not desired.rebuild:
            mark = action.array_uuid or action.filesystem_uuid
            assert mark not in {b.array_uuid or b.filesystem_uuid for b in record.builds if b.finished}
        if isinstance(action, act.MakeFilesystem):
            assert not any(b.finished and b.filesystem_uuid == action.filesystem_uuid for b in record.builds)
        if isinstance(action, act.EraseMark):
            disk = next(d for d in state.disks if d.serial == action.serial and d.name == action.name)
            assert len(disk.signatures) == 1 and not disk.partitions and not disk.swap and not disk.read_only
            mark = disk.signatures[0].uuid
            assert (action.array_uuid in ours_arrays and mark == action.array_uuid) or (
                action.filesystem_uuid in ours_volumes and mark == action.filesystem_uuid
            )
        elif isinstance(action, act.CreateArray):
            erased = {a.serial for a in result.actions if isinstance(a, act.EraseMark)}
            for serial, name in zip(action.serials, action.names):
                disk = next(d for d in state.disks if d.serial == serial and d.name == name)
                assert disk.model == MODEL and not disk.partitions and not disk.read_only and disk.size_bytes > 0
                assert not disk.signatures or serial in erased
                cleared = serial in desired.overwrite_serials and disk.content is not None
                assert disk.content == Content(1) or serial in erased or cleared
                assert disk.openers == () or serial in erased
                stopped = {a.name for a in result.actions if isinstance(a, act.StopArray)}
                assert not set(disk.holders) - stopped
        elif isinstance(action, act.StopArray):
            assert action.array_uuid in ours_arrays
        elif isinstance(action, act.EraseFilesystem):
            assert action.array_uuid in ours_arrays and action.filesystem_uuid in ours_volumes
