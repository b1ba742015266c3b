# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plays against a compromised node, whose Python answers each module as the attacker likes: nothing on the
controller is read, overwritten or run. With the ansible-core of this run and the newest,
and with and without variables of facts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ansible_collections.trainyard.gpu_node as collection

(SOURCE,) = {Path(path) for path in collection.__path__ if (Path(path) / "playbooks").is_dir()}
ROOTS = os.pathsep.join(sorted({str(Path(path).parents[2]) for path in collection.__path__}))
# The collection may be a directory of links to the repository.
NEWEST = (SOURCE / "playbooks").resolve().parent / ".venv-newest" / "bin" / "python"
CONTROLLERS = [sys.executable, str(NEWEST)]
SECRET = "only-on-the-controller"
KEYS = "ssh-ed25519 AAAA admin@controller\n"
# What each of our modules needs so that the play goes on.
ANSWER = {
    "changed": False,
    "outcome": "ready",
    "why": "",
    "owner": "rolling",
    "summary": [],
    "failures": [],
    "waits": [],
    "health": {},
    "ping": "pong",
    "status": "ok",
    "gpus": [],
    "lines": [],
    "stat": {"exists": True},
}
# It keeps all that the controller sends, and answers.
PYTHON = """#!/bin/bash
sent=$(mktemp {folder}/sent/XXXXXX)
if [ -f "$1" ]; then cat "$1" >"$sent"; else cat >"$sent"; fi
cat {folder}/answer.json
"""
PROGRAM = """#!/bin/bash
echo "$0 $*" >>{folder}/proof
echo '{{"items": []}}'
"""


class Site:
    def __init__(self, folder, controller, inject):
        self.folder, self.controller, self.inject = folder, controller, inject
        self.proof, self.keys = folder / "proof", folder / "authorized_keys"
        self.secrets, self.program = folder / "secrets", folder / "kubectl"
        for name in ("sent", "secrets"):
            (folder / name).mkdir()
        (self.secrets / "vault.yml").write_text("password: {0}\n".format(SECRET))
        self.keys.write_text(KEYS)
        for path, text in ((folder / "python", PYTHON), (self.program, PROGRAM)):
            path.write_text(text.format(folder=folder))
            path.chmod(0o755)
        self.more: dict[str, dict] = {}
        self.before: dict[str, dict] = {}  # hosts that the play comes to first
        self.host = {"ansible_connection": "local", "ansible_become": False}
        self.variables = {"ansible_python_interpreter": str(folder / "python")}

    def __call__(self, playbook, answer, *words, environment=(), **variables):
        (self.folder / "answer.json").write_text(answer if isinstance(answer, str) else json.dumps(answer))
        evil = dict(self.host, **self.variables)
        here = {"ansible_connection": "local", "ansible_python_interpreter": self.controller}
        inventory = {
            "gpu_nodes": {"hosts": dict(self.before, evil=evil), "vars": variables},
            "controllers": {"hosts": {"localhost": here}},
            **self.more,
        }
        (self.folder / "inventory.json").write_text(json.dumps(inventory))
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "KUBECONFIG"))}
        playbook = playbook if "/" in playbook else str(SOURCE / "playbooks" / playbook)
        done = subprocess.run(
            [self.controller, "-m", "ansible.cli.playbook", "-v", "-i", str(self.folder / "inventory.json")]
            + [*words, playbook],
            env=dict(
                clean,
                ANSIBLE_COLLECTIONS_PATH=ROOTS,
                ANSIBLE_HOME=str(self.folder.parent / "ansible_home"),
                ANSIBLE_INJECT_FACT_VARS=str(self.inject),
                ANSIBLE_LOCAL_TEMP=str(self.folder / "tmp"),
                ANSIBLE_NOCOLOR="1",
                ANSIBLE_PIPELINING="1",
                ANSIBLE_REMOTE_TEMP=str(self.folder / "remote"),
                PWD=str(self.folder),
                HOME=str(self.folder),
                **dict(environment),
            ),
            cwd=str(self.folder),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        done.told = done.stdout + done.stderr
        # The play must have come to the node, or the test shows nothing.
        assert any(host in done.stdout for host in ("evil", *self.more)) and "Traceback" not in done.told, done.told
        return done

    @property
    def sent(self):
        return b"".join(path.read_bytes() for path in (self.folder / "sent").iterdir()).decode("utf-8", "replace")


@pytest.fixture(params=CONTROLLERS, ids=["this", "newest"])
def controller(request):
    if not Path(request.param).exists():
        pytest.skip("{0} does not exist; `make setup` installs the newest ansible-core there".format(request.param))
    return request.param


@pytest.fixture(params=[True, False], ids=["injection", "no_injection"])
def site(request, tmp_path, controller):
    return Site(tmp_path, controller, request.param)


@pytest.mark.sampled(2)
def test_no_file_of_the_controller_is_read_or_overwritten(site):
    facts = {"node_profile_profiles": str(site.secrets), "gpu_node_rolling_not_done": str(site.keys)}
    done = site("rolling.yml", dict(ANSWER, ansible_facts=facts))
    assert "Converge" in done.stdout
    assert site.keys.read_text() == KEYS
    assert site.sent and SECRET not in site.sent and "password" not in site.sent


@pytest.mark.sampled(3)
@pytest.mark.parametrize("playbook", ["rolling.yml", "kubernetes.yml"])
def test_no_program_of_the_controller_is_run(site, playbook):
    names = ("gpu_node_kubernetes_kubectl", "kubernetes_gpu_kubectl", "kubernetes_gpu_helm")
    facts = dict.fromkeys(names, str(site.program))
    site(playbook, dict(ANSWER, ansible_facts=facts), gpu_node_rolling_scheduler="kubernetes")
    assert not site.proof.exists()


def test_an_answer_changes_no_other_host_and_no_connection(tmp_path, controller):
    site = Site(tmp_path, controller, True)
    more = {"ansible_host": "attacker.example", "ansible_python_interpreter": "/x", "ansible_connection": "ssh"}
    hostile = dict(
        ANSWER,
        changed=True,
        add_host={"host_name": "localhost", "groups": ["gpu_nodes"], "host_vars": more},
        add_group="controllers",
        ansible_facts=dict(more, gpu_node_hosts="all", inventory_hostname="localhost", hostvars={}),
        ansible_stats={"data": {"owned": 1}, "per_host": False, "aggregate": False},
        _ansible_delegated_vars=more,
        _ansible_no_log=False,
        _ansible_notify=["x"],
    )
    play = site.folder / "play.yml"
    show = {"ansible.builtin.debug": {"var": "shown"}, "vars": {"shown": SHOWN}}
    tasks = [{"trainyard.gpu_node.gpu_info": {}}, {"trainyard.gpu_node.slurm_node": {"run": "x"}, "register": "r"}]
    last = {"hosts": "localhost", "gather_facts": False, "tasks": [show]}
    play.write_text(json.dumps([{"hosts": "evil", "gather_facts": False, "tasks": [*tasks, show]}, last]))
    done = site(str(play), hostile)
    shown = [json.loads("{" + part.partition("=> {")[2].partition("\n}")[0] + "}") for part in _debugged(done.stdout)]
    assert len(shown) == 2, done.told
    assert shown[0]["shown"]["facts"] == [] and shown[0]["shown"]["host"] == "", shown
    for one in shown:
        assert one["shown"]["groups"] == {"gpu_nodes": ["evil"], "controllers": ["localhost"]}
    assert "owned" not in done.stdout.partition("PLAY RECAP")[2]


SHOWN = {
    "facts": "{{ ansible_facts | list | reject('match', 'discovered_interpreter') | list }}",
    "host": "{{ hostvars['localhost'].ansible_host | default('') }}",
    "groups": "{{ {'gpu_nodes': groups.gpu_nodes, 'controllers': groups.controllers} }}",
}


def _debugged(text):
    return text.split("TASK [ansible.builtin.debug]")[1:]


TEMPLATE = "{{ lookup('ansible.builtin.pipe', 'touch %s') }}"


def test_text_of_an_answer_is_never_a_template_nor_obeyed_by_a_terminal(tmp_path, controller):
    site = Site(tmp_path, controller, True)
    template = TEMPLATE % site.proof
    trusted = {"__ansible_type": "TrustedAsTemplate", "value": template}
    hostile = dict(
        ANSWER,
        outcome="ready",
        why=template,
        msg=template,
        summary=[template, trusted, "\x1b[2J\x1b]0;x\x07"],
        failures=[template],
        waits=[{"for": template, "why": template}],
        warnings=["\x1b[31mred " + template],
        deprecations=[{"msg": template, "version": "9"}],
        diff=[{"before": "\x1b[2J", "after": template, "before_header": "\x1b[3J"}],
        profile={"name": "x", "data": {template: template}},
        ansible_facts={"gpu_node_profile": {"name": "virtual", "reason": template, "data": {"gpus": template}}},
    )
    done = site("rolling.yml", hostile, "--diff", gpu_settings_clocks="{{ gpu_node_profile.reason }}")
    assert "\x1b" not in done.told and "\x07" not in done.told
    assert not site.proof.exists()


ESCAPE = "\x1b[2J\x1b]0;owned\x07\x9b31m"
ERROR = {"__ansible_type": "ErrorSummary", "event": {"__ansible_type": "Event", "msg": ESCAPE, "help_text": ESCAPE}}
FAILURES = {
    "message": {"failed": True, "msg": ESCAPE},
    "traceback": {"failed": True, "msg": "x", "exception": ESCAPE * 1000},
    "error_object": {"failed": True, "msg": "x", "exception": ERROR},
    "other_keys": {"failed": True, "msg": "x", "module_stdout": ESCAPE * 10**5, "reason": {ESCAPE: [ESCAPE]}},
    "not_parsed": {"failed": True, "msg": ESCAPE, "_ansible_parsed": False, "_ansible_verbose_override": True},
    "large": {"failed": True, "msg": "A" * 3 * 10**6},
    "large_key": {"failed": True, "msg": "x", "more": {"A" * 3 * 10**6: 1}},
    "no_json": ESCAPE * 10**5,
    "half_json": '{"failed": true, "msg": "' + ESCAPE * 10**5,
    "junk_behind": json.dumps(ANSWER) + "\n" + ESCAPE * 10**5,
    "junk_before": ESCAPE * 10**5 + "\n" + json.dumps({"failed": True, "msg": "x"}),
    "braces": "{" * 10**6,
}


OF_BOTH = ["message", "error_object", "junk_before"]


def test_failed_answers_neither_command_nor_flood_the_terminal(tmp_path, controller):
    site = Site(tmp_path, controller, True)
    for name, answer in FAILURES.items():
        folder = tmp_path / name
        (folder / "sent").mkdir(parents=True)
        (folder / "answer.json").write_text(answer if isinstance(answer, str) else json.dumps(answer))
        (folder / "python").write_text(PYTHON.format(folder=folder))
        (folder / "python").chmod(0o755)
    play = tmp_path / "play.yml"
    # One task of each action plugin; both read an answer in the same way, so the second one gets some of the answers.
    tasks = [{"trainyard.gpu_node.gpu_info": {}, "ignore_errors": True}]
    tasks += [{"trainyard.gpu_node.slurm_node": {}, "when": "inventory_hostname in {0}".format(OF_BOTH)}]
    interpreter = {"ansible_python_interpreter": "{0}/{{{{ inventory_hostname }}}}/python".format(tmp_path)}
    play.write_text(json.dumps([{"hosts": "failures", "gather_facts": False, "vars": interpreter, "tasks": tasks}]))
    site.more = {"failures": {"hosts": {name: dict(site.host) for name in FAILURES}}}
    done = site(str(play), ANSWER)
    assert not {"\x1b", "\x07", "\x9b"} & set(done.told), done.told[:2000]
    assert len(done.told) < 60000 * len(FAILURES)
    assert max(map(len, done.told.splitlines())) < 60000, [
        line[:200] for line in done.told.splitlines() if len(line) > 60000
    ]
    for name in FAILURES:
        assert "fatal: [{0}]: FAILED!".format(name) in done.told or name == "junk_behind", name


def test_a_malformed_profile_fails_the_node(tmp_path):
    site = Site(tmp_path, sys.executable, True)
    done = site("site.yml", dict(ANSWER, ansible_facts={"gpu_node_profile": {"name": "../../etc"}}))
    assert done.returncode == 2 and "The answer of this node to node is not used: " in done.told


LYING = {
    "schema": "trainyard.gpu_node/verdict/1",
    "node": "evil",
    "time": 1_790_000_000.0,
    "level": "passive",
    "profile": "nd96asr_v4",
    "outcome": "pass",
    "results": [{"id": "gpu_count", "outcome": "pass", "findings": [{"outcome": "fail", "thing": "GPU 3"}]}],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "verdict",
    [
        LYING,
        dict(LYING, results=[], time=9e10),
        dict(LYING, results=[{"id": "x", "outcome": "pass", "seconds": "NaN"}]),
        None,
    ],
    ids=["failing_finding", "no_results", "nan", "no_verdict"],
)
def test_an_impossible_verdict_fails_the_node_in_the_health_play(tmp_path, controller, verdict):
    site = Site(tmp_path, controller, True)
    told = dict(ANSWER, outcome="pass", findings=[], owes="", **({} if verdict is None else {"verdict": verdict}))
    report = tmp_path / "report.json"
    files = {
        "ANSIBLE_CALLBACKS_ENABLED": "trainyard.gpu_node.health_report",
        "GPU_NODE_HEALTH_JSON": str(report),
    }
    text = json.dumps(told).replace('"NaN"', "NaN")
    done = site("health.yml", text, environment=files, gpu_node_health_fail_on="never")
    assert done.returncode == 2, done.told
    assert "The answer of this node to health_check is not used: " in done.told
    (node,) = json.loads(report.read_text())["nodes"]
    assert (node["host"], node["outcome"], node["verdict"]) == ("evil", "none", None)
    assert len(node["findings"]) == 1 and "is not used" in node["findings"][0]["reason"]


@pytest.mark.sampled(2)
def test_facts_of_a_cache_do_not_say_what_happens_on_the_controller(site):
    """Of another run, such as one with gather_facts; only there are facts variables from the beginning."""
    (site.folder / "cache").mkdir()
    facts = {"gpu_node_kubernetes_kubectl": str(site.program), "kubernetes_gpu_kubectl": str(site.program)}
    (site.folder / "cache" / "s1_evil").write_text(json.dumps({"__payload__": json.dumps(facts)}))
    cache = {"ANSIBLE_CACHE_PLUGIN": "jsonfile", "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(site.folder / "cache")}
    site.variables["ansible_python_interpreter"] = site.controller
    done = site("rolling.yml", ANSWER, environment=cache, gpu_node_rolling_scheduler="kubernetes")
    assert not site.proof.exists()
    refused = "gpu_node_kubernetes_kubectl: it is a fact of this host" in done.told
    assert refused == site.inject, done.told


def test_harmless_facts_of_a_cache_stop_nothing(tmp_path):
    site = Site(tmp_path, sys.executable, True)
    (tmp_path / "cache").mkdir()
    profile = {"name": "virtual", "source": "hardware", "data": {}, "roles": [], "matches": True}
    facts = {"gpu_node_profile": profile, "ansible_distribution": "Debian", "image_release": "7", "site_rack": "r1"}
    (tmp_path / "cache" / "s1_evil").write_text(json.dumps({"__payload__": json.dumps(facts)}))
    cache = {"ANSIBLE_CACHE_PLUGIN": "jsonfile", "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(tmp_path / "cache")}
    done = site("site.yml", ANSWER, environment=cache)
    assert done.returncode == 0, done.told


SHARING = """
- hosts: gpu_nodes
  gather_facts: true
  strategy: linear
  roles:
    - role: trainyard.gpu_node.gpu_sharing
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "facts, hostile", [({"gpu_sharing_name": "good", "gpu_sharing_config": "hostile"}, True), ({}, False)]
)
def test_facts_of_one_node_configure_no_other_node(site, facts, hostile):
    (site.folder / "play.yml").write_text(SHARING)
    (site.folder / "out").mkdir()
    here = {"ansible_connection": "local", "ansible_python_interpreter": site.controller, "ansible_become": False}
    site.before = {"agood": dict(here, gpu_sharing_name="good", gpu_sharing_config="slice-4")}
    one, other = ({"time_slicing": {"nvidia.com/gpu": number}} for number in (4, 48))
    done = site(
        str(site.folder / "play.yml"),
        dict(ANSWER, ansible_facts=facts),
        gpu_sharing_apply="files",
        gpu_sharing_folder=str(site.folder / "out"),
        gpu_sharing_configs={"slice-4": one, "hostile": other},
    )
    written = "".join(path.read_text() for path in (site.folder / "out").rglob("*") if path.is_file())
    assert "device-plugin.config=hostile" not in written
    if hostile and site.inject:
        assert done.returncode != 0 and "it is a fact of evil" in done.told
    else:
        assert "device-plugin.config=slice-4" in written, done.told
