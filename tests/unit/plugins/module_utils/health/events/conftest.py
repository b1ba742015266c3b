# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the tests of a cloud's events."""

from __future__ import annotations

import socket

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.events.azure_stand_in import Azure


@pytest.fixture(autouse=True)
def nobody_asks_azure(monkeypatch):
    """No test reaches further than this machine, whatever is wrong in it."""
    connect = socket.create_connection

    def only_here(place, *given, **named):
        assert place[0] == "127.0.0.1", "a test asked {0}".format(place)
        return connect(place, *given, **named)

    monkeypatch.setattr(socket, "create_connection", only_here)


@pytest.fixture
def azure():
    made = Azure()
    yield made
    made.stop()
