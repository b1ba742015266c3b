# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asking the cloud: a real service on the loopback interface, as documented, slow, gone, and wrong."""

from __future__ import annotations

import json
import re

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events import ask
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.events.azure_stand_in import (
    ID,
    NAME,
    NOW,
    OTHER_ID,
    elapsed,
    event,
    http,
    unused_place,
)


def test_azure_is_asked_at_its_one_address_and_nowhere_else():
    assert ask.AZURE == ("169.254.169.254", 80)
    assert ask.CONNECT_SECONDS <= 0.5 and ask.ANSWER_SECONDS < 1.0


def test_a_document_is_read_whole(azure):
    azure.set(event("Redeploy", DurationInSeconds=9), event("Freeze", "Started", name=OTHER_ID))
    answer = ask.azure(azure.place)
    first, second = answer.events
    assert (first.id, first.type, first.word, first.started) == (ID, "redeploy", "Redeploy", False)
    assert (first.not_before, first.resources, first.duration_seconds) == (NOW + 900, (NAME,), 9)
    assert (first.description, first.source) == ("Host server is undergoing maintenance.", "Platform")
    # The time of one that has started is blank, and -1 is no duration.
    assert (second.started, second.not_before, second.duration_seconds) == (True, None, None)
    assert answer.whole and answer.incarnation == 2 and answer.notes == ()
    (request,) = azure.requests
    assert request.startswith("GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n")
    assert "\r\nMetadata: true\r\n" in request + "\r\n"


def test_no_event_is_an_answer_too(azure):
    assert ask.azure(azure.place).events == () and ask.azure(azure.place).whole


def test_proxies_are_not_asked(azure, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    azure.set(event("Reboot"))
    assert [one.id for one in ask.azure(azure.place).events] == [ID]


def test_an_approval_names_the_event(azure):
    azure.set(event("Reboot"))
    ask.approve([ID], azure.place)
    assert azure.approved == [ID] and azure.requests[-1].startswith("POST ")
    with pytest.raises(NodeError, match="answered with status 400"):
        ask.approve([OTHER_ID], azure.place)


def test_the_name_of_the_machine(azure):
    assert ask.machine_name(azure.place) == NAME
    for raw in (
        http(b"{}"),
        http(b"[]"),
        http(b"x"),
        http(b"", "404 Not Found"),
        http(b'{"name": "a b\\n"}'),
        b"SSH-2.0\r\n",
    ):
        azure.raw = raw
        assert ask.machine_name(azure.place) is None
    assert ask.machine_name(unused_place()) is None


@pytest.mark.parametrize(
    "raw, words",
    [
        (http(b"<html>"), "not JSON"),
        (http(b"\xff\xfe"), "not JSON"),
        (http(b"[" * 100000), "not JSON"),
        (http(b"[]"), "without a list of events"),
        (http(b'{"Events": {}}'), "without a list of events"),
        (http(b'{"DocumentIncarnation": 1}'), "without a list of events"),
        (http(b"", "410 Gone"), "status 410"),
        (http(b"", "500 Internal Server Error"), "status 500"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "status 302"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "did not answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{", "did not answer"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 300000, "more than 256 KiB"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000, "did not answer"),
    ],
)
def test_an_odd_answer_is_an_error_and_no_empty_list(azure, raw, words):
    azure.raw = raw
    with pytest.raises(NodeError, match=re.escape(words)):
        ask.azure(azure.place)
    assert len(azure.requests) == 1


def test_a_closed_port_costs_nothing():
    def asked():
        with pytest.raises(NodeError, match="did not answer"):
            ask.azure(place)

    place = unused_place()
    assert elapsed(asked) < 0.5


@pytest.mark.parametrize("pause, pieces", [(5.0, 1), (0.2, 40)])
def test_silence_and_dribbling_end_within_a_second(azure, pause, pieces):
    def asked():
        with pytest.raises(NodeError, match="no answer in time"):
            ask.azure(azure.place)

    azure.pause, azure.pieces = pause, pieces
    assert elapsed(asked) < 1.0


def test_who_waits_gets_a_slow_answer(azure):
    azure.set(event("Reboot"))
    azure.pause = 1.2
    assert [one.id for one in ask.azure(azure.place, ask.FIRST_SECONDS).events] == [ID]


def test_a_service_that_leaves_the_connection_open_is_not_waited_for(azure):
    azure.stays_open = True
    assert elapsed(lambda: ask.azure(azure.place)) < 0.5


# A program of the site ----------------------------------------------------------------------------------


def program(folder, text):
    path = folder / "events"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return [str(path), "--json"]


def test_a_program_prints_events(tmp_path):
    told = [{"id": "m-17", "type": "reboot", "not_before": "2027-01-15T08:00:00Z", "description": "firmware"}]
    argv = program(tmp_path, "[ \"$1\" = --json ] && cat <<'X'\n{0}\nX\n".format(json.dumps({"events": told})))
    (one,) = ask.program(Host(), argv).events
    assert (one.id, one.type, one.not_before, one.started, one.resources) == ("m-17", "reboot", NOW, False, ())


@pytest.mark.parametrize(
    "text, words",
    [
        ("exit 3", "status 3"),
        ("echo no", "not JSON"),
        ("echo '{}'", "no list of events"),
        ("yes '[' | head -c 400000", "400000 bytes"),
    ],
)
def test_a_program_that_fails_is_an_error(tmp_path, text, words):
    with pytest.raises(NodeError, match=words):
        ask.program(Host(), program(tmp_path, text))


def test_a_program_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(NodeError, match="not installed"):
        ask.program(Host(), [str(tmp_path / "none")])
