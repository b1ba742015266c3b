# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every machine and every request."""

from __future__ import annotations

import collections
import dataclasses
import json
import random
import re

import pytest
from hypothesis import event, given

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import topology as topologies
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement import Refused, Request, place, to_dict
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.plain import topology_from_dict
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.render import LAUNCHERS, adapt, render
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import shared
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.placement.launcher_texts import READERS
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.placement.random_machines import (
    cases,
    machines,
    requests,
)


def allowed(machine, request):
    online = set(machine.cpus.online)
    return online if request.allowed_cpus is None else online & set(request.allowed_cpus)


def numbers_of(remedy, request):
    """The requests that the sentence tells its reader to make."""
    for least, ranks, of_threads in re.findall(
        r"for (1 to )?(\d+)(?: rank\(s\))?(?: of (\d+) thread\(s\))?(?=,|$)", remedy
    ):
        threads = int(of_threads) if of_threads else request.threads
        for one in {int(ranks)} | ({1} if least else set()):
            listed = request.gpus[:one] if isinstance(request.gpus, tuple) else request.gpus
            yield dataclasses.replace(request, ranks=one, threads=threads, gpus=listed)
    for threads in re.findall(r"for (\d+) thread\(s\) a rank", remedy):
        yield dataclasses.replace(request, threads=int(threads))
    if "for gpus none" in remedy and not isinstance(request.gpus, tuple):
        yield dataclasses.replace(request, gpus="none")
    if "share cores" in remedy:
        yield dataclasses.replace(request, share_cores=True)
    for ranks in re.findall(r"give (\d+) numbers \(one may come twice\)", remedy):
        yield dataclasses.replace(request, gpus=(request.gpus * int(ranks))[: int(ranks)])
    if "list a GPU for each rank" in remedy:
        yield dataclasses.replace(request, gpus=(0,) * request.ranks)


@examples(300)
@given(machines(), requests)
def test_every_request_ends_in_a_placement_or_in_a_refusal_whose_numbers_work(machine, request):
    try:
        placement = place(machine, request)
    except Refused as refusal:
        assert str(refusal).count("\n") == 0 and str(refusal).endswith(".")
        for told in numbers_of(refusal.remedy, request):
            assert len(place(machine, told).ranks) == told.ranks
        for alternative in refusal.alternatives:
            assert len(place(machine, alternative).ranks) == alternative.ranks
        return
    assert [rank.index for rank in placement.ranks] == list(range(request.ranks))
    json.dumps(to_dict(placement))


def test_each_number_of_300_random_refusals_works():
    """Too many ranks and too many threads at once: each number that a refusal names is tried."""
    chance, refused, tried = random.Random(4), 0, 0
    trees = {name: topologies.observe(Host(shared(name))) for name in ("ndv4", "nps4_smt", "hb176", "gb200")}
    while refused < 300:
        machine = trees[chance.choice(sorted(trees))]
        asked = Request(
            ranks=chance.randint(1, 24), threads=chance.randint(1, 300), gpus=chance.choice(("each", "none"))
        )
        try:
            place(machine, asked)
        except Refused as refusal:
            refused += 1
            for told in numbers_of(refusal.remedy, asked):
                tried += 1
                assert len(place(machine, told).ranks) == told.ranks, (asked, refusal.remedy)
    assert tried >= refused


@examples(120)
@given(cases())
def test_no_two_ranks_share_a_core_and_all_stay_inside_what_is_allowed(case):
    machine, request = case
    placement = place(machine, request)
    usable = allowed(machine, request)
    core_of = {cpu: group for group in machine.cpus.sibling_groups for cpu in group}
    users = collections.Counter()
    for rank in placement.ranks:
        assert rank.cpus and set(rank.cpus) <= usable
        assert sorted(cpu for core in rank.cores for cpu in core) == list(rank.cpus)
        assert len({core_of[core[0]] for core in rank.cores}) == len(rank.cores)
        users.update({core_of[cpu] for cpu in rank.cpus})
        if not request.share_cores:
            assert len(rank.cpus) >= rank.threads >= (request.threads or 1)
    if request.bind == "core" and not request.share_cores:
        assert set(users.values()) == {1}
    assert not set(placement.idle_cpus) & {cpu for rank in placement.ranks for cpu in rank.cpus}
    assert set(placement.idle_cpus) <= usable


@examples(150)
@given(cases(gpus="each"))
def test_a_rank_is_on_the_node_of_its_gpu_when_it_fits(case):
    machine, request = case[0], dataclasses.replace(case[1], smt=False)
    try:
        placement = place(machine, request)
    except Refused:
        return
    usable = allowed(machine, request)
    cores = {
        node.id: len({group for group in machine.cpus.sibling_groups if set(group) & set(node.cpus) & usable})
        for node in machine.numa_nodes
    }
    wanted = collections.Counter(rank.gpu.numa_node for rank in placement.ranks if rank.gpu)
    need = request.threads or 1
    if not wanted or not all(node in cores and count * need <= cores[node] for node, count in wanted.items()):
        return
    event("fits")
    for rank in placement.ranks:
        assert (rank.home, rank.numa_nodes) == (rank.gpu.numa_node, (rank.gpu.numa_node,))


@examples(60)
@given(cases())
def test_ranks_of_a_node_have_equal_shares(case):
    """Of cores: a core that lacks a hardware thread (a cpuset, one offline) gives its rank one less."""
    machine, request = case
    exact, wide = (place(machine, dataclasses.replace(request, bind=bind)) for bind in ("core", "numa"))
    shares = collections.defaultdict(set)
    for rank in exact.ranks:
        shares[rank.home].add(len(rank.cores))
    assert all(len(sizes) == 1 for sizes in shares.values())
    # The mask of bind numa is wider; what a rank may run on it is its share.
    assert [rank.threads for rank in wide.ranks] == [rank.threads for rank in exact.ranks]


@examples(60)
@given(cases())
def test_the_same_request_gives_the_same_answer_from_plain_data_too(case):
    machine, request = case
    plain = json.loads(json.dumps(topologies.to_dict(machine)))
    first = place(machine, request)
    assert place(machine, request) == first
    assert place(topology_from_dict(plain), request) == first


@examples(60)
@given(cases())
def test_memory_comes_from_nodes_that_may_give_some(case):
    machine, request = case
    placement = place(machine, request)
    memory = {node.id for node in machine.numa_nodes if node.memory_bytes}
    if request.allowed_memory_nodes:
        memory &= set(request.allowed_memory_nodes)
    for rank in placement.ranks:
        assert set(rank.memory_nodes) <= memory
        assert rank.memory_nodes or not memory or not placement.numa


@pytest.mark.parametrize("launcher", LAUNCHERS)
@examples(50)
@given(case=cases())
def test_the_launchers_text_says_exactly_the_placement(launcher, case):
    machine, given_request = case
    request = adapt(launcher, given_request)
    try:
        placement = place(machine, request)
    except Refused:
        assert request != given_request  # what this launcher wants of it need not fit
        return
    try:
        rendered = render(launcher, placement, machine)
    except Refused as refusal:  # one launcher cannot say everything, and says why
        assert launcher == "lsf" and launcher in str(refusal)
        return
    assert rendered == render(launcher, placement, machine)
    if launcher in READERS:
        assert READERS[launcher](rendered, machine) == [set(rank.cpus) for rank in placement.ranks]
    if launcher == "openmpi":
        event("mapping" if "--map-by" in rendered.arguments else "script")
