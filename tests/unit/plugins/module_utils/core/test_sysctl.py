# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel settings: limits are minima, and which file sets a value at boot."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import sysctl
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host

OURS = "/etc/sysctl.d/90-ours.conf"
THRESH = "net.ipv4.neigh.default.gc_thresh3"


@pytest.mark.parametrize(
    "name, found, wanted, expected",
    [
        (THRESH, "65536", "16384", True),
        (THRESH, "16384", "16384", True),
        (THRESH, "1024", "16384", False),
        (THRESH, None, "16384", False),
        ("net.ipv6.neigh.ib0.gc_thresh1", "9000", "4096", True),
        ("sunrpc.tcp_max_slot_table_entries", "65536", "128", True),
        ("net.core.rmem_max", "268435456", "1", True),
        ("net.core.somaxconn", "65535", "4096", True),
        ("vm.max_map_count", "1048576", "65530", True),
        ("kernel.pid_max", "4194304", "32768", True),
        ("user.max_user_namespaces", "100000", "65536", True),
        ("net.ipv4.tcp_rmem", "4096\t131072\t16777216", "4096 87380 16777216", True),
        ("net.ipv4.tcp_rmem", "4096 131072 6291456", "4096 87380 16777216", False),
        # Modes and weights have no order.
        ("vm.zone_reclaim_mode", "3", "1", False),
        ("vm.swappiness", "60", "1", False),
        ("net.ipv4.conf.all.rp_filter", "2", "1", False),
        ("kernel.core_pattern", "|/x", "core", False),
    ],
)
def test_more_of_a_limit_is_enough(name, found, wanted, expected):
    assert sysctl.enough(name, found, wanted) is expected


def test_no_number_of_a_limit_becomes_smaller():
    assert sysctl.raised("net.ipv4.tcp_rmem", "8192 131072 6291456", "4096 87380 16777216") == "8192 131072 16777216"
    assert sysctl.raised(THRESH, "1024", "16384") == "16384"
    assert sysctl.raised("kernel.printk", "7 4 1 7", "3 4 1 3") == "3 4 1 3"


@pytest.mark.parametrize(
    "files, value, path, later",
    [
        ({}, None, None, False),
        ({"/etc/sysctl.d/99-site.conf": THRESH + " = 5\n"}, "5", "/etc/sysctl.d/99-site.conf", True),
        ({"/etc/sysctl.d/10-site.conf": "-" + THRESH + "=5\n"}, "5", "/etc/sysctl.d/10-site.conf", False),
        ({"/etc/sysctl.conf": THRESH + " = 5\n"}, "5", "/etc/sysctl.conf", True),
        ({"/run/sysctl.d/95-x.conf": "net/ipv4/neigh/default/gc_thresh3 = 5\n"}, "5", "/run/sysctl.d/95-x.conf", True),
        (
            {"/usr/lib/sysctl.d/99-x.conf": "net.ipv4.neigh.*.gc_thresh3 = 5\n"},
            "5",
            "/usr/lib/sysctl.d/99-x.conf",
            True,
        ),
        # A file of the same name in /etc takes the place of the distribution's.
        (
            {"/usr/lib/sysctl.d/99-x.conf": THRESH + "=5\n", "/etc/sysctl.d/99-x.conf": "# nothing\n"},
            None,
            None,
            False,
        ),
        ({"/etc/sysctl.d/99-x.conf": "#" + THRESH + " = 5\n; " + THRESH + " = 6\n"}, None, None, False),
        ({"/etc/sysctl.d/99-x.conf.rpmsave": THRESH + " = 5\n"}, None, None, False),
    ],
)
def test_the_file_that_sets_a_value_at_boot(tmp_path, files, value, path, later):
    for name, text in {OURS: THRESH + " = 16384\n", **files}.items():
        file = tmp_path / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    line, after = sysctl.winner(sysctl.lines(Host(str(tmp_path))), THRESH, OURS)
    assert (line and line.value, line and line.path, after) == (value, path, later)
