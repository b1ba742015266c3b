# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write bandwidth of each InfiniBand port in loopback (perftest), from host memory and from the GPU nearest to it.

Server and client run on this node with the same port, bound to its NUMA node, so neither a switch nor another node has
a part in the figure.
"""

from __future__ import annotations

import functools
import re
import socket
import time
from typing import Dict, List, Optional, Sequence, Tuple

from ...core.host import Host
from ...core.resource import NodeError
from ...facts.topology.types import Infiniband, Topology
from ..evidence import Evidence
from ..parse import ParseError, perftest
from ..types import Check, Cost, Expected, Finding, Judgement, Machine, Outcome, Remedy, Span
from . import apart, survey, tools
from .readings import Figure, Reading, Readings, judge, of_silent, unmeasured

WRITE, GDR = "infiniband_write_gigabits_per_second", "infiniband_gdr_write_gigabits_per_second"
_REMEDY = "look at the PCIe link and the error counters of the port, and at relaxed ordering; then reboot"
FIGURES: Dict[str, Figure] = {
    WRITE: Figure("write from host memory", "Gb/s", _REMEDY, Remedy.REBOOT),
    GDR: Figure("write from GPU memory", "Gb/s", _REMEDY, Remedy.REBOOT),
}
_DURATION_SECONDS, _RUN_SECONDS, _LISTEN_SECONDS = 4, 30.0, 10.0
# Our own range: perftest begins at 18515, and Azure's health checks use 18510 to 18517.
_FIRST_PORT, _PORTS = 18600, 100
_LISTENING = "0A"  # include/net/tcp_states.h, TCP_LISTEN


def look(evidence: Evidence) -> Readings:
    found = survey.gpus(evidence) or survey.Found(())
    ports = [
        (device, port.number)
        for device in evidence.topology.infiniband
        for port in device.ports
        if port.link_layer == "InfiniBand" and not device.placement.virtual_function
    ]
    if not ports:
        return Readings(not_applicable="this node has no InfiniBand port")
    program = tools.need(evidence.host, evidence.settings, "ib_write_bw")
    with_cuda = has_cuda(apart.run([program, "--help"], 10.0, apart.environment()))
    readings: List[Reading] = []
    for device, number in ports:
        gpu = nearest(device, found.gpus) if with_cuda else None
        readings.append(_port(evidence, program, device, number, gpu))
    means = "loopback" + ("" if with_cuda else "; this ib_write_bw is built without CUDA")
    return Readings(means, tuple(readings) + (of_silent(found) if with_cuda else ()))


def has_cuda(ended: apart.Ended) -> bool:
    return "--use_cuda" in ended.stdout + ended.stderr


def nearest(device: Infiniband, gpus: Sequence[survey.Gpu]) -> Optional[survey.Gpu]:
    """The GPU that this port is paired with, or another that is as near; none where none is near."""
    near = device.nearest_gpu
    if near is None:
        return None
    names = (near.name, *near.equally_near)
    return next((gpu for name in names for gpu in gpus if gpu.pci_address == name), None)


def _port(evidence: Evidence, program: str, device: Infiniband, number: int, gpu: Optional[survey.Gpu]) -> Reading:
    thing, key = "InfiniBand {0} port {1}".format(device.name, number), "{0}/{1}".format(device.name, number)
    port = next((one for one in device.ports if one.number == number), None)
    if port is None or port.state != "ACTIVE":
        state = "no state" if port is None else port.state
        return Reading(thing, key, reason="it is not active ({0})".format(state), remedy="look at its cable and switch")
    node, cpus = device.placement.numa_node, _cpus(evidence.topology, device.placement.numa_node)
    figures: List[Tuple[str, float]] = []
    for name, chosen in ((WRITE, None), (GDR, gpu)):
        if name == GDR and chosen is None:
            continue
        task = functools.partial(
            _loopback, evidence.host, program, device.name, number, None if chosen is None else chosen.uuid
        )
        try:
            figures.append((name, apart.measure(thing, 2 * _RUN_SECONDS, task, node, cpus)))
        except NodeError as error:
            failed = unmeasured(thing, key, error)
            return Reading(thing, key, tuple(figures), failed.reason, failed.remedy, failed.fault, code=failed.code)
    return Reading(thing, key, tuple(figures))


def _cpus(topology: Topology, node: Optional[int]) -> Tuple[int, ...]:
    several = len(topology.numa_nodes) > 1
    return next((one.cpus for one in topology.numa_nodes if several and one.id == node), ())


def _loopback(host: Host, program: str, device: str, number: int, gpu: Optional[str]) -> float:
    """In a child that is bound to the node of the port. Gb/s, on the average of some seconds."""
    tcp = _free_port()
    argv = [program, "-d", device, "-i", str(number), "-p", str(tcp), "-s", str(8 * 2**20), "-q", "2"]
    argv += ["-D", str(_DURATION_SECONDS), "-F", "--report_gbits"]
    if gpu is not None:
        argv.append("--use_cuda=0")
    environment = apart.environment([gpu] if gpu is not None else ())
    with apart.started(argv, environment) as server:
        deadline = time.monotonic() + _LISTEN_SECONDS
        while not listens(host, tcp):
            if server.poll() is not None or time.monotonic() > deadline:
                said = server.communicate()[1] if server.poll() is not None else b"it does not listen"
                text = said.decode("utf-8", "replace").strip() or "it ended at once"
                raise ParseError(perftest.TOOL, "its server failed ({0})".format(" ".join(text.split())[:200]))
            time.sleep(0.05)
        client = apart.run([*argv, "127.0.0.1"], _RUN_SECONDS, environment)
    try:
        return perftest.parse(client.stdout)[-1].average_gigabits_per_second
    except ParseError as error:
        raise error.beside(client.words) from None


def _free_port() -> int:
    for port in range(_FIRST_PORT, _FIRST_PORT + _PORTS):
        with socket.socket(socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET) as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    reason = "all TCP ports from {0} to {1} are taken".format(_FIRST_PORT, _FIRST_PORT + _PORTS - 1)
    raise NodeError("this node", reason, "find who holds them with ss -ltnp")


def listens(host: Host, port: int) -> bool:
    """Told by the kernel: to connect would be taken for the client."""
    wanted = re.compile(r":{0:04X} [0-9A-F:]+ {1} ".format(port, _LISTENING))
    return any(wanted.search(host.read("/proc/net/" + name) or "") for name in ("tcp", "tcp6"))


def judge_ports(seen: Readings, expected: Expected) -> Judgement:
    """Pure. Where the profile has a limit for GPU memory, not to have measured it is worth a word."""
    judgement = judge(seen, expected, FIGURES)
    measured = {name for reading in seen.readings for name, dummy in reading.figures}
    missing = GDR in expected.thresholds and GDR not in measured and WRITE in measured
    if seen.not_applicable is not None or not missing:
        return judgement
    finding = Finding(
        Outcome.UNKNOWN,
        "InfiniBand from GPU memory",
        "it was not measured ({0})".format(seen.means or "no GPU is near to a port"),
        "build perftest with CUDA=1, and name it in setting tools of section health",
        Remedy.CONFIGURE,
        code="no_gdr",
    )
    return Judgement(judgement.seen, (*judgement.findings, finding), judgement.measured)


def span(machine: Machine) -> Optional[Span]:
    """Each port from host memory, and from GPU memory if there is a GPU."""
    runs = machine.ports * (2 if machine.gpus else 1)
    seconds = 1.0 + runs * (_DURATION_SECONDS + 1.5)  # of ib_write_bw: start of the server and the client
    return Span(seconds, seconds) if runs and "ib_write_bw" in machine.tools else None


CHECK = Check(
    id="ib_bandwidth",
    title="InfiniBand ports write at full rate",
    cost=Cost.ACTIVE,
    judge=judge_ports,
    look=look,
    lane="active",
    seconds=1200.0,
    span=span,
)
