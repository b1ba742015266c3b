# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clock of a look: it stands still while nobody looks, and every child sees the same one."""

from __future__ import annotations

import os
import signal
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.sharing.look import Clock


def test_a_gap_before_a_start_does_not_count():
    clock = Clock(60)
    clock.start()
    time.sleep(0.1)
    seen = clock.lasted()
    time.sleep(0.5)
    clock.start()
    assert 0.1 <= seen <= clock.lasted() < seen + 0.4


def test_a_child_goes_on_where_the_last_one_was():
    clock = Clock(60)
    for _child in range(2):
        pid = os.fork()
        if pid == 0:
            clock.start()
            time.sleep(0.2)
            clock.lasted()
            os._exit(0)
        os.waitpid(pid, 0)
    clock.start()
    assert 0.4 <= clock.lasted() < 2


def test_a_wait_ends_at_its_time_and_at_the_end_of_the_look():
    clock = Clock(60)
    clock.start()
    assert clock.wait(0.3, time.sleep) and clock.lasted() >= 0.3
    with clock.ended_by_interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        assert clock.wait(100, time.sleep) is False
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
    with pytest.raises(KeyboardInterrupt):  # as before
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
