# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The alerts and recording rules of the role monitoring, each before a sick and a healthy series, by promtool."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest
import yaml

from tools.monitoring import rules

ROOT = pathlib.Path(__file__).resolve().parents[4]
FILES = ROOT / "roles/monitoring/files"
GROUPS = [
    group
    for name in ("gpu_node.rules.yml", "gpu_node.alerts.yml")
    for group in yaml.safe_load((FILES / name).read_text())["groups"]
]
RULES = {one.get("record") or one["alert"]: one for group in GROUPS for one in group["rules"]}
ALERTS = {name: one for name, one in RULES.items() if "alert" in one}
NODE = 'cluster="c1",hostname="gpu01",profile="ndv5"'
G0 = NODE + ',gpu="0",UUID="GPU-0",modelName="H100"'
G1 = NODE + ',gpu="1",UUID="GPU-1",modelName="H100"'
DCGM0, DCGM1 = G0 + ',job="gpu_node_dcgm",device="nvidia0"', G1 + ',job="gpu_node_dcgm",device="nvidia1"'
OURS0, OURS1 = (
    G0 + ',job="gpu_node",pci_bus_id="00000000:01:00.0"',
    G1 + ',job="gpu_node",pci_bus_id="00000000:02:00.0"',
)


def series(name, labels, values):
    return "{0}{{{1}}}".format(name, labels), values


def finding(check, **labels):
    known = dict(outcome="fail", action="reboot", silenced="false", observed="false", key="GPU-0", code="79")
    words = ",".join('{0}="{1}"'.format(*one) for one in dict(known, check=check, **labels).items())
    return series("gpu_node_health_finding", NODE + "," + words, "1x{0}".format(LONG))


# Minutes.
LONG = 130


def job(number, busy, tensor, sm, gpus=8, last=None):
    """The GPUs of a job, as our file tells of them."""
    found = []
    for gpu in range(gpus):
        labels = NODE + ',job="gpu_node",gpu="{0}",UUID="GPU-{0}",modelName="H100"'.format(gpu)
        value = last if last is not None and gpu == gpus - 1 else busy
        found += [
            series("gpu_node_gpu_up", labels, "1x{0}".format(LONG)),
            series("gpu_node_gpu_busy_ratio", labels, "{0}x{1}".format(value, LONG)),
            series("gpu_node_gpu_tensor_active_ratio", labels, "{0}x{1}".format(tensor, LONG)),
            series("gpu_node_gpu_sm_active_ratio", labels, "{0}x{1}".format(sm, LONG)),
            series("gpu_node_gpu_job", labels + ',hpc_job="{0}"'.format(number), "1x{0}".format(LONG)),
        ]
    return found


def same(name, labels, value):
    return [series(name, labels, "{0}x{1}".format(value, LONG))]


UP = same("up", 'cluster="c1",hostname="gpu01",job="gpu_node"', 1)


def targets(up, down):
    found = []
    for number in range(up + down):
        labels = 'cluster="c1",hostname="gpu{0:02}",job="gpu_node"'.format(number)
        found += same("up", labels, int(number < up))
    return found


def needed(texts):
    """The rules that these texts name, those that they read, and so on: promtool evaluates each in every minute."""
    found = []
    while texts:
        named = [
            name for name in RULES if name not in found and any(re.search(name + r"(?![\w:])", one) for one in texts)
        ]
        found += named
        texts = [RULES[name]["expr"] for name in named]
    return [rule for group in GROUPS for rule in group["rules"] if (rule.get("record") or rule["alert"]) in found]


def promtool(folder, tests):
    wanted = needed([one["expr"] for test in tests for one in test["promql_expr_test"]])
    groups = [dict(one, rules=[rule for rule in one["rules"] if rule in wanted]) for one in GROUPS]
    groups = [one for one in groups if one["rules"]]
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": groups}))
    content = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "group_eval_order": [one["name"] for one in groups],
        "tests": tests,
    }
    (folder / "test.yml").write_text(yaml.safe_dump(content))
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yml"], cwd=str(folder), capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout + done.stderr


def shown(given):
    return [{"series": name, "values": values} for name, values in given]


def asked(given, expr, expected, minute=LONG - 5):
    samples = [{"labels": labels, "value": value} for labels, value in expected]
    return {
        "interval": "1m",
        "input_series": shown(given),
        "promql_expr_test": [{"expr": expr, "eval_time": "{0}m".format(minute), "exp_samples": samples}],
    }


def fires(alert, given, count):
    expr = 'count(ALERTS{{alertname="{0}",alertstate="firing"}})'.format(alert)
    return asked(given, expr, [("{}", count)] if count else [])


# Recording rules --------------------------------------------------------------------------------------


def test_the_file_is_the_one_of_the_tables():
    assert (FILES / "gpu_node.rules.yml").read_text() == rules.text()


@pytest.mark.parametrize(("name", "dcgm", "ours"), [*rules.PARTS, *rules.WHOLES])
def test_each_thing_has_one_series_whoever_tells_and_dcgm_counts(name, dcgm, ours, tmp_path):
    fields = sorted(set(re.findall(r"DCGM_\w+", dcgm[0])))
    plain = re.search(r"gpu_node_\w+", ours[0]).group(0)
    more = ',memory="dram",corrected="false"' if "ecc_errors" in ours[0] else ""
    theirs = [one for field in fields for one in same(field, DCGM0 + ',hpc_job="7"', 1)]
    # A second job on the GPU is a second series of the exporter.
    theirs += [one for field in fields for one in same(field, DCGM0 + ',hpc_job="8"', 1)]
    own = same(plain, OURS0 + more, 0.5) + same(plain, OURS1 + more, 0.25)
    record = "gpu_node:" + name
    value = {"gpu_memory_total:bytes": 3 * 2**20, "gpu_memory_used:bytes": 2**20, "gpu_sm_clock:hertz": 1e6}.get(
        name, 1
    )
    value = 0.001 if "energy" in name else value
    labels = "{0}{{{1}}}"
    status, told = promtool(
        tmp_path,
        [
            asked(theirs + own, record, [(labels.format(record, G0), value), (labels.format(record, G1), 0.25)]),
            asked(own, record, [(labels.format(record, G0), 0.5), (labels.format(record, G1), 0.25)]),
        ],
    )
    assert status == 0, told


def test_gpus_without_profiling_fields_are_busy_by_their_utilisation(tmp_path):
    given = (
        same("DCGM_FI_DEV_GPU_UTIL", DCGM0, 40)
        + same("DCGM_FI_DEV_FB_USED", DCGM0, 1)
        + same("DCGM_FI_DEV_FB_FREE", DCGM0, 3)
    )
    tests = [
        asked(given, "gpu_node:gpu_busy:ratio", [("gpu_node:gpu_busy:ratio{" + G0 + "}", 0.4)]),
        asked(given, "gpu_node:gpu_memory_total:bytes", [("gpu_node:gpu_memory_total:bytes{" + G0 + "}", 4 * 2**20)]),
    ]
    status, told = promtool(tmp_path, tests)
    assert status == 0, told


def test_instances_and_jobs_that_share_a_gpu(tmp_path):
    part = ',GPU_I_ID="2",GPU_I_PROFILE="3g.40gb"'
    given = [
        *same("gpu_node_gpu_sm_active_ratio", OURS0 + part, 0.5),
        *same("gpu_node_gpu_sm_active_ratio", OURS0, 0.25),
        *same("gpu_node_gpu_job", OURS0 + part + ',hpc_job="7"', 1),
        *same("gpu_node_gpu_job", OURS0 + ',hpc_job="8"', 1),
        *same("gpu_node_gpu_job", OURS0 + ',hpc_job="9"', 1),
    ]
    record = "gpu_node:job_sm_active:ratio"
    expected = [
        (record + '{cluster="c1",hpc_job="%s"}' % number, value) for number, value in ((7, 0.5), (8, 0.25), (9, 0.25))
    ]
    status, told = promtool(tmp_path, [asked(given, record, expected)])
    assert status == 0, told


def test_a_job_keeps_a_gpu_that_is_lost(tmp_path):
    given = same("gpu_node_gpu_up", OURS0, 1) + same("gpu_node_gpu_up", OURS1, 0)
    given += same("gpu_node_gpu_job", OURS0 + ',hpc_job="7"', 1) + same("gpu_node_gpu_job", OURS1 + ',hpc_job="7"', 1)
    record = "gpu_node:job_gpus"
    status, told = promtool(tmp_path, [asked(given, record, [(record + '{cluster="c1",hpc_job="7"}', 2)])])
    assert status == 0, told


def test_each_gpu_of_the_fleet_is_in_one_state(tmp_path):
    given = []
    for gpu, (busy, has) in enumerate((("0.9x130", True), ("0x130", True), ("0.9x110 0x20", True), ("0x130", False))):
        labels = NODE + ',job="gpu_node",gpu="{0}",UUID="GPU-{0}",modelName="H100"'.format(gpu)
        given += [series("gpu_node_gpu_busy_ratio", labels, busy), *same("gpu_node_gpu_up", labels, 1)]
        given += same("gpu_node_gpu_job", labels + ',hpc_job="7"', 1) if has else []
    record = "gpu_node:fleet_gpus"
    expected = [
        (record + '{cluster="c1",profile="ndv5",state="%s"}' % state, 1)
        for state in ("busy", "idle", "wasted", "unallocated")
    ]
    status, told = promtool(tmp_path, [asked(given, record, expected)])
    assert status == 0, told


def test_time_between_failures_and_failures_of_a_gpu(tmp_path):
    name = "gpu_node:node_failures:7d"
    given = [series("gpu_node_health_outcome", NODE + ',outcome="fail"', "0x20 1x20 0x20 1x20 0x50")]
    found = finding("gpu_xid")[0]
    given.append((found, "_x20 1x20 _x20 1x20 _x50"))
    between = "gpu_node:node_time_between_failures:seconds"
    status, told = promtool(
        tmp_path,
        [
            asked(given, name, [(name + "{" + NODE + "}", 2)]),
            # Known for 126 min and sick in 42 of them.
            asked(given, between, [(between + "{" + NODE + "}", 84 * 60 / 2)]),
            asked(
                given,
                "gpu_node:gpu_failures:7d",
                [('gpu_node:gpu_failures:7d{cluster="c1",hostname="gpu01",key="GPU-0"}', 2)],
            ),
        ],
    )
    assert status == 0, told


def test_the_example_of_a_fleet_takes_the_results_of_the_fleet_and_nothing_of_single_gpus():
    example = FILES / "prometheus_global.example.yml"
    done = subprocess.run(["promtool", "check", "config", str(example)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (job,) = yaml.safe_load(example.read_text())["scrape_configs"]
    (pattern,) = re.findall(r'\{__name__=~"(.*)"\}', job["params"]["match[]"][0])
    taken = {name for name in RULES if re.fullmatch(pattern, name)}
    assert taken == {name for name in RULES if re.match("gpu_node:(fleet|job|node)_", name)} | {
        "gpu_node:gpu_failures:7d"
    }
