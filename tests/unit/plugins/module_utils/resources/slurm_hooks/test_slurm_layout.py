# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sockets as Slurm counts them, and the Cores of gres.conf that follow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import layout, slurm_conf, syntax
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.layout import Machine, Slurm

PLAIN = Machine(cores=16, cpus=16, packages=2, numa_nodes=4, l3_groups=8)
SMT = Machine(cores=16, cpus=32, packages=2, numa_nodes=4, l3_groups=8)
ONE = Machine(cores=8, cpus=8, packages=1, numa_nodes=2)
NUMA = [tuple(range(4 * node, 4 * node + 4)) for node in range(4)]
NEW = (24, 11)


def slurm(line, parameters="", select="", controller=NEW, slurmd=NEW):
    text = syntax.of("NodeName=gpu01 {0}\n".format(line))
    words = frozenset(parameters.split())
    return Slurm(slurmd, controller, slurm_conf.node(text, "gpu01"), words, select)


# Each row was put before real slurmctld and slurmd 24.11.5 with a synthetic topology: these sockets they registered,
# these Cores they took, and NUMA nodes where they are not in the last column got INVALID_REG.
ROWS = [
    (PLAIN, "Sockets=2 CoresPerSocket=8", "", "", (2, 8), ["0-7", "0-7", "8-15", "8-15"]),
    (PLAIN, "Sockets=4 CoresPerSocket=4", "", "", (2, 8), ["0-7", "0-7", "8-15", "8-15"]),
    (PLAIN, "Sockets=4 CoresPerSocket=4", "numa_node_as_socket", "", (4, 4), ["0-3", "4-7", "8-11", "12-15"]),
    (PLAIN, "Sockets=2 CoresPerSocket=8", "numa_node_as_socket", "", (4, 4), ["0-3", "4-7", "8-11", "12-15"]),
    (PLAIN, "Sockets=4 CoresPerSocket=4", "config_overrides", "", (4, 4), ["0-3", "4-7", "8-11", "12-15"]),
    (PLAIN, "Sockets=4 CoresPerSocket=4", "", "select/linear", (4, 4), ["0-3", "4-7", "8-11", "12-15"]),
    (PLAIN, "Sockets=8 CoresPerSocket=2", "l3cache_as_socket", "", (8, 2), ["0-3", "4-7", "8-11", "12-15"]),
    (PLAIN, "Sockets=1 CoresPerSocket=16", "", "", (2, 8), ["0-7", "0-7", "8-15", "8-15"]),
    (PLAIN, "Sockets=2 CoresPerSocket=16", "", "", (2, 8), ["0-7", "0-7", "8-15", "8-15"]),
    (PLAIN, "Sockets=2 CoresPerSocket=4", "", "", (2, 4), ["", "", "", ""]),
    (PLAIN, "CPUs=16", "", "", (16, 1), ["0-3", "4-7", "8-11", "12-15"]),
    (SMT, "CPUs=32", "", "", (32, 1), ["0-7", "8-15", "16-23", "24-31"]),
    (SMT, "CPUs=32 ThreadsPerCore=2", "", "", (2, 8), ["0-7", "0-7", "8-15", "8-15"]),
    (SMT, "CPUs=16", "", "", (2, 8), ["0-7", "0-7", "8-15", "8-15"]),
    (
        SMT,
        "Boards=1 SocketsPerBoard=2 CoresPerSocket=8 ThreadsPerCore=2",
        "",
        "",
        (2, 8),
        ["0-7", "0-7", "8-15", "8-15"],
    ),
    (ONE, "Sockets=1 CoresPerSocket=8", "", "", (1, 8), ["", ""]),
]


def text(cores):
    return "{0}-{1}".format(cores[0], cores[-1]) if cores else ""


@pytest.mark.parametrize("machine, line, parameters, select, sockets, cores", ROWS)
def test_the_cores_that_slurmctld_takes(machine, line, parameters, select, sockets, cores):
    given_slurm = slurm(line, parameters, select)
    found = layout.registered(given_slurm, machine)
    assert (found.sockets, found.cores) == sockets
    choice = layout.choose(NUMA[: len(cores)], machine, given_slurm)
    assert [text(one) for one in choice.cores] == cores
    exact = choice.kind == "numa"
    assert (choice.note is None) == exact
    if not exact:
        assert "slurmctld 24.11 takes whole sockets only, and " in choice.note


def test_the_note_says_which_and_why_and_what_would_give_numa_nodes():
    note = layout.choose(NUMA, PLAIN, slurm("Sockets=2 CoresPerSocket=8")).note
    assert note == (
        "Cores name the whole socket of each GPU, not its NUMA node: slurmctld 24.11 takes whole sockets only, and "
        "Slurm counts 2 sockets of 8 cores here; for NUMA nodes set SlurmdParameters=numa_node_as_socket and, for this "
        "node, Sockets=4 CoresPerSocket=4 in slurm.conf, restart slurmctld and every slurmd, and run this again"
    )
    note = layout.choose(NUMA, PLAIN, slurm("Sockets=2 CoresPerSocket=4")).note
    assert note.endswith("and slurm.conf gives this node 2 sockets of 4 cores, and it has 16 cores")
    assert "no NodeName line" in layout.choose(NUMA, PLAIN, Slurm(NEW, NEW)).note


@pytest.mark.parametrize(
    "controller, slurmd, wanted",
    [
        ((24, 11), (24, 5), True),
        ((24, 5), (24, 5), False),
        ((26, 5), (24, 11), True),
        ((22, 5), (22, 5), False),
        (None, (22, 5), False),  # no slurmctld of 24.11 takes it
        (None, (23, 2), True),
        (None, (24, 11), True),
        (None, None, True),
    ],
)
def test_it_is_slurmctld_that_wants_whole_sockets(controller, slurmd, wanted):
    assert layout.wants_whole_sockets(Slurm(slurmd, controller)) is wanted


def test_an_older_slurmctld_takes_numa_nodes_and_what_to_do_before_its_upgrade_is_told():
    old = slurm("Sockets=2 CoresPerSocket=8", controller=(23, 11), slurmd=(23, 11))
    choice = layout.choose(NUMA, PLAIN, old)
    assert choice.cores == tuple(NUMA) and "set slurm_hooks_gres_cores to sockets" in choice.note
    choice = layout.choose(NUMA, PLAIN, old, "sockets")
    assert choice.kind == "sockets" and "slurm_hooks_gres_cores is sockets, and Slurm counts" in choice.note
    assert layout.choose(NUMA, PLAIN, old, "none") == layout.Choice("none", ((), (), (), ()))


def test_without_the_numa_node_of_every_gpu_there_are_no_cores():
    choice = layout.choose([(0, 1), ()], PLAIN, slurm("CPUs=16"))
    assert choice.cores == ((), ()) and "not known of every GPU" in choice.note


@given(
    st.builds(
        lambda cores, threads, packages, numa, l3: Machine(cores, cores * threads, packages, numa, l3),
        st.integers(0, 24),
        st.integers(1, 2),
        st.integers(0, 4),
        st.integers(0, 8),
        st.integers(0, 8),
    ),
    st.dictionaries(
        st.sampled_from(["CPUs", "Boards", "Sockets", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore"]),
        st.integers(0, 24),
    ),
    st.sampled_from(["", "numa_node_as_socket", "l3cache_as_socket", "config_overrides"]),
    st.lists(st.lists(st.integers(0, 23), max_size=6, unique=True).map(lambda one: tuple(sorted(one))), max_size=4),
    st.sampled_from(["auto", "sockets", "none"]),
    st.sampled_from([None, (22, 5), (24, 11)]),
)
def test_whole_sockets_or_none_at_all(machine, line, parameters, near, wish, controller):
    near = [tuple(core for core in cores if core < machine.cores) for cores in near]
    given_slurm = slurm(" ".join("{0}={1}".format(*one) for one in line.items()), parameters, "", controller)
    choice = layout.choose(near, machine, given_slurm, wish)
    assert len(choice.cores) == len(near)
    assert all(choice.cores) or not any(choice.cores)
    if layout.wants_whole_sockets(given_slurm) or wish == "sockets":
        found = layout.registered(given_slurm, machine)
        assert not any(choice.cores) or all(found.around(cores) == cores for cores in choice.cores)
        assert found is None or all(core < found.all for cores in choice.cores for core in cores)


@pytest.mark.parametrize(
    "told, expected",
    [
        ("slurm 24.11.5", (24, 11)),
        ("slurm-wlm 22.05.8", (22, 5)),
        ("26.05.0-0rc1", (26, 5)),
        ("(null)", None),
        (None, None),
    ],
)
def test_versions(told, expected):
    assert layout.version(told) == expected
