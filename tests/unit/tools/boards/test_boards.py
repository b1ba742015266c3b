# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boards for Grafana: as they are generated, whole, and each query answered by a real Prometheus."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from typing import NamedTuple

import kubernetes_validate
import pytest
import yaml
from board_files import BOARDS, PANELS, ROOT, of_type, panels
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from tools.boards import __main__ as boards
from tools.boards.names import METRICS, NODE_EXPORTER, RUNBOOKS
from tools.monitoring import rules

RECORDED = {rule.record for _name, _seconds, group in rules.groups() for rule in group}
UNPACKED = ROOT / ".venv/debian/usr/bin"
TYPES = {"timeseries", "stat", "table", "heatmap", "bargauge", "state-timeline", "row"}


def test_the_files_are_as_generated():
    assert {name: (ROOT / name).read_text() for name in boards.generate()} == boards.generate()


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_a_board_is_whole(name):
    board = BOARDS[name]
    assert board["uid"] == "gpu-node-" + name and board["schemaVersion"] >= 39 and board["description"].endswith(".")
    assert {one["type"] for one in board["panels"]} <= TYPES
    every = [one["id"] for one in board["panels"]] + [
        one["id"] for row in board["panels"] for one in row.get("panels", [])
    ]
    assert len(every) == len(set(every))
    assert [one["name"] for one in board["templating"]["list"]][0] == "datasource"
    assert any(link["type"] == "dashboards" and link["includeVars"] and link["keepTime"] for link in board["links"])
    # No place on the 24 columns is taken twice.
    taken = set()
    for one in panels(board):
        place = one["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, one["title"]
        taken |= cells


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_it_is_what_grafana_s_own_library_makes_of_it(name):
    """Decoded into the types of Grafana's SDK and encoded again it is the same: no field is misspelt or misplaced."""
    again = dashboard.Dashboard.from_json(BOARDS[name])
    assert json.loads(json.dumps(again, cls=JSONEncoder)) == BOARDS[name]


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_a_panel_says_what_it_shows_and_in_what_unit(name, panel):
    assert panel["title"] and panel["description"].endswith(".") and panel["targets"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit")
    assert unit or panel["type"] in ("heatmap", "table")
    for target in panel["targets"]:
        names = set(re.findall(r"\b(?:gpu_)?node[:_][a-z0-9_:]+", target["expr"]))
        of_rules = {one for one in names if not one.startswith("gpu_node_health")} - NODE_EXPORTER
        assert names and of_rules <= METRICS & RECORDED, names
    for link in panel.get("links") or []:
        alert = link["title"].rpartition(" ")[2]
        assert alert in RUNBOOKS and "## " + alert in (ROOT / "docs/runbooks.md").read_text()


def test_each_metric_that_the_boards_may_use_is_recorded_and_used():
    """A name that no rule records is an empty panel."""
    assert METRICS <= RECORDED
    used = {name for one in PANELS for name in re.findall(r"[a-z_:0-9]+", json.dumps(one.values[1]["targets"]))}
    assert METRICS | NODE_EXPORTER <= used


def test_the_config_maps_are_what_grafana_s_sidecar_reads():
    folder = ROOT / "roles/monitoring/files"
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert kustomization["generatorOptions"] == {"disableNameSuffixHash": True, "labels": {"grafana_dashboard": "1"}}
    assert kustomization["configMapGenerator"] == [
        {
            "name": "gpu-node-board-" + name,
            "files": ["gpu-node-{0}.json=boards/{0}.json".format(name)],
        }
        for name in boards.NAMES
    ]
    if shutil.which("kubectl"):
        done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=True)
        maps = list(yaml.safe_load_all(done.stdout))
        assert sorted(one["metadata"]["name"] for one in maps) == sorted("gpu-node-board-" + one for one in BOARDS)
        for one in maps:
            ((name, text),) = one["data"].items()
            assert json.loads(text) == BOARDS[name[len("gpu-node-") : -len(".json")]]
            for version in ("1.27", "1.37"):
                kubernetes_validate.validate(one, version, strict=True)


# A real server ----------------------------------------------------------------------------------------

NODES, GPUS, MINUTES = 4, 8, 60
RATIOS = sorted(one for one in METRICS if re.match(r"gpu_node:gpu_(?!active_of_job|job_share).*:ratio", one))
OF_JOBS = {"gpu_node:job_owner", "gpu_node:job_node", "gpu_node:job_slowed_gpus", "gpu_node:job_busy_median:ratio"}


class Over(NamedTuple):
    """A value that changes over the hour: from minute to minute, or ten minutes before the end."""

    first: float
    last: float
    late: bool = False

    def at(self, minute):
        share = float(minute > MINUTES - 10) if self.late else minute / (MINUTES - 1)
        return self.first + (self.last - self.first) * share


def samples():
    """(metric, labels, value) of four nodes: three of a job, the third with MIG; the fourth is idle and unhealthy."""
    for number in range(NODES):
        node = {"cluster": "alpha", "hostname": "gpu{0:02}".format(number + 1), "profile": "ndv5", "rack": "r1"}
        # The second is unknown, and nothing else about it is wrong.
        yield "gpu_node:node_outcome", node, (0, 2, 1, 3)[number]
        yield "gpu_node:node_gpus", node, GPUS
        for port in ("mlx5_0", "mlx5_1"):
            of_port = {"cluster": "alpha", "hostname": node["hostname"], "device": port, "port": "1"}
            down = (number, port) == (1, "mlx5_1")
            yield "gpu_node:ib_port_up", of_port, Over(1, 0, late=True) if down else 1
            yield "gpu_node:ib_port_errors_total", of_port, Over(0, 5) if down else 0
            yield "gpu_node:ib_port_sent:bytes_per_second", of_port, 1e9
            yield "gpu_node:ib_port_received:bytes_per_second", of_port, 1e9
        for name in sorted(NODE_EXPORTER):
            labels = {"device": "nvme0n1"} if "disk" in name else {"method": "Read"} if "requests" in name else {}
            yield name, dict(node, **labels), Over(0, 60)
        for check in ("gpu_lost", "ib_ports", "gpu_temperature"):
            yield "gpu_node_health", dict(node, check=check), 3 if number == 3 and check == "ib_ports" else 0
            yield "gpu_node_health_check_duration_seconds", dict(node, check=check), 0.1
        yield "gpu_node_health_info", dict(node, level="passive"), 1
        yield "gpu_node_health_timestamp_seconds", node, time.time()
        yield "gpu_node_health_findings_observed", dict(node, outcome="fail"), 0
        if number == 3:
            what = {
                "check": "ib_ports",
                "code": "link_down",
                "key": "0101:00:00.0",
                "outcome": "fail",
                "action": "look",
            }
            yield "gpu_node_health_finding", dict(node, silenced="false", observed="false", **what), 1
            yield "gpu_node:gpu_failures:7d", {"cluster": "alpha", "hostname": "gpu04", "key": "GPU-30"}, 2
        yield "gpu_node:node_failures:7d", node, int(number == 3)
        yield "gpu_node:node_time_between_failures:seconds", node, 86400
        for gpu in range(GPUS):
            whole = dict(node, gpu=str(gpu), UUID="GPU-{0}{1}".format(number, gpu), modelName="H100")
            parts = [whole] + (
                [dict(whole, GPU_I_ID=str(i), GPU_I_PROFILE="3g.40gb") for i in (1, 2)] if number == 2 else []
            )
            for labels in parts:
                for name in RATIOS:
                    # One GPU of the job does nothing.
                    yield name, labels, 0.6 if number < 3 and (number, gpu) != (0, 7) else 0.0
                yield "gpu_node:gpu_memory_used:bytes", labels, 2**34
                yield "gpu_node:gpu_memory_total:bytes", labels, 2**36
            for name in sorted(METRICS):
                if re.match(
                    r"gpu_node:gpu_(up|(memory_)?temperature|power|sm_clock|(pcie|nvlink)_(sent|received))", name
                ):
                    yield name, whole, 1
            yield "gpu_node:gpu_slowed", dict(whole, reason="hardware_thermal_slowdown"), 1
            yield "gpu_node:whole_gpu_busy:ratio", whole, 0.6 if number < 3 else 0
            yield "gpu_node:gpu_nvlink_errors_total", whole, Over(0, 9) if (number, gpu) == (3, 0) else 0
            yield "gpu_node:gpu_pcie_replays_total", whole, Over(0, 9) if (number, gpu) == (3, 0) else 0
            for labels in parts if number < 3 else ():
                yield "gpu_node:gpu_job", dict(labels, hpc_job="4711"), 1
                # The first instance is idle.
                busy = 0.01 if labels.get("GPU_I_ID") == "1" else 0.6
                yield "gpu_node:gpu_active_of_job:ratio", labels, busy
    for job, gpus in (("4711", 24), ("ml/train-0", 2)):
        of_job = {"cluster": "alpha", "hpc_job": job}
        for name in sorted(one for one in METRICS if ":job_" in one and one not in OF_JOBS):
            yield name, of_job, gpus if name.endswith("gpus") else 0.5
        yield "gpu_node:job_slowed_gpus", dict(of_job, reason="hardware_thermal_slowdown"), 2
    yield "gpu_node:job_busy_median:ratio", {"cluster": "alpha", "hpc_job": "4711"}, 0.9
    yield "gpu_node:job_owner", {"cluster": "alpha", "hpc_job": "4711", "user": "alice", "account": "physics"}, 1
    yield "gpu_node:job_owner", {"cluster": "alpha", "hpc_job": "ml/train-0", "namespace": "ml"}, 1
    for number in range(3):
        yield "gpu_node:job_node", {"cluster": "alpha", "hpc_job": "4711", "hostname": "gpu0{0}".format(number + 1)}, 1
    for state in ("busy", "idle", "wasted", "unallocated"):
        for name in ("gpu_node:fleet_gpus", "gpu_node:fleet_gpu_hours:7d"):
            yield name, {"cluster": "alpha", "profile": "ndv5", "state": state}, 8
    for bound, count in (("0.05", 9), ("0.5", 9), ("1", 32)):
        yield "gpu_node:fleet_busy_gpus:bucket", {"cluster": "alpha", "profile": "ndv5", "le": bound}, count


def exposition(end):
    lines, last = [], None
    for name, labels, value in sorted(samples(), key=lambda one: one[0]):
        if name != last:
            lines.append("# TYPE {0} gauge".format(name))
            last = name
        text = ",".join('{0}="{1}"'.format(*one) for one in labels.items())
        value = value if isinstance(value, Over) else Over(value, value)
        lines += [
            "{0}{{{1}}} {2} {3}".format(name, text, value.at(minute), end - 60 * (MINUTES - 1 - minute))
            for minute in range(MINUTES)
        ]
    return "\n".join(lines) + "\n# EOF\n"


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    path = os.pathsep.join([os.environ["PATH"], str(UNPACKED)])
    if shutil.which("prometheus", path=path) is None:
        pytest.skip("prometheus is neither installed nor in {0}: make setup says why".format(UNPACKED))
    folder, end = tmp_path_factory.mktemp("boards"), int(time.time()) // 3600 * 3600 - 1800
    (folder / "series.txt").write_text(exposition(end))
    (folder / "prometheus.yml").write_text("{}")
    environment = dict(os.environ, PATH=path)
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", "series.txt", "data"],
        cwd=str(folder),
        env=environment,
        check=True,
        capture_output=True,
        timeout=120,
    )
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = "127.0.0.1:{0}".format(one.getsockname()[1])
    words = [
        "prometheus",
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        "--web.listen-address=" + address,
    ]
    server = subprocess.Popen(
        words, cwd=str(folder), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def query(expr, over_time=False):
        times = {"start": end - 3000, "end": end, "step": 60} if over_time else {"time": end}
        name = "query_range" if over_time else "query"
        url = "http://{0}/api/v1/{1}?{2}".format(address, name, urllib.parse.urlencode({"query": expr, **times}))
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)["data"]["result"]

    deadline = time.monotonic() + 60
    while True:
        try:
            assert len(query("gpu_node:gpu_up")) == NODES * GPUS
            break
        except OSError:
            assert time.monotonic() < deadline and server.poll() is None
            time.sleep(0.5)
    yield query
    server.terminate()
    server.wait(20)


def line(legend, labels):
    return re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match.group(1), ""), legend)


CHOSEN = {"cluster": "alpha", "hostname": "gpu03", "hpc_job": "4711"}


def chosen(expr, failed=False):
    """The query as Grafana sends it, with values of the variables."""
    values = dict(CHOSEN, hostname="gpu04") if failed else CHOSEN
    expr = expr.replace("${__range}", "50m").replace("$__range", "50m")
    expr = re.sub(r'=~"\$(\w+)"', '=~".*"', expr)
    expr = re.sub(r'="\$(\w+)"', lambda match: '="{0}"'.format(values[match.group(1)]), expr)
    assert "$" not in expr, expr
    return expr


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_each_query_has_an_answer_and_no_two_lines_of_one_name(ask, name, panel):
    for target in panel["targets"]:
        expr = chosen(target["expr"], panel["title"] in ("Checks that did not pass", "Findings"))
        found = ask(expr, over_time=not target["instant"])
        assert found, expr
        if panel["type"] in ("stat",):
            assert len(found) == 1, expr
        legend = target.get("legendFormat")
        if legend and panel["type"] != "heatmap":
            lines = [line(legend, one["metric"]) for one in found]
            assert len(lines) == len(set(lines)), (expr, lines)
            number = re.search(r"(?:topk|bottomk)\((\d+)", expr)
            assert len(lines) <= (int(number.group(1)) if number else 99), expr


@pytest.mark.parametrize(("name", "panel"), of_type("table"))
def test_the_values_of_a_row_are_in_one_row(ask, name, panel):
    """Grafana merges by the labels that all queries of a table have: each value has one row there."""
    found = [[one["metric"] for one in ask(chosen(target["expr"], failed=True))] for target in panel["targets"]]
    shared = set.intersection(*({label for row in rows for label in row} for rows in found if rows))
    assert "__name__" not in shared and shared
    for rows in found:
        keys = [tuple(row.get(label, "") for label in sorted(shared)) for row in rows]
        assert len(keys) == len(set(keys)), panel["title"]


def answers(ask, board, title, query=0):
    (panel,) = [one for one in panels(BOARDS[board]) if one["title"] == title]
    return ask(chosen(panel["targets"][query]["expr"]))


def test_an_unknown_node_is_shown_and_counted(ask):
    """The series of outcomes that were drawn had no unknown: gpu02 was missing."""
    (count,) = answers(ask, "health", "Unknown")
    assert count["value"][1] == "1"
    states = {one["metric"]["hostname"]: one["value"][1] for one in answers(ask, "health", "Nodes that did not pass")}
    assert states == {"gpu02": "2", "gpu03": "1", "gpu04": "3"}


def test_a_job_on_an_instance_has_the_heat_and_the_clock_of_the_whole_gpu(ask):
    """gpu03 is divided, and reports heat and clocks of whole GPUs only."""
    for query in (3, 4):
        found = answers(ask, "job", "GPUs of the job", query)
        parts = [
            one["metric"]["GPU_I_ID"]
            for one in found
            if one["metric"]["hostname"] == "gpu03" and "GPU_I_ID" in one["metric"]
        ]
        assert sorted(parts) == sorted(["1", "2"] * GPUS)


def test_the_five_questions_have_their_answers(ask):
    (finding,) = answers(ask, "health", "Findings")
    labels, seen = finding["metric"], float(finding["value"][1]) / 1000
    assert (labels["hostname"], labels["outcome"], labels["action"], labels["key"]) == (
        "gpu04",
        "fail",
        "look",
        "0101:00:00.0",
    )
    # Fifteen minutes after it began, at most: the hour began 59 minutes before the end.
    assert 44 * 60 <= finding["value"][0] - seen <= 59 * 60
    (slow,) = [one for one in answers(ask, "job", "Jobs that may be slow") if one["metric"]["hpc_job"] == "4711"]
    assert (slow["metric"]["user"], slow["value"][1]) == ("alice", "24")
    # Half of the median of its GPUs; and a port of its second node is down.
    assert answers(ask, "job", "Jobs that may be slow", 2)[0]["value"][1].startswith("0.55")
    assert [one["value"][1] for one in answers(ask, "job", "Jobs that may be slow", 3)] == ["1"]
    wasted = {one["metric"]["hpc_job"]: one["value"][1] for one in answers(ask, "capacity", "Jobs by unused GPUs")}
    assert wasted == {"4711": "12", "ml/train-0": "1"}
    idle = answers(ask, "capacity", "Idle MIG instances")
    assert {(one["metric"]["hostname"], one["metric"]["GPU_I_ID"], one["metric"]["user"]) for one in idle} == {
        ("gpu03", "1", "alice")
    }
    users = {one["metric"].get("user"): float(one["value"][1]) for one in answers(ask, "usage", "Users")}
    assert set(users) == {"alice"} and users["alice"] == pytest.approx(24 * 50 * 30 / 3600, rel=0.03)
    assert [one["metric"] for one in answers(ask, "usage", "Namespaces")] == [{"namespace": "ml"}]
    (down,) = answers(ask, "fabric", "Ports down")
    assert down["value"][1] == "1"
    ports = [one["metric"] for one in answers(ask, "fabric", "Ports down or with errors")]
    assert [(one["hostname"], one["device"]) for one in ports] == [("gpu02", "mlx5_1")]
    (gpu,) = answers(ask, "fabric", "GPUs with link errors")
    assert (gpu["metric"]["hostname"], gpu["metric"]["gpu"]) == ("gpu04", "0")
