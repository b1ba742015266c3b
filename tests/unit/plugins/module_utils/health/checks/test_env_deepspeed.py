# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node has to have itself for the DeepSpeed environments that were declared for it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import env_deepspeed
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.limits import LIMITS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Outcome, Threshold

DEEPSPEED = {"name": "ds", "preset": "deepspeed"}
GIB = 2**30


def judged(limits=None, **seen):
    given = dict({"names": ("ds",), "gpus": 8, "memory_bytes": 8 * GIB, "library": True}, **seen)
    expected = SimpleNamespace(thresholds=LIMITS if limits is None else limits)
    return env_deepspeed.judge(env_deepspeed.Seen(**given), expected)


@pytest.mark.parametrize(
    "section",
    [
        None,
        {},
        {"environments": None},
        {"environments": "deepspeed"},
        {"environments": [{"name": "ds", "packages": ["deepspeed"]}, {"preset": "pytorch"}, "deepspeed", None]},
    ],
)
def test_a_node_without_such_an_environment_reads_nothing(section):
    evidence = Evidence(None, {} if section is None else {"python_env": section}, {})
    seen = env_deepspeed.look(evidence)
    assert env_deepspeed.judge(seen, None).not_applicable == "no DeepSpeed environment was declared"


@pytest.mark.parametrize("cache, found", [("libaio.so.1\0", True), ("libaio.so.1t64\0", True), ("libm\0", False)])
def test_it_looks_at_the_memory_and_the_cache_of_the_loader(tmp_path, cache, found):
    (tmp_path / "dev/shm").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    evidence = Evidence(Host(str(tmp_path)), {"python_env": {"environments": [DEEPSPEED, {"name": "x"}]}}, {})
    seen = env_deepspeed.look(evidence)
    assert (seen.names, seen.gpus, seen.library) == (("ds",), 0, None) and seen.memory_bytes > 0
    assert env_deepspeed.judge(seen, SimpleNamespace(thresholds=LIMITS)).findings == ()
    (tmp_path / "etc/ld.so.cache").write_bytes(b"glibc-ld.so.cache1.1\xff\0" + cache.encode())
    assert env_deepspeed.look(evidence).library is found


def test_no_shared_memory_is_no_pass(tmp_path):
    with pytest.raises(NodeError, match="/dev/shm: it does not answer"):
        env_deepspeed.look(Evidence(Host(str(tmp_path)), {"python_env": {"environments": [DEEPSPEED]}}, {}))


def test_a_node_that_has_all_of_it_passes():
    judgement = judged()
    assert judgement.findings == () and judgement.seen == "ds; 8 GiB in /dev/shm"
    assert [(one.name, one.value) for one in judgement.measured] == [("shared_memory_bytes_per_gpu", GIB)]


def test_little_shared_memory_warns_and_fails_where_a_site_says_so():
    (finding,) = judged(memory_bytes=8 * GIB - 1, gpus=8).findings
    assert (finding.outcome, finding.code, finding.thing) == (Outcome.WARN, "shared_memory", "/dev/shm")
    assert finding.reason == "it has 8.0 GiB for 8 GPUs (limit 1 GiB a GPU)"
    own = {"shared_memory_bytes_per_gpu": Threshold("higher", None, 2 * GIB, "site")}
    (finding,) = judged(own).findings
    assert finding.outcome is Outcome.FAIL and "limit 2 GiB" in finding.reason
    assert judged({}, memory_bytes=0).findings == judged(memory_bytes=0, gpus=0).findings == ()


def test_a_library_that_is_not_there_is_told_with_who_wants_it():
    (finding,) = judged(names=("ds", "llm"), library=False).findings
    assert (finding.outcome, finding.code) == (Outcome.WARN, "library")
    assert "the op async_io of ds, llm cannot be loaded" in finding.reason and "libaio1" in finding.remedy
