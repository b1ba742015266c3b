# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No input crashes a look or a judgement; what is said in two places is the same; tables are complete."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import pathlib
import pkgutil
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import sysfs
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile import types as profile_types
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile.compare import compare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.topology.types import CpuSummary, Topology
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import data, scratch
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import (
    cpu_count,
    cpu_load,
    ib_gpu_direct,
    ib_ports,
    limit_slurmd,
    memory_size,
    of_node,
    of_node_passive,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import profile as profile_check
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.ib_counters import (
    COMPARED,
    ERRORS,
    FLAPS,
    MEASURED,
    PACKETS,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.kernel_messages import MESSAGES
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.limits import LIMITS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.taints import TAINTS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost, Expected, Outcome
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import rdma
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl import types as nccl_types
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.rdma import compare as rdma_compare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.rdma import types as rdma_types
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import scratch as job_scratch
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import types as job_types

CHECKS = of_node.CHECKS + of_node_passive.CHECKS


def expected(profile_=None, **more):
    fields = dict(profile_name="x", profile=profile_ or {}, declared={}, thresholds=LIMITS, origins={}, settings={})
    return Expected(**dict(fields, now=0.0, **more))


def machine(online=(), memory=None, infiniband=()):
    cpus = CpuSummary(online, online, (), (), len(online), 1, ())
    return Topology(cpus, memory, (), (), (), infiniband, (), (), None, ())


# The same in two places -------------------------------------------------------------------------------------------


@given(st.integers(1, 300), st.integers(1, 300))
def test_cpus_are_judged_as_the_profile_compares_them(online, wanted):
    seen = cpu_count.Seen(tuple(range(online)), tuple(range(online)), "on")
    found = cpu_count.judge(seen, expected({"cpus": wanted})).findings
    compared = compare({"cpus": wanted}, machine(online=tuple(range(online))))
    assert [one.outcome.value for one in found] == [one.severity for one in compared]


@given(st.integers(0, 10**13), st.integers(1, 10**13), st.floats(0, 50))
def test_memory_is_judged_as_the_profile_compares_it(size, wanted, tolerance):
    content = {"memory": {"bytes": wanted, "tolerance_percent": tolerance}}
    found = memory_size.judge(size, expected(content)).findings
    assert [one.outcome.value for one in found] == [one.severity for one in compare(content, machine(memory=size))]


_STATES = st.sampled_from(["ACTIVE", "INIT", "ARMED", "DOWN"])
_PHYSICAL = st.sampled_from(["LinkUp", "Polling", "Disabled"])
_RATES = st.sampled_from([100.0, 200.0, 400.0])
_PORTS = st.builds(sysfs.InfinibandPort, st.integers(1, 2), _STATES, _PHYSICAL, _RATES, st.just("InfiniBand"))


def device(name, *ports):
    return sysfs.InfinibandDevice(name, None, None, (), 0, None, tuple(ports))


@given(st.lists(_PORTS, max_size=4), st.integers(0, 4))
def test_ports_are_judged_as_the_role_rdma_compares_them(ports, count):
    devices = tuple(device("mlx5_{0}".format(number), port) for number, port in enumerate(ports))
    content = {"infiniband": {"count": count, "rate_gigabits_per_second": 200}}
    judged = ib_ports.judge(devices, expected(content))
    desired = rdma.Desired(expected_ports=count, rate_gbps=200, link_layer="infiniband")
    as_of_the_role = [
        rdma_types.Device(
            one.name,
            None,
            0,
            (),
            None,
            None,
            None,
            False,
            tuple(
                rdma_types.Port(p.number, p.state, p.physical_state, p.rate_gigabits_per_second, p.link_layer)
                for p in one.ports
            ),
        )
        for one in devices
    ]
    told = rdma_compare.differences(as_of_the_role, desired)
    assert [one.reason for one in judged.findings] == [one.reason for one in told]
    # And it fails where the profile's comparison fails, which does not look at links.
    if any(one.severity == "fail" for one in compare(content, machine(infiniband=devices))):
        assert any(one.outcome is Outcome.FAIL for one in judged.findings)


_SECTION = st.fixed_dictionaries(
    {},
    optional={
        "state": st.sampled_from(["present", "absent"]),
        "mount_point": st.sampled_from(["/scratch", "/mnt/a"]),
        "adopt": st.booleans(),
        "adopt_mount_points": st.one_of(st.lists(st.sampled_from(["/nvme", "/mnt/nvme"])), st.just("/"), st.none()),
    },
)


@given(_SECTION)
def test_the_scratch_is_looked_for_where_jobs_look_for_it(section):
    found = job_scratch.places(section)
    assert scratch.places({"nvme_scratch": section}) == found and "/" not in found


def test_names_that_stand_here_for_the_sake_of_a_quick_start_are_those_of_their_owners():
    assert (profile_check.SECTION, profile_check.UNKNOWN) == (profile_types.SECTION, profile_types.UNKNOWN)
    assert cpu_load.HOOKS == job_types.SECTION
    assert scratch.SECTION == job_scratch.SECTION
    assert (ib_gpu_direct.SECTION, ib_gpu_direct.MODULES) == (nccl_types.SECTION, nccl_types.MODULES)
    assert (limit_slurmd.SECTION, limit_slurmd.DROP_IN) == (nccl_types.SECTION, nccl_types.SLURMD)


# Without a profile ------------------------------------------------------------------------------------------------


def port(rate=400.0, state="ACTIVE", physical="LinkUp", layer="InfiniBand"):
    return sysfs.InfinibandPort(1, state, physical, rate, layer)


def test_without_a_profile_a_slower_port_among_others_is_told():
    devices = tuple(device("mlx5_{0}".format(one), port(100.0 if one == 2 else 400.0)) for one in range(4))
    found = ib_ports.judge(devices, expected()).findings
    assert [(one.code, one.key, one.outcome) for one in found] == [("rate", "mlx5_2", Outcome.WARN)]


@pytest.mark.parametrize(
    "devices",
    [
        (device("mlx5_0", port(200.0)), device("mlx5_1", port(400.0))),  # of two, nobody knows which is right
        (device("mlx5_0", port()), device("mlx5_1", port(40.0, "DOWN", "Disabled"))),  # no cable, and no wish for one
        (device("mlx5_an0", port(100.0, layer="Ethernet")), device("mlx5_ib0", port(400.0))),
        (device("rxe0", port(2.5, "DOWN", "Disabled", "Ethernet")),),
    ],
)
def test_without_a_profile_what_may_be_by_right_is_not_told(devices):
    assert ib_ports.judge(devices, expected()).findings == ()


# Nothing crashes --------------------------------------------------------------------------------------------------

_GARBAGE = ["", "\x01\x02", "nan", "-1", "99999999999999999999999", "ÄÖÜ 1,5 kB", "a b c d e f\n" * 40, "0x", "1 2"]


@pytest.mark.parametrize("seed", range(40))
def test_damaged_files_end_as_findings_and_never_as_a_crash(node, seed):
    """Half of the files say something else: garbage, nothing, the half of themselves."""
    chance = random.Random(seed)
    for path in sorted(node.root.rglob("*")):
        if path.is_file() and not path.is_symlink() and chance.random() < 0.5:
            text = path.read_text(encoding="utf-8")
            kind = chance.randrange(4)
            new = chance.choice(_GARBAGE) if kind < 2 else text[: len(text) // 2] if kind == 2 else text[::-1]
            path.write_bytes(new.encode("utf-8", "replace") if kind else b"\xff\xfe" + new.encode())
    verdict = node.verdict()
    for check, found in verdict.findings:
        assert "bug" not in found.remedy, (check, str(found))
    assert {one.id for one in verdict.results} | set(verdict.not_applicable) == {one.id for one in CHECKS}


@pytest.mark.parametrize("seed", range(20))
def test_a_declaration_that_a_person_edited_crashes_nothing(node, seed):
    chance = random.Random(seed)
    values = [None, 1, "x", [], {}, ["/etc/x", 3, None], {"a": {"set": 3}}, True]
    for section in list(node.declared):
        if section != "profile":
            content = node.declared[section]
            for key in list(content) + ["files", "sysctl", "mount_point", "adopt_mount_points"]:
                if chance.random() < 0.5:
                    content[key] = chance.choice(values)
    for check, found in node.verdict().findings:
        assert "bug" not in found.remedy, (check, str(found))


# Tables -----------------------------------------------------------------------------------------------------------


def entries():
    """Every dataclass in a module-level table of the package ``data``."""
    for info in pkgutil.iter_modules(data.__path__):
        module = importlib.import_module("{0}.{1}".format(data.__name__, info.name))
        for name, value in vars(module).items():
            items = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
            for item in items:
                if dataclasses.is_dataclass(item) and not isinstance(item, (type, enum.Enum)):
                    yield "{0}.{1}".format(info.name, name), item


def test_every_entry_of_every_table_names_its_source():
    found = list(entries())
    assert len(found) > 80
    for place, item in found:
        assert len(getattr(item, "source", "").strip()) >= 8, "{0}: {1}".format(place, item)


def test_every_limit_is_that_of_a_figure_that_is_measured_or_grows():
    limited = {name.rpartition("_per_")[0] for name in LIMITS}
    assert {one.figure for one in FLAPS + ERRORS} <= limited
    assert not {one.figure for one in MEASURED + PACKETS} & limited
    assert set(COMPARED) <= {one.figure for one in ERRORS + MEASURED}


def test_every_message_is_of_a_check():
    for one in MESSAGES:
        assert one.hours is None or one.hours > 0
    assert {one.check for one in MESSAGES} <= {check.id for check in CHECKS}


def test_taints_are_those_of_the_kernel_each_once():
    assert [one.bit for one in TAINTS] == list(range(20))
    assert "".join(one.letter for one in TAINTS) == "PFSRMBUDAWCIOELKXTNJ"


def test_checks_have_names_of_their_own_and_quick_ones_run_no_program():
    names = [one.id for one in CHECKS]
    assert len(names) == len(set(names))
    assert all(one.cost is Cost.QUICK and one.lane in ("node", "storage") for one in of_node.CHECKS)
    assert all(one.cost is Cost.PASSIVE for one in of_node_passive.CHECKS)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in names)


def test_what_runs_before_a_job_imports_none_of_the_others():
    """Their import alone would take as long as all quick checks."""
    folder = pathlib.Path(of_node.__file__).parent
    for name in ("profile", "cpu_count", "memory_size", "ib_ports", "scratch_mounted", "filesystem_space"):
        text = (folder / (name + ".py")).read_text(encoding="utf-8")
        heavy = r"^from \.\.\.(profile|rdma|nccl|nvme_scratch|slurm_job|managed_files)"
        assert not re.search(heavy, text, re.MULTILINE), name
