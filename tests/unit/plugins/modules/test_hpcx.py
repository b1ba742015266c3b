# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module hpcx as Ansible runs it, on a node that is a folder, with a small tarball from a real server."""

from __future__ import annotations

import functools
import http.server
import json
import os
import threading

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.modules import hpcx as module
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.hpcx import hpcx_tarball
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *dummy):
        pass


@pytest.fixture(name="run")
def _run(tmp_path):
    root = tmp_path / "node"
    hpcx_tarball.node(root)
    (tmp_path / "mirror").mkdir()

    def call(check=False, **arguments):
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        return run_module("hpcx", arguments, root, check, environment=environment)

    handler = functools.partial(Handler, directory=str(tmp_path / "mirror"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        call.root, call.mirror = root, tmp_path / "mirror"
        call.url = "http://127.0.0.1:{0}/".format(server.server_port)
        yield call
        server.shutdown()


def wanted(run, version="2.24.1"):
    sha256 = hpcx_tarball.build(run.mirror / (version + ".tbz"), version)
    return {"source": "{0}{1}.tbz?sig=secret".format(run.url, version), "sha256": sha256, "version": version}


def paths(root):
    return {path for path in hpcx_tarball.tree(root, ".") if not path.startswith("run")}


def test_check_real_check_real_and_absent_leaves_what_it_found(run):
    before, options = paths(run.root), wanted(run)
    planned = run(check=True, **options)
    assert planned["changed"] and paths(run.root) == before
    made = run(**options)
    assert made["changed"] and made["actions"] == planned["actions"] and made["diff"] == planned["diff"]
    assert "secret" not in json.dumps(dict(made, invocation=None))
    assert (made["home"], made["current"], made["adopted"]) == ("/opt/hpcx/2.24.1", "/opt/hpcx/current", False)
    assert planned["home"] == made["home"] and made["installed"][0]["sha256"] == options["sha256"]
    assert "/opt/hpcx/current -> 2.24.1\n" in made["diff"]["after"]
    assert not run(check=True, **options)["changed"] and not run(**options)["changed"]
    assert not run()["changed"]  # without a source, jobs keep what they have
    assert run(check=True, state="absent")["changed"]
    assert run(state="absent")["changed"] and not run(state="absent")["changed"]
    assert paths(run.root) == before


def test_a_mirror_without_the_file_leaves_the_old_version(run):
    run(**wanted(run, "2.23"))
    gone = dict(wanted(run), source=run.url + "gone.tbz")
    result = run(**gone)
    assert result["failed"] and "gone.tbz: the server answered 404" in result["msg"]
    assert os.readlink(str(run.root / "opt/hpcx/current")) == "2.23"
    assert sorted(os.listdir(str(run.root / "opt/hpcx"))) == ["2.23", "current"]


def test_by_default_it_is_harmless(run):
    before = paths(run.root)
    result = run()
    assert not result["changed"] and "no HPC-X" in result["skipped_reason"] and result["home"] is None
    assert paths(run.root) == before


def test_one_of_the_image(run):
    hpcx_tarball.image_tree(run.root, "/opt/hpcx-v2.25.1-gcc-doca_ofed-ubuntu24.04-cuda13-x86_64", "2.25.1")
    result = run()
    assert result["changed"] and result["adopted"] and result["version"] == "2.25.1"
    assert result["found"] == [{"path": result["home"], "version": "2.25.1"}] and result["installed"] == []


@pytest.mark.parametrize(
    "options, told",
    [
        ({"source": "/x.tbz"}, "it is nothing without option sha256"),
        ({"source": "x.tbz", "sha256": "0" * 64, "version": "2"}, "no URL and no path"),
        ({"source": "/x.tbz", "sha256": "0", "version": "2"}, "64 hexadecimal digits"),
        ({"version": "2.24.1"}, "neither in the image nor installed"),
        ({"ucx": {"TLS": "rc"}}, "no setting of UCX"),
        ({"state": "gone"}, "value of state must be one of"),
    ],
)
def test_a_wrong_option_is_one_sentence(run, options, told):
    before = paths(run.root)
    result = run(**options)
    assert result["failed"] and told in result["msg"]
    assert paths(run.root) == before


def test_everything_that_is_returned_is_documented(run):
    documented = yaml.safe_load(module.RETURN)
    returned = set(run()) - {"changed", "diff", "invocation", "failed", "warnings", "deprecations"}
    assert returned == set(documented)
