# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each format of a verdict by what its readers demand: grammar, limits, exit status; with anything for a verdict."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import formats
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import (
    compute,
    host_device,
    infiniband,
    linpack,
    memory_test,
    nccl,
    peers,
    scratch,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.figures import HELP
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.formats import (
    azure,
    nagios,
    nfd,
    npd,
    prometheus,
    text,
    words,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Measured, Outcome
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.formats import (
    formats_prometheus_text,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.formats.formats_verdicts import (
    DARK,
    HEALTHY,
    LOST,
    NOW,
    SICK,
    TEXTS,
    VERDICTS,
    WARM,
    result,
    verdict,
)

WARNED, UNSEEN = verdict(result("gpu_temperature", WARM)), verdict(result("nvme_smart", DARK))
FOUR = (HEALTHY, WARNED, UNSEEN, SICK)


@pytest.mark.parametrize("name", formats.NAMES)
@settings(max_examples=10)
@given(VERDICTS)
def test_no_verdict_crashes_a_format_and_all_of_it_can_be_printed(name, one):
    rendered = formats.render(name, one)
    rendered.encode("utf-8")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", rendered)
    assert isinstance(formats.exit_status(name, one), int)


def test_a_format_that_there_is_not_is_told():
    with pytest.raises(ValueError, match="no format"):
        formats.render("xml", HEALTHY)


# Exit status --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, expected",
    [("text", (0, 3, 4, 1)), ("json", (0, 3, 4, 1)), ("nagios", (0, 1, 3, 2)), ("npd", (0, 0, 2, 1))],
)
def test_the_exit_status_says_the_outcome(name, expected):
    assert tuple(formats.exit_status(name, one) for one in FOUR) == expected


# Prometheus ----------------------------------------------------------------------------------------------


def test_a_figure_of_a_gpu_says_what_it_is_and_joins_with_the_metrics_of_gpus():
    figures = (
        Measured("compute_f16_teraflops_per_second", 545.5, "0001:0b:00.0", better="higher"),
        Measured("gpu_to_gpu_gigabytes_per_second", 300.0, "0001:0b:00.0>0002:0c:00.0", better="higher"),
        Measured("scratch_read_gigabytes_per_second", 20.0, "/scratch", better="higher"),
    )
    lines = prometheus.render(verdict(replaced(result("gpu_compute"), measured=figures))).splitlines()
    name = "gpu_node_health_figure_compute_f16_teraflops_per_second"
    at = lines.index("# HELP {0} {1}".format(name, HELP[name[len("gpu_node_health_figure_") :]]))
    labels = 'check="gpu_compute",key="0001:0b:00.0",pci_bus_id="00000001:0B:00.0"'
    assert lines[at + 2] == name + "{" + labels + "} 545.5"
    pair = 'key="0001:0b:00.0>0002:0c:00.0",pci_bus_id="00000001:0B:00.0",peer_pci_bus_id="00000002:0C:00.0"}'
    assert any(line.startswith("gpu_node_health_figure_gpu_to_gpu_gigabytes") and pair in line for line in lines)
    assert 'gpu_node_health_figure_scratch_read_gigabytes_per_second{check="gpu_compute",key="/scratch"} 20' in lines


def test_every_figure_of_an_active_check_has_its_help():
    names = set()
    for part in (compute, host_device, infiniband, linpack, memory_test, nccl, peers, scratch):
        names |= set(getattr(part, "FIGURES", ()))
        names |= {value for key, value in vars(part).items() if key.isupper() and _named_figure(value)}
    assert len(names) >= 15 and names <= set(HELP), names - set(HELP)
    assert all(one.endswith(".") and len(one) < 110 for one in HELP.values())


def _named_figure(value):
    return isinstance(value, str) and re.fullmatch(r"[a-z0-9_]+_(per_second|percent|celsius|watts|mhz)", value)


# Text ---------------------------------------------------------------------------------------------------


def test_people_read_the_worst_first():
    assert text.render(SICK) == (
        "gpu01: fail, 4 checks of level passive in 0.5 s, profile nd96asr_v4\n"
        "  fail     gpu_xid: GPU 3 (0000:0b:00.0): it has fallen off the bus (Xid 79); "
        "reboot the node, and replace it when that does not help.\n"
        "  unknown  nvme_smart: disk nvme0: no nvme command; install nvme-cli.\n"
        "  warn     gpu_temperature: GPU 1: 84 C; look at the fans. (likely)\n"
        "  silent   gpu_ecc: GPU 1: 84 C; look at the fans. (likely) (silenced until 2026-11-19 by anna: known)\n"
    )
    assert text.render(HEALTHY).count("\n") == 1


HOT = [
    replaced(WARM, thing="GPU {0} (0000:0{0}:00.0)".format(gpu), key="0000:0{0}:00.0".format(gpu)) for gpu in range(8)
]
LOOKED = replaced(DARK, reason="the kernel log: it cannot be read", remedy="run it as root")
LOG = [result(name, replaced(LOOKED, thing="check " + name)) for name in ("gpu_xid", "kernel_stalls", "pci_errors")]


def test_what_is_the_same_of_several_gpus_is_one_line_that_names_each():
    one = verdict(result("gpu_temperature", *HOT[:3], replaced(HOT[3], reason="90 C")))
    three = "GPU 0 (0000:00:00.0), GPU 1 (0000:01:00.0), GPU 2 (0000:02:00.0)"
    assert text.render(one).splitlines()[1:] == [
        "  warn     gpu_temperature: {0}: 84 C; look at the fans. (likely)".format(three),
        "  warn     gpu_temperature: GPU 3 (0000:03:00.0): 90 C; look at the fans. (likely)",
    ]
    assert "warn: {0}: 84 C; look at the fans. (and 1 more)".format(three) in nagios.render(one)
    assert nagios.render(one).count("84 C") == 1 and "warn=4" in nagios.render(one)
    assert len(json.loads(formats.render("json", one))["results"][0]["findings"]) == 4


def test_gpus_that_are_known_by_address_alone_keep_their_names():
    """The domain of a PCI address is no index."""
    two = [replaced(WARM, thing="GPU " + key, key=key) for key in ("0000:43:00.0", "0000:c3:00.0")]
    one = verdict(result("gpu_xid", *two))
    assert text.render(one).splitlines()[1:] == [
        "  warn     gpu_xid: GPU 0000:43:00.0, GPU 0000:c3:00.0: 84 C; look at the fans. (likely)"
    ]
    assert "GPU 0000:43:00.0, GPU 0000:c3:00.0: 84 C" in nagios.render(one)


def test_why_several_checks_saw_nothing_is_one_line():
    one = verdict(*LOG, result("nvme_smart", DARK))
    assert text.render(one).splitlines()[1:] == [
        "  unknown  3 checks: gpu_xid, kernel_stalls, pci_errors: the kernel log: it cannot be read; run it as root.",
        "  unknown  nvme_smart: disk nvme0: no nvme command; install nvme-cli.",
    ]
    head = (
        "GPU_NODE UNKNOWN - unknown: gpu_xid, kernel_stalls, pci_errors: the kernel log: it cannot be read; run it as"
    )
    assert nagios.render(one).startswith(head) and "unknown=4" in nagios.render(one)


@settings(max_examples=25)
@given(VERDICTS)
def test_no_reason_is_lost_where_equal_ones_are_one(one):
    joined = words.together(one.findings)
    told = {(found.outcome, found.reason, found.remedy) for dummy, found in joined}
    assert told == {(found.outcome, found.reason, found.remedy) for dummy, found in one.findings}
    for check, found in one.findings:
        assert any(
            found.reason == other.reason and (found.thing in other.thing or found.thing == "check " + check)
            for dummy, other in joined
        )


def test_that_nothing_applied_is_told_with_the_reasons():
    shown = text.render(replaced(HEALTHY, results=(), not_applicable={"gpu_compute": "no Python is named"}))
    assert shown.splitlines()[1:] == ["  not applicable  gpu_compute: no Python is named"]


def test_everything_is_told_when_it_is_asked_for():
    shown = text.render(HEALTHY, every=True)
    assert "  pass     gpu_count: All is well with gpu_count (8 GPUs)\n" in shown
    assert shown.endswith("  not applicable  ib_ports: no port\n")


@settings(max_examples=25)
@given(TEXTS)
def test_what_a_node_says_is_one_line_and_commands_no_terminal(anything):
    assert len(words.line("a" + anything + "b").splitlines()) == 1
    assert "\x1b" not in words.line(anything)


def test_times_are_those_of_the_calendar():
    assert words.moment(NOW) == "2026-11-18T11:06:40Z" and words.day(0) == "1970-01-01"
    assert words.moment(1e300) == "9999-12-31T23:59:59Z" and words.moment(-1e12) == "1970-01-01T00:00:00Z"


# Nagios -------------------------------------------------------------------------------------------------

PERFORMANCE = re.compile(r"('(?:[^'=|]|'')+'|[^'=| ]+)=(-?[0-9]+(?:\.[0-9]+)?)(s|%|B|c)?(?: |$)")


def test_nagios_gets_a_line_with_figures_and_the_rest_below():
    head, *rest = nagios.render(SICK).splitlines()
    said, figures = head.split(" | ")
    assert said.startswith("GPU_NODE CRITICAL - fail: GPU 3 (0000:0b:00.0): ") and said.endswith("(and 2 more)")
    assert figures == ("fail=1 unknown=1 warn=1 'temperature_celsius 0000:07:00.0'=84 'pcie_replays 0000:07:00.0'=3c")
    assert rest[0].startswith("unknown: nvme_smart: ") and rest[2].startswith("silenced: gpu_ecc: ") and len(rest) == 3
    assert nagios.render(HEALTHY).startswith("GPU_NODE OK - pass: 2 checks | fail=0")


@settings(max_examples=25)
@given(VERDICTS, st.integers(60, 9000))
def test_nagios_can_read_every_answer(one, longest):
    rendered = nagios.render(one, longest)
    assert rendered.isascii() and len(rendered) <= longest and rendered.count("|") <= 1
    head = rendered.split("\n", 1)[0]
    assert head.startswith("GPU_NODE ")
    figures = head.partition(" | ")[2]
    while figures:
        found = PERFORMANCE.match(figures)
        assert found, figures
        figures = figures[found.end() :]


# node-problem-detector ----------------------------------------------------------------------------------


def test_node_problem_detector_gets_what_fits():
    assert npd.render(SICK) == "fail: GPU 3 (0000:0b:00.0): it has fallen off the bus (Xid 79)"
    assert npd.render(SICK, 20) == "fail: GPU 3 (0000..."
    assert npd.render(HEALTHY) == "pass: 2 checks"


@settings(max_examples=25)
@given(VERDICTS, st.integers(0, 200))
def test_no_message_is_longer_than_it_may_be(one, longest):
    assert len(npd.render(one).encode("utf-8")) <= 80
    rendered = npd.render(one, longest)
    assert len(rendered) <= longest and "\n" not in rendered


# Prometheus ---------------------------------------------------------------------------------------------


def test_prometheus_gets_a_sample_for_each_thing():
    metrics = formats_prometheus_text.read(prometheus.render(SICK))
    outcomes = {dict(labels)["outcome"]: value for labels, value in metrics["gpu_node_health_outcome"][1].items()}
    assert outcomes == {"pass": 0, "warn": 0, "unknown": 0, "fail": 1}
    checks = {dict(labels)["check"]: value for labels, value in metrics["gpu_node_health"][1].items()}
    assert checks == {"gpu_count": 0, "gpu_temperature": 1, "nvme_smart": 2, "gpu_xid": 3}
    assert metrics["gpu_node_health_timestamp_seconds"] == ("gauge", {(): NOW})
    assert metrics["gpu_node_health_figure_temperature_celsius"][0] == "gauge"
    kind, samples = metrics["gpu_node_health_figure_pcie_replays_total"]
    assert kind == "counter" and list(samples.values()) == [3.0]
    findings = [dict(labels) for labels in metrics["gpu_node_health_finding"][1]]
    assert {(one["check"], one["code"], one["silenced"]) for one in findings} == {
        ("gpu_xid", "xid_79", "false"),
        ("nvme_smart", "", "false"),
        ("gpu_temperature", "warm", "false"),
        ("gpu_ecc", "warm", "true"),
    }


def test_figures_of_gpu_instances_have_the_labels_of_dcgm():
    labels = {"UUID": "GPU-1", "GPU_I_ID": "2", "GPU_I_PROFILE": "1g.5gb+me"}
    figures = [
        Measured("gpu_instance_memory_used_bytes", 3.0, "0000:07:00.0/gi2", labels=labels),
        Measured("gpu_instance_memory_used_bytes", 4.0, "0000:07:00.0/gi3", labels=dict(labels, GPU_I_ID="3")),
        # Its own names stay, whatever a label is called; what is no name of a label is left out.
        Measured("odd", 1.0, "k", labels={"check": "x", "key": "y", "a-b": '"', "0": "z", "": "z"}),
    ]
    metrics = formats_prometheus_text.read(prometheus.render(verdict(result("gpu_mig_instances", measured=figures))))
    kind, samples = metrics["gpu_node_health_figure_gpu_instance_memory_used_bytes"]
    first = dict(labels, check="gpu_mig_instances", key="0000:07:00.0/gi2")
    second = dict(first, GPU_I_ID="3", key="0000:07:00.0/gi3")
    assert kind == "gauge" and dict(samples.items()) == {
        tuple(sorted(first.items())): 3.0,
        tuple(sorted(second.items())): 4.0,
    }
    ((odd, dummy),) = metrics["gpu_node_health_figure_odd"][1].items()
    assert dict(odd) == {"check": "gpu_mig_instances", "key": "k", "a_b": '"'}


@settings(max_examples=25)
@given(VERDICTS)
def test_the_collector_takes_every_file(one):
    metrics = formats_prometheus_text.read(prometheus.render(one))
    assert sum(metrics["gpu_node_health_outcome"][1].values()) == 1
    assert all((name.endswith("_total")) == (kind == "counter") for name, (kind, dummy) in metrics.items())


@settings(max_examples=25)
@given(TEXTS)
def test_a_label_comes_back_as_it_was(key):
    finding = formats_prometheus_text.read(
        prometheus.render(verdict(result("gpu_xid", type(LOST)(**dict(LOST.__dict__, key=key)))))
    )["gpu_node_health_finding"][1]
    assert dict(next(iter(finding)))["key"] == words.line(key)


# Node Feature Discovery ---------------------------------------------------------------------------------

LABEL = re.compile(r"trainyard\.io/(?P<name>[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)=(?P<value>.*)")
VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?")


def test_labels_expire():
    assert nfd.render(SICK).splitlines() == [
        "# Managed by trainyard.gpu_node. Labels of this node for Node Feature Discovery; they expire by themselves.",
        "# +expiry-time=2026-11-18T11:19:10Z",
        "trainyard.io/gpu-node-check-gpu_temperature=warn",
        "trainyard.io/gpu-node-check-gpu_xid=fail",
        "trainyard.io/gpu-node-check-nvme_smart=unknown",
        "trainyard.io/gpu-node-health=fail",
        "trainyard.io/gpu-node-health-level=passive",
        "trainyard.io/gpu-node-health-observed=false",
        "trainyard.io/gpu-node-health-silenced=true",
        "trainyard.io/gpu-node-profile=nd96asr_v4",
    ]


@settings(max_examples=25)
@given(VERDICTS)
def test_every_label_is_legal_and_comes_after_its_time_of_expiry(one):
    first, second, *labels = nfd.render(one).splitlines()
    assert first.startswith("# Managed by") and re.fullmatch(r"# \+expiry-time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", second)
    for line in labels:
        found = LABEL.fullmatch(line)
        assert found and len(found.group("name")) <= 63
        assert VALUE.fullmatch(found.group("value")) and len(found.group("value")) <= 63
    assert "trainyard.io/gpu-node-health={0}".format(one.outcome.value) in labels


# Azure --------------------------------------------------------------------------------------------------

RESOURCE = "/subscriptions/0000-11/resourceGroups/hpc/providers/Microsoft.Compute/virtualMachines/gpu01"


def test_azure_would_be_told_the_worst_that_is_its_own():
    told = azure.document(SICK, RESOURCE, "GGBB90904476")
    assert told["dry_run"] is True and told["method"] == "PUT" and told["missing"] == []
    assert re.fullmatch(
        r"https://management\.azure\.com/subscriptions/0000-11/providers/Microsoft\.Impact/workloadImpacts/"
        r"[0-9a-f-]{36}\?api-version=2025-01-01-preview",
        told["url"],
    )
    assert told["body"]["properties"] == {
        "startDateTime": "2026-11-18T11:06:40Z",
        "impactCategory": "Resource.Hpc.Unhealthy.XID79FallenOffBus",
        "impactDescription": ("gpu_xid/xid_79/0000:0b:00.0: GPU 3 (0000:0b:00.0): it has fallen off the bus (Xid 79)"),
        "impactedResourceId": RESOURCE,
        "additionalProperties": {
            "PhysicalHostName": "GGBB90904476",
            "Manufacturer": "Nvidia",
            "Location": "0000:0b:00.0",
        },
    }
    assert azure.document(SICK)["missing"] == ["physical_host_name", "resource_id"]


@settings(max_examples=25)
@given(VERDICTS)
def test_nothing_is_reported_but_a_failure_that_we_cannot_mend(one):
    told = json.loads(azure.render(one, RESOURCE, "host"))
    found = azure.reported(one)
    assert (told["body"] is None) == (found is None)
    if found is not None:
        assert found[1].outcome is Outcome.FAIL
        assert found[1].action.value not in ("watch", "configure", "restart_service")
        assert told["body"]["properties"]["impactCategory"].startswith("Resource.Hpc.Unhealthy.")


def test_what_several_checks_say_of_the_same_gpu_is_one_line():
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Finding, Outcome, Remedy

    def hidden(gpu):
        reason = "CUDA shows 7 GPUs of 8, and not this one"
        return Finding(Outcome.FAIL, gpu, reason, "reboot", Remedy.REBOOT, key=gpu, code="not_in_cuda")

    slow = Finding(Outcome.WARN, "GPU 7", "slow", "look", Remedy.LOOK, key="GPU 7", code="low")
    checks = ["host_device_bandwidth", "gpu_memory_test", "gpu_compute"]
    found = [(check, hidden("GPU 7")) for check in checks] + [("gpu_compute", slow)]
    assert words.together(found) == [(", ".join(checks), hidden("GPU 7")), ("gpu_compute", slow)]
    # Another GPU in one of them is another finding.
    joined = words.together([*found, ("gpu_compute", hidden("GPU 6"))])
    assert [(check, one.thing) for check, one in joined] == [
        (", ".join(checks[:2]), "GPU 7"),
        ("gpu_compute", "GPU 7, GPU 6"),
        ("gpu_compute", "GPU 7"),
    ]
