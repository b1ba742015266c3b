# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Visit every GPU of a machine: open NVML in a child process, run a visitor on each GPU, survive bad ones.

:func:`survey` is the one door to NVML, for reading and for setting alike. A GPU that is lost, or whose call
hangs or crashes the library, gets a :class:`Fault`; the others are visited all the same, by a new child where the
old one had to be killed. Machines without GPU, driver or library are answers (:class:`Status`), not errors.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Generic, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, TypeVar

from ...core.child import ChildDied, Report, collect
from ...core.frozen import frozen, replaced
from ...core.host import Host
from ...core.resource import NodeError, sentence
from . import binding, pci, values
from .call import ENDS_SESSION, REBOOT, CallError, Gpu, Kind, Nvml, Reading, missing
from .identity import Identity, normalise_pci_address
from .selectors import ALL, matches_any, unmatched
from .status import Status, Verdict, conclude

Part = TypeVar("Part")
Visitor = Callable[[Gpu], Iterable[Part]]

CALL_TIMEOUT_SECONDS = 10.0
# Opening NVML wakes up every GPU whose driver is not persistent: some seconds each.
_INIT_FACTOR = 3.0
# All calls together get this many times the limit of one: an upper bound on a machine where all GPUs hang.
_TOTAL_FACTOR = 6.0


@frozen
class Fault:
    """Why a GPU could not be visited to the end."""

    kind: Kind
    thing: str
    reason: str
    remedy: str
    call: Optional[str] = None

    def __str__(self) -> str:
        return sentence(self.thing, self.reason, self.remedy)

    def error(self) -> NodeError:
        return NodeError(self.thing, self.reason, self.remedy)


@frozen
class Visit(Generic[Part]):
    """One GPU: what the visitor yielded on it, and the fault that ended the visit, if any."""

    identity: Identity
    parts: Tuple[Part, ...]
    fault: Optional[Fault] = None


@frozen
class System:
    """What the machine's driver says about itself."""

    driver_version: Reading[str] = missing("NVML could not be opened", Kind.FAILED)
    cuda_version: Reading[str] = missing("NVML could not be opened", Kind.FAILED)
    nvml_version: Reading[str] = missing("NVML could not be opened", Kind.FAILED)
    binding_version: Reading[str] = missing("NVIDIA's Python binding was not found", Kind.FAILED)


@frozen
class Survey(Generic[Part]):
    """The whole machine. ``visits`` has the selected GPUs in NVML's order, ``gpu_count`` is all of them (None: NVML
    could not be opened); ``pci_gpus`` is what the PCI bus shows.
    """

    status: Status
    message: str
    system: System
    visits: Tuple[Visit[Part], ...] = ()
    pci_gpus: Tuple[pci.PciGpu, ...] = ()
    gpu_count: Optional[int] = None
    error: Optional[NodeError] = None

    @property
    def faults(self) -> Tuple[Fault, ...]:
        return tuple(visit.fault for visit in self.visits if visit.fault is not None)

    def require_driver(self) -> None:
        """Go on only where NVML answers or where there is no GPU.

        :raises NodeError: no library, no driver, wrong driver, a hang in nvmlInit …
        """
        if self.error is not None:
            raise self.error


def survey(
    visitor: Visitor[Part],
    selectors: Sequence[str] = (ALL,),
    call_timeout: float = CALL_TIMEOUT_SECONDS,
    total_timeout: Optional[float] = None,
    host: Optional[Host] = None,
    in_turn: bool = False,
) -> Survey[Part]:
    """Run ``visitor(gpu)`` on each selected GPU, in a child process, and collect what it yields.

    The GPUs are visited one after the other; ``in_turn``: all at once, as each visitor yields one part and waits for
    its next turn. A child that takes the place of one that hung begins its visits anew.

    What a visitor yielded before its GPU failed is kept. A :class:`CallError` or any other error that leaves the
    visitor becomes the fault of that GPU. ``call_timeout`` bounds each NVML call (opening NVML: three times
    that), ``total_timeout`` all of them (six times that by default); both in seconds. What is yielded must be
    picklable: no handles, no ctypes.

    :raises NodeError: when a selector means no GPU of this machine.
    """
    machine = host or Host()
    on_bus = pci.gpus(machine)
    try:
        pynvml = binding.load()
    except NodeError as error:
        return _without_binding(error, on_bus, call_timeout)
    expedition: _Expedition[Part] = _Expedition(pynvml, visitor, tuple(selectors), call_timeout, total_timeout, in_turn)
    expedition.run()
    system = replaced(expedition.system or System(), binding_version=binding.version(pynvml))
    visits = _name_the_lost(expedition.visits(), on_bus)
    verdict = conclude(
        expedition.failure,
        expedition.known_addresses(visits),
        on_bus,
        whole_machine=any(selector.strip() == ALL for selector in selectors),
        faults=tuple(str(visit.fault) for visit in visits if visit.fault is not None),
        gpu_count=expedition.count,
    )
    return Survey(verdict.status, verdict.message, system, visits, on_bus, expedition.count, verdict.error)


class _Expedition(Generic[Part]):
    """The children of one survey, one after another, until every GPU was visited or time is up."""

    def __init__(
        self,
        pynvml: Any,
        visitor: Visitor[Part],
        selectors: Tuple[str, ...],
        call_timeout: float,
        total_timeout: Optional[float],
        in_turn: bool,
    ) -> None:
        self.pynvml = pynvml
        self.visitor = visitor
        self.selectors = selectors
        self.call_timeout = call_timeout
        self.in_turn = in_turn
        total = _TOTAL_FACTOR * call_timeout if total_timeout is None else total_timeout
        self.deadline = time.monotonic() + max(total, _INIT_FACTOR * call_timeout)
        self.system: Optional[System] = None
        self.count: Optional[int] = None
        self.failure: Optional[NodeError] = None
        self.identities: Dict[int, Identity] = {}
        self.parts: Dict[int, List[Part]] = {}
        self.faults: Dict[int, Fault] = {}
        self.done: Set[int] = set()

    def run(self) -> None:
        while True:
            under_way, ended = self._one_child()
            if ended is None:
                return
            if self.count is None:
                self.failure = ended
                return
            if under_way is None:  # NVML does not open any more; what earlier children told is kept
                self._give_up(ended)
                return
            self.faults[under_way] = _fault(ended, self._label(under_way))
            if time.monotonic() >= self.deadline:
                self._give_up(
                    CallError(
                        "NVML",
                        "the time limit of the whole run was used up before this GPU's turn",
                        "look at the GPUs that hung, or raise the limit",
                        Kind.OUT_OF_TIME,
                        "",
                    )
                )
                return

    def visits(self) -> Tuple[Visit[Part], ...]:
        return tuple(
            Visit(identity, tuple(self.parts.get(identity.index, ())), self.faults.get(identity.index))
            for identity in self._every_identity()
            if self._selected(identity)
        )

    def known_addresses(self, visits: Sequence[Visit[Part]]) -> Tuple[Optional[str], ...]:
        """The PCI address of every GPU that NVML counts; None for one that told none."""
        named = {visit.identity.index: visit.identity.pci_address for visit in visits}
        return tuple(named.get(one.index, one.pci_address) for one in self._every_identity())

    def _every_identity(self) -> Tuple[Identity, ...]:
        return tuple(self.identities.get(index, Identity(index)) for index in range(self.count or 0))

    def _selected(self, identity: Identity) -> bool:
        return matches_any(identity, self.selectors)

    def _label(self, index: int) -> str:
        return self.identities.get(index, Identity(index)).label

    def _give_up(self, error: NodeError) -> None:
        for index in range(self.count or 0):
            if index not in self.done and index not in self.faults:
                self.faults[index] = replaced(_fault(error, self._label(index)), thing=self._label(index))

    def _one_child(self) -> Tuple[Optional[int], Optional[NodeError]]:
        """Run one child and note what it tells. Returns the GPU and the error at which it ended, or (…, None)."""
        hung_at: Optional[str] = None
        died: Optional[ChildDied] = None
        items: Tuple[Any, ...]
        try:
            collected = collect(self._task, self.call_timeout)
            items, hung_at = collected.items, collected.hung_at
        except ChildDied as error:
            items, died = error.items, error
        under_way: Optional[int] = None
        failure: Optional[NodeError] = None
        for kind, index, payload in items:
            if kind == "system":
                self.system = payload
            elif kind == "count":
                self.count = payload
            elif kind == "failure":
                failure = payload
            elif kind == "begin":
                under_way = index
            elif kind == "identity":
                self.identities[index] = payload
            elif kind == "part":
                self.parts.setdefault(index, []).append(payload)
            elif kind == "fault":
                self.faults[index] = payload
            elif kind == "done":
                self.done.add(index)
        if failure is not None:
            return None, failure
        if died is not None:
            return under_way, died
        if hung_at is not None:
            return under_way, _hang(hung_at, self.call_timeout)
        return under_way, None

    # In the child --------------------------------------------------------------------------------------

    def _task(self, report: Report) -> Iterator[Tuple[str, int, Any]]:
        nvml = Nvml(self.pynvml, report, self.deadline)
        try:
            nvml.call_limited(_INIT_FACTOR * self.call_timeout, "NVML", "nvmlInit")
            if self.system is None:
                yield "system", 0, _system(nvml)
            count = int(nvml.call("NVML", "nvmlDeviceGetCount"))
        except CallError as error:
            yield "failure", 0, error
            return
        yield "count", 0, count
        opened: List[Gpu] = []
        for index in range(count):
            if index in self.faults:
                continue
            yield "begin", index, None
            try:
                gpu = _open(nvml, index)
            except CallError as error:
                if error.kind in ENDS_SESSION:
                    yield "failure", 0, error
                    return
                yield "fault", index, _fault(error, Identity(index).label)
                continue
            yield "identity", index, gpu.identity
            opened.append(gpu)
        self._check_selectors(count, opened)
        visits = [
            (gpu.identity.index, self._visit(gpu, opened))
            for gpu in opened
            if gpu.identity.index not in self.done and self._selected(gpu.identity)
        ]
        while visits:
            for one in visits[:]:
                index, visit = one
                yield "begin", index, None
                for told in visit:
                    yield told
                    if told[0] == "failure":
                        return
                    if self.in_turn and told[0] == "part":
                        break
                else:
                    visits.remove(one)

    def _visit(self, gpu: Gpu, opened: Sequence[Gpu]) -> Iterator[Tuple[str, int, Any]]:
        """What there is to tell of one GPU, to the end of its visit."""
        index = gpu.identity.index
        gpu.peers = tuple(peer for peer in opened if peer is not gpu)
        try:
            for part in self.visitor(gpu):
                yield "part", index, part
        except CallError as error:
            if error.kind in ENDS_SESSION:
                yield "failure", 0, error
                return
            yield "fault", index, _fault(error, gpu.name)
        except NodeError as error:
            yield "fault", index, _fault(error, gpu.name)
        except Exception as error:  # a bug of the visitor must not hide the other GPUs
            text = "the visit failed ({0}: {1})".format(type(error).__name__, error)
            yield "fault", index, Fault(Kind.FAILED, gpu.name, text, "report this as a bug")
        yield "done", index, None

    def _check_selectors(self, count: int, opened: Sequence[Gpu]) -> None:
        """Refuse a selector that means no GPU."""
        identities = {index: self.identities.get(index, Identity(index)) for index in range(count)}
        identities.update((gpu.identity.index, gpu.identity) for gpu in opened)
        for error in unmatched(tuple(identities.values()), self.selectors):
            raise error


def _open(nvml: Nvml, index: int) -> Gpu:
    """The handle and the names of one GPU."""
    thing = Identity(index).label
    handle = nvml.call(thing, "nvmlDeviceGetHandleByIndex", index)

    nameless: Dict[str, Reading[Any]] = {}

    def ask(field: str, convert: Callable[[Any], Any], function: str) -> Any:
        reading = nvml.read(thing, function, handle).map(convert)
        if reading.reason is not None:
            nameless[field] = reading
        return reading.value

    address = ask("pci_address", lambda info: _address(info.busId), "nvmlDeviceGetPciInfo")
    # Named as soon as possible, so that a later fault tells where the GPU sits.
    thing = Identity(index, pci_address=address).label
    identity = Identity(
        index=index,
        uuid=ask("uuid", values.text, "nvmlDeviceGetUUID"),
        pci_address=address,
        serial=ask("serial", values.text, "nvmlDeviceGetSerial"),
        minor_number=ask("minor_number", values.whole, "nvmlDeviceGetMinorNumber"),
        name=ask("name", values.text, "nvmlDeviceGetName"),
    )
    return Gpu(nvml, handle, identity, nameless)


def _address(bus_id: Any) -> str:
    address = normalise_pci_address(values.text(bus_id))
    if address is None:
        raise ValueError("no PCI address")
    return address


def _system(nvml: Nvml) -> System:
    return System(
        driver_version=nvml.read("NVML", "nvmlSystemGetDriverVersion").map(values.text),
        # 12040 is CUDA 12.4.
        cuda_version=nvml.read("NVML", "nvmlSystemGetCudaDriverVersion_v2").map(
            lambda number: "{0}.{1}".format(int(number) // 1000, int(number) % 1000 // 10)
        ),
        nvml_version=nvml.read("NVML", "nvmlSystemGetNVMLVersion").map(values.text),
    )


def _hang(call: str, limit: float) -> CallError:
    name, dummy, thing = call.partition(" of ")
    if name == "nvmlInit":
        limit *= _INIT_FACTOR
    return CallError(
        thing or "NVML",
        "the call {0} did not return within {1:g} s".format(name, limit),
        REBOOT,
        Kind.HUNG,
        name,
    )


def _fault(error: NodeError, label: str) -> Fault:
    if isinstance(error, CallError):
        thing = label if error.thing == "NVML" else error.thing
        return Fault(error.kind, thing, error.reason, error.remedy, error.call or None)
    if isinstance(error, ChildDied):
        return Fault(Kind.FAILED, label, error.reason, error.remedy, error.thing.partition(" of ")[0])
    return Fault(Kind.FAILED, error.thing, error.reason, error.remedy)


def _name_the_lost(visits: Tuple[Visit[Part], ...], on_bus: Sequence[pci.PciGpu]) -> Tuple[Visit[Part], ...]:
    """Give a lost GPU its PCI address where only one address of the bus is left for it."""
    nameless = [visit for visit in visits if visit.identity.pci_address is None]
    left = {gpu.pci_address for gpu in on_bus if not gpu.given_away} - {visit.identity.pci_address for visit in visits}
    if len(nameless) != 1 or len(left) != 1:
        return visits
    identity = replaced(nameless[0].identity, pci_address=left.pop())
    fault = nameless[0].fault
    named = replaced(nameless[0], identity=identity, fault=fault and replaced(fault, thing=identity.label))
    return tuple(named if visit is nameless[0] else visit for visit in visits)


def _without_binding(error: NodeError, on_bus: Tuple[pci.PciGpu, ...], call_timeout: float) -> Survey[Part]:
    """No binding: a machine that has neither a GPU nor the library needs none."""
    library = bool(on_bus) or any(collect(_library_is_there, call_timeout).items)
    if library:
        return Survey(Status.NO_BINDING, str(error), System(), (), on_bus, error=error)
    verdict: Verdict = conclude(CallError.of_code("NVML", "nvmlInit", 12), (), on_bus)
    return Survey(verdict.status, verdict.message, System(), (), on_bus, error=verdict.error)


def _library_is_there(report: Report) -> Iterator[bool]:
    import ctypes

    report("loading of libnvidia-ml.so.1")
    try:
        ctypes.CDLL("libnvidia-ml.so.1", mode=os.RTLD_LAZY)
        yield True
    except OSError:
        yield False
