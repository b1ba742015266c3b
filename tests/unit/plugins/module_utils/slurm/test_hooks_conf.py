# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the hooks of this collection raise the clocks for the jobs of a node."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.hooks_conf import Raising, raising

FILES = ["/etc/slurm/epilog.d/50-gpu_node", "/etc/slurm/prolog.d/00-gpu_node", "/etc/slurm/prolog.d/zz-gpu_node"]
SECTION = {"clocks": True, "files": FILES}
HERE = "Prolog=/etc/slurm/prolog.d/*\n"


def node(folder, slurm_conf=HERE, path="/etc/slurm/slurm.conf", slurmd=True):
    host = Host(str(folder))
    if slurm_conf is not None:
        host.write(path, slurm_conf)
    if slurmd:
        host.write("/usr/sbin/slurmd", "", mode=0o755)
    return host


@pytest.mark.parametrize(
    "section, slurm_conf, seen",
    [
        (SECTION, HERE, Raising(True, True)),
        (SECTION, "Prolog=/etc/slurm/other/*\n", Raising(True, False)),
        (SECTION, "Epilog=/etc/slurm/prolog.d/*\n", Raising(True, False)),
        (SECTION, None, Raising(True, False)),
        (dict(SECTION, files=["/opt/hooks/00-gpu_node"]), "Prolog=/opt/hooks/*\n", Raising(True, True)),
        (dict(SECTION, files=["/opt/hooks/00-gpu_node"]), HERE, Raising(True, False)),
        (dict(SECTION, files="/etc"), HERE, Raising(True, False)),
        ({"clocks": True}, HERE, Raising(True, False)),
        (dict(SECTION, clocks=False), HERE, Raising(False, False)),
        # Nothing is declared yet: the place where the hooks would be.
        (None, HERE, Raising(None, True)),
        (None, "", Raising(None, False)),
    ],
)
def test_declared_hooks_count_where_slurm_reaches_them(tmp_path, section, slurm_conf, seen):
    assert raising(node(tmp_path, slurm_conf), section) == seen
    assert seen.clocks == (seen == Raising(True, True))


def test_a_node_without_slurmd_has_no_hooks(tmp_path):
    assert raising(node(tmp_path, slurmd=False), SECTION) == Raising(True, False)


def test_slurm_conf_is_where_it_was_declared_to_be(tmp_path):
    host = node(tmp_path, path="/opt/site/slurm.conf")
    assert not raising(host, SECTION).clocks
    assert raising(host, dict(SECTION, slurm_conf="/opt/site/slurm.conf")).clocks
