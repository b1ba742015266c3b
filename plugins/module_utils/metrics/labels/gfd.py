# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels of NVIDIA's GPU feature discovery, for clusters that do not have it. Pure.

Names and values are those of version 0.20 (NVIDIA/k8s-device-plugin, internal/lm), ``unknown`` for a machine and a mode
that are not told too. What differs: where GPUs of several products share a node, it chooses one at random, and here it
is the one that most GPUs are; a value that Kubernetes would refuse is cut; and one GPU that does not answer costs the
labels of the GPUs, and not all of them.
"""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from ...core.resource import sentence
from ...kubernetes.sharing_configs import GPU, MIG, MPS, NONE, Config
from . import rules
from .own import named
from .settings import GFD_PREFIX as PREFIX
from .settings import MIG_MIXED, MIG_NONE, MIG_SINGLE, TIMESTAMP
from .types import Device, Facts, MigDevice

# PCI classes: VGA and 3D controller.
_MODES = {0x030000: "graphics", 0x030200: "compute"}
_UNKNOWN = "unknown"
_FAMILIES = {
    1: "tesla",
    2: "fermi",
    3: "kepler",
    5: "maxwell",
    6: "pascal",
    9: "hopper",
    10: "blackwell",
    12: "blackwell",
    13: "rubin",
}
Labels = Dict[str, str]


def labels(facts: Facts, strategy: str, sharing: Config, time: float) -> Tuple[Labels, Tuple[str, ...]]:
    """The labels, and why some are left out."""
    notes: List[str] = []
    found: Labels = {TIMESTAMP: str(int(time))}
    if facts.devices:
        found[PREFIX + "gpu.machine"] = rules.fit(sanitised(_UNKNOWN if facts.machine is None else facts.machine))
        found.update(_versions(facts, notes))
    if facts.devices and facts.complete:
        found.update(_of_gpus(facts.devices, strategy, sharing, notes))
    if facts.virtual_gpus is not None:
        found[PREFIX + "vgpu.present"] = _switch(bool(facts.virtual_gpus))
        for one in facts.virtual_gpus:
            for name, text in (("version", one.driver_version), ("branch", one.driver_branch)):
                if text is not None:
                    found["{0}vgpu.host-driver-{1}".format(PREFIX, name)] = rules.value(text)
    return found, tuple(notes)


def sanitised(text: str) -> str:
    """What no label takes goes, and blanks become dashes."""
    return "-".join(re.sub(r"[^A-Za-z0-9_. -]", "", text).split())


def family(major: int, minor: int) -> str:
    if major == 7:
        return "volta" if minor < 5 else "turing"
    if major == 8:
        return "ampere" if minor < 9 else "ada-lovelace"
    return _FAMILIES.get(major, "undefined")


def _switch(on: bool) -> str:
    return "true" if on else "false"


def _versions(facts: Facts, notes: List[str]) -> Iterator[Tuple[str, str]]:
    """In the old and in the new spelling."""
    driver = re.fullmatch(r"([0-9]+)\.([0-9]+)(?:\.([0-9]+))?", facts.driver_version or "", re.ASCII)
    if driver is not None:
        major, minor, revision = driver.group(1), driver.group(2), driver.group(3) or ""
        for name, text in (("major", major), ("minor", minor), ("rev", revision)):
            yield "{0}cuda.driver.{1}".format(PREFIX, name), text
        for name, text in (("major", major), ("minor", minor), ("revision", revision), ("full", driver.group(0))):
            yield "{0}cuda.driver-version.{1}".format(PREFIX, name), text
    else:
        notes.append(_left_out("driver version", "the driver tells none that can be read", "cuda.driver"))
    runtime = re.fullmatch(r"([0-9]+)\.([0-9]+)", facts.cuda_version or "", re.ASCII)
    if runtime is not None:
        for name, text in (("major", runtime.group(1)), ("minor", runtime.group(2))):
            yield "{0}cuda.runtime.{1}".format(PREFIX, name), text
            yield "{0}cuda.runtime-version.{1}".format(PREFIX, name), text
        yield PREFIX + "cuda.runtime-version.full", runtime.group(0)
    else:
        notes.append(_left_out("CUDA version", "the driver tells none that can be read", "cuda.runtime"))


def _left_out(thing: str, reason: str, which: str) -> str:
    return sentence(thing, reason, "the labels nvidia.com/{0}.* are left out".format(which))


def _of_gpus(devices: Sequence[Device], strategy: str, sharing: Config, notes: List[str]) -> Labels:
    found: Labels = {PREFIX + "mig.capable": _switch(any(one.mig_capable for one in devices))}
    enabled = [one for one in devices if one.mig_enabled]
    if sharing.strategy == MPS and enabled:
        notes.append(
            sentence(
                "GPU {0}".format(enabled[0].index),
                "it is in MIG mode, and MPS shares whole GPUs only",
                "turn MIG off or share by time-slicing; until then the labels nvidia.com/gpu.* are left out",
            )
        )
        return found
    found[PREFIX + "mps.capable"] = _switch(sharing.strategy == MPS)
    found.update(_whole_gpus(devices, sharing, notes))
    if strategy != MIG_NONE:
        found[PREFIX + "mig.strategy"] = strategy
        if any(one.mig is None for one in enabled):
            of_mig = "mig-*" if strategy == MIG_MIXED else "gpu.*"
            notes.append(
                "The instances of MIG were not told, so the labels nvidia.com/{0} are left out.".format(of_mig)
            )
            if strategy == MIG_SINGLE:  # those of the whole GPUs would be wrong
                found = {name: text for name, text in found.items() if not name.startswith(GPU + ".")}
        elif strategy == MIG_SINGLE:
            found.update(_single(devices, enabled, sharing, notes))
        else:
            for profile, (first, parent, count) in _kinds(enabled).items():
                found.update(_instances(MIG + profile, profile, first, parent, count, sharing))
    found[GPU + ".mode"] = _mode(devices)
    clique = _clique(devices, notes)
    if clique is not None:
        found[GPU + ".clique"] = rules.value(clique)
    return found


def _whole_gpus(devices: Sequence[Device], sharing: Config, notes: List[str]) -> Labels:
    names = [one.name for one in devices]
    name = max(dict.fromkeys(names), key=names.count)
    if len(set(names)) > 1:
        others = ", ".join(sorted({sanitised(one) for one in names if one != name}))
        reason = "the node also has {0}, and has one label for all".format(others)
        notes.append(sentence(sanitised(name), reason, "nvidia.com/gpu.count counts this product alone"))
    alike = [one for one in devices if one.name == name]
    whole = [one for one in alike if not one.mig_enabled]
    found: Labels = {}
    # A GPU that is divided is not shared; where whole ones are beside it, theirs count.
    for one, share in [(one, None) for one in alike if one.mig_enabled][-1:] + [(one, sharing) for one in whole][-1:]:
        found.update(_base(GPU, len(alike), (one.name,), share))
        if one.memory_mib:
            found[GPU + ".memory"] = str(one.memory_mib)
        if one.capability is not None and one.capability[0]:
            found[GPU + ".family"] = family(*one.capability)
            found[GPU + ".compute.major"], found[GPU + ".compute.minor"] = map(str, one.capability)
    return found


def _base(resource: str, count: int, parts: Sequence[str], sharing: Optional[Config]) -> Labels:
    replicas = 0 if sharing is None else sharing.of(resource)
    shared = sharing is not None and replicas > 1
    suffix = ["SHARED"] if sharing is not None and shared and not sharing.rename else []
    found = {
        resource + ".count": str(count),
        resource + ".replicas": str(replicas),
        resource + ".sharing-strategy": sharing.strategy if sharing is not None and shared else NONE,
    }
    product = _product(parts, suffix)
    if product:
        found[resource + ".product"] = product
    return found


def _product(parts: Sequence[str], suffix: Sequence[str] = ()) -> str:
    """The name of a board that is too long is cut, and what follows it stays."""
    clean = [text for text in map(sanitised, (*parts, *suffix)) if text]
    if not clean:
        return ""
    tail = "".join("-" + text for text in clean[1:])
    return rules.fit(clean[0], tail) if len(tail) < rules.LONGEST else rules.fit(clean[0] + tail)


def _single(devices: Sequence[Device], enabled: Sequence[Device], sharing: Config, notes: List[str]) -> Labels:
    """Every GPU divided, and into instances of one kind: they are offered as nvidia.com/gpu. Else it is invalid."""
    if not enabled:
        return {}
    kinds = _kinds(enabled)
    why = ""
    if any(not one.mig for one in enabled):
        why = "a GPU in MIG mode has no instance"
    elif len(enabled) < len(devices):
        why = "some GPUs are divided and others are whole"
    elif len(kinds) != 1:
        why = "there are instances of several kinds ({0})".format(", ".join(kinds))
    if why:
        remedy = "divide all GPUs alike, or use the strategy mixed"
        notes.append(sentence("MIG strategy single", why + ", so the device plugin offers no GPU", remedy))
        invalid = {"count": "0", "replicas": "0", "sharing-strategy": "", "memory": "0"}
        found = {"{0}.{1}".format(GPU, name): text for name, text in invalid.items()}
        return dict(found, **{GPU + ".product": _product((enabled[0].name, "MIG", "INVALID"))})
    profile = next(iter(kinds))
    first, parent, count = kinds[profile]
    return _instances(GPU, profile, first, parent, count, sharing)


def _kinds(enabled: Sequence[Device]) -> Dict[str, Tuple[MigDevice, Device, int]]:
    """By the name of the profile: the first instance, its GPU, and how many there are."""
    found: Dict[str, Tuple[MigDevice, Device, int]] = {}
    for gpu in enabled:
        for one in gpu.mig or ():
            first, parent, count = found.get(named(one.profile), (one, gpu, 0))
            found[named(one.profile)] = (first, parent, count + 1)
    return found


def _instances(resource: str, profile: str, first: MigDevice, parent: Device, count: int, sharing: Config) -> Labels:
    found = _base(resource, count, (parent.name, "MIG", profile), sharing)
    found.update(("{0}.{1}".format(resource, name), str(number)) for name, number in first.attributes.items())
    return found


def _mode(devices: Sequence[Device]) -> str:
    classes = {one.pci_class for one in devices}
    only = classes.pop() if len(classes) == 1 else None
    return _UNKNOWN if only is None else _MODES.get(only, _UNKNOWN)


def _clique(devices: Sequence[Device], notes: List[str]) -> Optional[str]:
    """All GPUs of a node are of one NVLink domain and of one clique in it, or the node has no label for it."""
    found = [one.clique for one in devices if one.clique is not None]
    if not found:
        return None
    if len(set(found)) > 1:
        reason = "the GPUs are of several NVLink domains or cliques"
        notes.append(sentence("NVLink fabric", reason, "the label nvidia.com/gpu.clique is left out"))
        return None
    return "{0}.{1}".format(*found[0])
