# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The monitor for node-problem-detector: its plugin is run by real shells, and its configuration is read by the rules
of pkg/custompluginmonitor/types/config.go (ApplyConfiguration, Validate) and custom_plugin_monitor.go there.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import described
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.formats import npd
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import kubernetes, node_status
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.settings import Settings
from ansible_collections.trainyard.gpu_node.tests.unit.deploy.kubernetes_objects import KUBERNETES
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.formats.formats_verdicts import (
    HEALTHY,
    SICK,
)

FOLDER = KUBERNETES / "node_problem_detector"
PLUGIN = FOLDER / "config" / "gpu_node_health.sh"
CONFIGS: Dict[str, Dict[str, Any]] = {
    subject: json.loads((FOLDER / "config" / (subject + ".json")).read_text(encoding="utf-8"))
    for subject in node_status.SUBJECTS
}
MONITORS = ["/gpu_node/{0}.json".format(subject) for subject in CONFIGS]
SHELLS = [words for words in (["dash"], ["bash", "--posix"], ["busybox", "sh"]) if shutil.which(words[0])]
SICK_LINE = "node problem GPU 3: it is lost\n"


def head(age: float = 0, valid: float = 750) -> str:
    return "gpu_node status 1\ntime {0:.0f} {1:.0f}\n".format(time.time() - age, valid)


@pytest.fixture(name="shell", params=SHELLS, ids=[words[0] for words in SHELLS])
def _shell(request: pytest.FixtureRequest) -> List[str]:
    return list(request.param)


def run(shell: List[str], *words: str) -> Tuple[int, str]:
    # A locale of many bytes, as a person may have it: nothing may depend on it.
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [*shell, str(PLUGIN), *words], capture_output=True, env=environment, timeout=20, check=False, cwd="/"
    )
    assert done.stderr == b"", done.stderr
    assert done.stdout.endswith(b"\n") and done.stdout.count(b"\n") == 1
    return done.returncode, done.stdout[:-1].decode("ascii")


# --- the plugin
def test_what_the_gate_writes_is_what_the_plugin_tells(shell: List[str], tmp_path: Path) -> None:
    file = tmp_path / "status"
    for verdict, status in ((SICK, 1), (HEALTHY, 0)):
        text = node_status.render(verdict, 750)
        file.write_text(text.replace(text.splitlines()[1], head().splitlines()[1]), encoding="ascii")
        assert npd.exit_status(verdict) == status
        told = dict((line.split(" ", 2)[0], line.split(" ", 2)[1:]) for line in text.splitlines()[2:])
        assert tuple(told) == node_status.SUBJECTS
        for subject, (state, message) in told.items():
            expected = ({"ok": 0, "problem": 1, "unknown": 2}[state], message[:80].strip())
            found = run(shell, subject, "80", str(file))
            assert (found[0], found[1].strip()) == expected


BAD = {
    "empty": "",
    "no time": "gpu_node status 1\n",
    "another version": "gpu_node status 2\ntime 1 750\n" + SICK_LINE,
    "json": json.dumps({"node": "problem"}) + "\n",
    "old": head(800) + SICK_LINE,
    "old and well": head(800) + "node ok all is well\n",
    "from the future": head(-86400) + "node ok all is well\n",
    "holds for ever": head(0, 10**8) + "node ok all is well\n",
    "holds for more than a shell can count": head().replace(" 750", " " + "9" * 30) + "node ok all is well\n",
    "octal": head().replace(" 750", " 0750") + "node ok all is well\n",
    "negative": head().replace(" 750", " -750") + "node ok all is well\n",
    "more numbers": head().replace(" 750", " 750 1") + "node ok all is well\n",
    "a command for a time": head().replace(" 750", " $(id)") + "node ok all is well\n",
    "cut short": head() + "node ok",
    "another subject": head() + "gpu ok all is well\n",
    "no such state": head() + "node fine all is well\n",
    "far behind": head() + "x ok\n" * 50 + "node ok all is well\n",
    "binary": "\x01\x02\x03\n" * 10,
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_what_is_no_status_of_now_is_unknown(shell: List[str], tmp_path: Path, text: str) -> None:
    file = tmp_path / "status"
    file.write_text(text, encoding="utf-8")
    status, message = run(shell, "node", "80", str(file))
    assert status == 2 and message and len(message) <= 80


def test_a_status_that_is_no_file_is_unknown(shell: List[str], tmp_path: Path) -> None:
    assert run(shell, "node", "80", str(tmp_path / "none"))[0] == 2
    (tmp_path / "real").write_text(head() + "node ok all is well\n")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "loose").symlink_to(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "loose", "pipe", "."):
        assert run(shell, "node", "80", str(tmp_path / name))[0] == 2
    assert run(shell, "node", "80", str(tmp_path / "real"))[0] == 0


def test_a_message_is_one_short_line_of_plain_text(shell: List[str], tmp_path: Path) -> None:
    file = tmp_path / "status"
    file.write_bytes(head().encode() + b"node problem %s %d `id` $(id) \\n \\033[31m" + b"x" * 5000 + b"\n")
    status, message = run(shell, "node", "80", str(file))
    assert (status, len(message)) == (1, 80) and message.startswith("%s %d `id` $(id) \\n \\033[31mx")
    assert len(run(shell, "node", "200", str(file))[1]) == 200
    for wrong in ("", "-1", "x", "080", "9" * 20):
        assert len(run(shell, "node", wrong, str(file))[1]) == 80
    for text in (b"\x1b[31mred\x07\xff", "sch\xf6n".encode()):
        file.write_bytes(head().encode() + b"node problem " + text + b"\n")
        assert run(shell, "node", "80", str(file)) == (1, "its message is not plain text")


def test_no_wrong_use_is_a_problem(shell: List[str], tmp_path: Path) -> None:
    file = tmp_path / "status"
    file.write_text(head() + SICK_LINE)
    for words in ([], [""], ["*"], ["nod*"], ["nothing", "80", str(file)], ["*", "80", str(file)]):
        assert run(shell, *words)[0] == 2


def test_the_plugin_takes_each_interval_of_the_gate() -> None:
    (most,) = re.findall(r"most_valid=(\d+)", PLUGIN.read_text(encoding="utf-8"))
    assert int(most) > described(Settings)["interval_seconds"].bounds[1] * 2.5
    assert node_status.PATH in PLUGIN.read_text(encoding="utf-8") and os.access(PLUGIN, os.X_OK)


# --- its configuration
UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "ns": 1e-9}
GLOBAL = {
    "invoke_interval": str,
    "timeout": str,
    "max_output_length": int,
    "concurrency": int,
    "enable_message_change_based_condition_update": bool,
    "skip_initial_status": bool,
}
RULE = {"type", "condition", "reason", "path", "args", "timeout", "invoke_interval"}


def seconds(text: str) -> float:
    """time.ParseDuration."""
    assert re.fullmatch(r"([0-9.]+(h|ms|us|ns|m|s))+", text), text
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([0-9.]+)(h|ms|us|ns|m|s)", text))


def check(config: Dict[str, Any], files: Tuple[str, ...]) -> None:
    """:raises AssertionError: node-problem-detector would end at it, or would not do what stands there."""
    # What encoding/json does not know it passes over in silence, a misspelt key too.
    assert set(config) <= {"plugin", "pluginConfig", "source", "conditions", "rules", "metricsReporting"}
    assert config["plugin"] == "custom" and config["source"]
    common = config["pluginConfig"]
    assert all(type(value) is GLOBAL[key] for key, value in common.items())
    interval, timeout = seconds(common["invoke_interval"]), seconds(common["timeout"])
    assert interval > 0 and common["concurrency"] > 0
    presets = [one["type"] for one in config["conditions"]]
    assert len(set(presets)) == len(presets)
    for one in config["conditions"]:
        assert set(one) == {"type", "reason", "message"} and all(one.values())
    used = []
    for rule in config["rules"]:
        assert set(rule) <= RULE and rule["type"] in ("permanent", "temporary")
        assert seconds(rule.get("invoke_interval", common["invoke_interval"])) > 0
        assert seconds(rule.get("timeout", common["timeout"])) <= timeout < interval
        assert rule["path"] in files
        # CamelCase, as the API of Kubernetes wants the reason of a condition.
        assert re.fullmatch(r"[A-Z][A-Za-z]*", rule["reason"])
        if rule["type"] == "permanent":
            assert rule["condition"] in presets, "permanent problem without a preset condition"
            used.append(rule["condition"])
        else:
            assert "condition" not in rule
    # Two rules of one condition undo each other's answer at each run, and one without a rule is False for ever. Each
    # result brings all conditions of its file to the API, those too that nobody has asked for yet, which are False then
    # (generateStatus, initialConditions): a restart of the pod would tell for a moment that they are well.
    assert used == presets and len(config["rules"]) == 1
    # As long as it is so, nothing is told before the plugin was asked.
    assert common["skip_initial_status"] is True


FILES = ("/bin/sh",)


@pytest.mark.parametrize("subject", CONFIGS)
def test_the_configuration_is_what_node_problem_detector_takes(subject: str) -> None:
    config = CONFIGS[subject]
    check(config, FILES)
    (rule,) = config["rules"]
    plugin, asked, most = rule["args"]
    assert plugin == "/gpu_node/" + PLUGIN.name and asked == subject
    assert int(most) <= config["pluginConfig"]["max_output_length"]
    # While a condition is Unknown its reason is that of the preset, which must not say that all is well.
    assert {one["reason"] for one in config["conditions"]} <= {"NoFaultReported"}
    # Else the message of the first fault stays when another one has taken its place.
    assert config["pluginConfig"]["enable_message_change_based_condition_update"] is True


@pytest.mark.parametrize(
    "path, value",
    [
        (("plugin",), "customs"),
        (("pluginConfig", "invoke_interval"), "0s"),
        (("pluginConfig", "invoke_interval"), "60"),
        (("pluginConfig", "timeout"), "1s"),
        (("pluginConfig", "max_output_length"), "200"),
        (("pluginConfig", "skip_initial_status"), False),
        (("rules", 0, "timeout"), "60s"),
        (("rules", 0, "condition"), "NoSuchCondition"),
        (("rules", 0, "path"), "/gpu_node/none.sh"),
        (("rules", 0, "reasons"), "Misspelt"),
        (("rules", 0, "type"), "temporary"),
        (("conditions",), []),
        (("conditions",), [CONFIGS["node"]["conditions"][0], CONFIGS["gpu"]["conditions"][0]]),
    ],
)
def test_the_reader_of_this_test_sees_what_is_wrong(path: Tuple[Any, ...], value: Any) -> None:
    config = copy.deepcopy(CONFIGS["node"])
    place: Any = config
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises((AssertionError, KeyError)):
        check(config, FILES)


def test_each_condition_and_each_reason_is_of_one_subject() -> None:
    conditions = [one["type"] for config in CONFIGS.values() for one in config["conditions"]]
    assert conditions[0] == kubernetes.CONDITION and len(set(conditions)) == len(conditions) == len(CONFIGS) - 1
    assert len({config["rules"][0]["reason"] for config in CONFIGS.values()}) == len(CONFIGS)
    assert CONFIGS[node_status.WARNINGS]["rules"][0]["type"] == "temporary"
    # The folder becomes the config map, so nothing else lies in it.
    assert {path.name for path in PLUGIN.parent.iterdir()} == {PLUGIN.name, *(name + ".json" for name in CONFIGS)}


def test_the_page_has_each_condition_with_its_file() -> None:
    text = (KUBERNETES.parents[1] / "docs" / "kubernetes_health.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `(\w+Unhealthy)` \|.*\| `(\w+)\.json` \|$", text, re.MULTILINE)
    assert told == [(one["type"], name) for name, config in CONFIGS.items() for one in config["conditions"]]
    assert "cut at {0} bytes".format(CONFIGS["node"]["pluginConfig"]["max_output_length"]) in text


# --- its place in a pod
def patched(document: Any, operations: List[Dict[str, Any]]) -> Any:
    """JSON patch (RFC 6902), of which only ``add`` at the end of a list is used."""
    document = copy.deepcopy(document)
    for one in operations:
        assert set(one) == {"op", "path", "value"} and one["op"] == "add"
        *keys, last = one["path"].split("/")[1:]
        place = document
        for key in keys:
            place = place[int(key)] if isinstance(place, list) else place[key]
        assert last == "-" and isinstance(place, list)
        place.append(one["value"])
    return document


# What the patch needs of deployment/node-problem-detector.yaml.
UPSTREAM = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "node-problem-detector", "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"app": "node-problem-detector"}},
        "template": {
            "metadata": {"labels": {"app": "node-problem-detector"}},
            "spec": {
                "containers": [
                    {
                        "name": "node-problem-detector",
                        "command": ["/node-problem-detector", "--logtostderr"],
                        "image": "registry.k8s.io/node-problem-detector/node-problem-detector:v0.8.19",
                        "volumeMounts": [{"name": "log", "mountPath": "/var/log", "readOnly": True}],
                    }
                ],
                "volumes": [{"name": "log", "hostPath": {"path": "/var/log/"}}],
            },
        },
    },
}
OPERATIONS = json.loads((FOLDER / "daemonset.patch.json").read_text(encoding="utf-8"))


def places(mounts: List[Dict[str, Any]], volumes: List[Dict[str, Any]]) -> None:
    assert all(one["readOnly"] is True for one in mounts)
    where = {one["name"]: one["mountPath"] for one in mounts}
    by_name = {one["name"]: one for one in volumes}
    assert set(where) == set(by_name) == {"gpu-node", "gpu-node-status"}
    assert where["gpu-node"] == "/gpu_node" and by_name["gpu-node"]["configMap"]["name"] == "gpu-node-health"
    # A file would stay the one of the start of the pod: the gate replaces it.
    status = by_name["gpu-node-status"]["hostPath"]
    assert status["path"] == where["gpu-node-status"] == node_status.FOLDER == os.path.dirname(node_status.PATH)
    # Else no pod starts on a node without the role, and all of node-problem-detector is missing there.
    assert status["type"] == "DirectoryOrCreate"


def test_the_patch_and_the_values_bring_both_files_and_the_status_into_the_pod() -> None:
    spec = patched(UPSTREAM, OPERATIONS)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["command"][-1] == "--config.custom-plugin-monitor=" + ",".join(MONITORS)
    places(container["volumeMounts"][1:], spec["volumes"][1:])
    values = yaml.safe_load((FOLDER / "values.yaml").read_text(encoding="utf-8"))
    # The keys of the chart's own values.yaml.
    assert set(values) == {"settings", "extraVolumes", "extraVolumeMounts"}
    assert values["settings"] == {"custom_plugin_monitors": MONITORS}
    places(values["extraVolumeMounts"], values["extraVolumes"])
