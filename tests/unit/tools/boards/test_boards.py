# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boards for Grafana: as they are generated, whole, and each query answered by a real Prometheus."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from tools.boards import __main__ as boards
from tools.boards.names import METRICS, RUNBOOKS
from tools.monitoring import rules

ROOT = pathlib.Path(__file__).resolve().parents[4]
BOARDS = {name: json.loads((ROOT / boards.FOLDER / (name + ".json")).read_text()) for name in boards.NAMES}
RECORDED = {rule.record for _name, _seconds, group in rules.groups() for rule in group}
UNPACKED = ROOT / ".venv/debian/usr/bin"
TYPES = {"timeseries", "stat", "table", "heatmap", "bargauge", "state-timeline", "row"}


def panels(board):
    for one in board["panels"]:
        yield from (panel for panel in [one, *one.get("panels", [])] if panel["type"] != "row")


PANELS = [
    pytest.param(name, one, id="{0}: {1}".format(name, one["title"])) for name in BOARDS for one in panels(BOARDS[name])
]


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
    assert unit or panel["type"] == "heatmap"
    for target in panel["targets"]:
        names = set(re.findall(r"gpu_node[:_][a-z0-9_:]+", target["expr"]))
        assert names and {one for one in names if not one.startswith("gpu_node_health")} <= METRICS & RECORDED, names
    for link in panel.get("links") or []:
        alert = link["title"].rpartition(" ")[2]
        assert alert in RUNBOOKS and "## " + alert in (ROOT / "docs/runbooks.md").read_text()


def test_the_config_maps_are_what_grafana_s_sidecar_takes():
    maps = json.loads((ROOT / boards.MANIFEST).read_text())["items"]
    assert [one["metadata"]["labels"] for one in maps] == [{"grafana_dashboard": "1"}] * len(BOARDS)
    assert [json.loads(text) for one in maps for text in one["data"].values()] == [
        BOARDS[name] for name in boards.NAMES
    ]


# A real server ----------------------------------------------------------------------------------------

NODES, GPUS, MINUTES = 4, 8, 60
RATIOS = sorted(one for one in METRICS if one.endswith(":ratio") and ":gpu_" in one)


def samples():
    """(metric, labels, value) of four nodes: the first three of a job, the third with MIG, the fourth idle and sick."""
    for number in range(NODES):
        node = {"cluster": "alpha", "hostname": "gpu{0:02}".format(number + 1), "profile": "ndv5", "rack": "r1"}
        for outcome in ("pass", "warn", "unknown", "fail"):
            yield (
                "gpu_node_health_outcome",
                dict(node, outcome=outcome),
                int(outcome == ("fail" if number == 3 else "pass")),
            )
        for check in ("gpu_lost", "ib_ports", "gpu_temperature"):
            yield "gpu_node_health", dict(node, check=check), 3 if number == 3 and check == "ib_ports" else 0
            yield "gpu_node_health_check_duration_seconds", dict(node, check=check), 0.1
        yield "gpu_node_health_info", dict(node, level="passive"), 1
        yield "gpu_node_health_timestamp_seconds", node, time.time()
        yield "gpu_node_health_findings_observed", dict(node, outcome="fail"), 0
        if number == 3:
            told = {
                "check": "ib_ports",
                "code": "link_down",
                "key": "0101:00:00.0",
                "outcome": "fail",
                "action": "look",
            }
            yield "gpu_node_health_finding", dict(node, silenced="false", observed="false", **told), 1
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
                if re.match(r"gpu_node:gpu_(up|(memory_)?temperature|power|energy|sm_clock|pcie|nvlink)", name):
                    yield name, whole, 1
            yield "gpu_node:gpu_slowed", dict(whole, reason="hardware_thermal_slowdown"), 1
            for labels in parts if number < 3 else ():
                yield "gpu_node:gpu_job", dict(labels, hpc_job="4711"), 1
    for name in sorted(one for one in METRICS if ":job_" in one):
        yield name, {"cluster": "alpha", "hpc_job": "4711"}, 24 if name.endswith("gpus") else 0.5
    for state in ("busy", "idle", "wasted", "unallocated"):
        for name in ("gpu_node:fleet_gpus", "gpu_node:fleet_gpu_hours:7d"):
            yield name, {"cluster": "alpha", "profile": "ndv5", "state": state}, 8


def exposition(end):
    lines, last = [], None
    for name, labels, value in sorted(samples(), key=lambda one: one[0]):
        if name != last:
            lines.append("# TYPE {0} gauge".format(name))
            last = name
        text = ",".join('{0}="{1}"'.format(*one) for one in labels.items())
        lines += [
            "{0}{{{1}}} {2} {3}".format(name, text, value, end - 60 * minute) for minute in reversed(range(MINUTES))
        ]
    return "\n".join(lines) + "\n# EOF\n"


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    path = os.pathsep.join([os.environ["PATH"], str(UNPACKED)])
    if shutil.which("prometheus", path=path) is None:
        pytest.skip("prometheus is neither installed nor in {0}: make setup says why".format(UNPACKED))
    folder, end = tmp_path_factory.mktemp("boards"), int(time.time()) - 60
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

    def query(expr):
        url = "http://{0}/api/v1/query?{1}".format(address, urllib.parse.urlencode({"query": expr, "time": end}))
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


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_each_query_has_an_answer_and_no_two_lines_of_one_name(ask, name, panel):
    for target in panel["targets"]:
        expr = re.sub(r'=~"\$(\w+)"', '=~".*"', target["expr"])
        expr = re.sub(r'="\$(\w+)"', lambda match: '="{0}"'.format(CHOSEN[match.group(1)]), expr)
        assert "$" not in expr, expr
        if panel["title"] in ("Checks that are not well", "Findings") and name == "node":
            expr = expr.replace("gpu03", "gpu04")
        found = ask(expr)
        assert found, expr
        if panel["type"] in ("stat",):
            assert len(found) == 1, expr
        legend = target.get("legendFormat")
        if legend and panel["type"] != "heatmap":
            lines = [line(legend, one["metric"]) for one in found]
            assert len(lines) == len(set(lines)), (expr, lines)


def test_a_job_on_an_instance_has_the_heat_and_the_clock_of_the_whole_gpu(ask):
    """gpu03 is divided, and its heat is told of whole GPUs."""
    for one in panels(BOARDS["job"]):
        for target in one["targets"] if one["title"] in ("Hottest GPUs", "Slowest clocks") else ():
            expr = target["expr"].replace("$cluster", "alpha").replace("$hpc_job", "4711")
            only = re.sub(r"(gpu_node:gpu_job\{)", r'\1hostname="gpu03",GPU_I_ID="1",', expr)
            assert len(ask(only)) == 5, only


def test_the_questions_have_their_answers(ask):
    """Which job keeps GPUs idle; is it heat; who fails again; how much computes."""
    assert importlib.import_module("tools.boards.fleet")
    (job,) = ask("gpu_node:job_gpus * (1 - gpu_node:job_busy:ratio)")
    assert (job["metric"]["hpc_job"], job["value"][1]) == ("4711", "12")
