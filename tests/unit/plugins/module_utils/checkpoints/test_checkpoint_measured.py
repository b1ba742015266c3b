# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of a copy, in a folder where every user may write."""

from __future__ import annotations

import argparse
import json
import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.checkpoints import measured
from ansible_collections.trainyard.gpu_node.plugins.module_utils.checkpoints.put import Done
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import checkpoint
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError

DONE = Done(3, 1024, 2.0)
HOST = Host("/")


def test_a_link_in_that_folder_is_replaced_and_not_followed(tmp_path):
    victim = tmp_path / "authorized_keys"
    victim.write_text("key\n")
    path = tmp_path / "gpu_node_checkpoint.prom"
    path.symlink_to(victim)
    measured.write(HOST, str(path), "put", DONE, 5.0)
    assert victim.read_text() == "key\n" and not path.is_symlink()
    assert "gpu_node_checkpoint_bytes" in path.read_text() and path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(str(tmp_path)) != [] and not [one for one in os.listdir(str(tmp_path)) if one.startswith(".")]


def test_a_pipe_in_that_place_is_not_waited_for(tmp_path):
    path = tmp_path / "gpu_node_checkpoint.prom"
    os.mkfifo(str(path))
    measured.write(HOST, str(path), "put", DONE, 5.0)
    assert path.is_file()


def test_the_last_success_outlives_a_failure_and_the_other_way(tmp_path):
    path = str(tmp_path / "m.prom")
    measured.write(HOST, path, "put", DONE, 5.0)
    measured.write(HOST, path, "get", DONE, 6.0)
    measured.write(HOST, path, "put", None, 7.0)
    text = (tmp_path / "m.prom").read_text()
    for one in ('success_timestamp_seconds{way="put"} 5', 'seconds{way="get"} 6', 'failed{way="put"} 1'):
        assert one in text


@pytest.mark.parametrize("asked", [False, True])
def test_figures_fail_a_copy_only_where_they_were_asked_for(tmp_path, asked, capsys, monkeypatch):
    monkeypatch.setattr(checkpoint.signal, "signal", lambda number, act: None)
    (tmp_path / "etc/gpu_node").mkdir(parents=True)
    (tmp_path / "metrics/gpu_node_checkpoint.prom").mkdir(parents=True)
    section = {"checkpoint": {"metrics_folder": "/metrics"}}
    (tmp_path / "etc/gpu_node/node.json").write_text(json.dumps(section))
    given = argparse.Namespace(metrics="/metrics/gpu_node_checkpoint.prom" if asked else None, json=False)

    def run():
        return checkpoint._run(Host(str(tmp_path)), given, "put", lambda: DONE, "checkpoint x")

    if asked:
        with pytest.raises(NodeError, match="cannot be written"):
            run()
    else:
        assert run() == 0 and "cannot be written" in capsys.readouterr().err
