# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs a job has: from what slurmd tells a hook to PCI addresses.

``SLURM_JOB_GPUS`` has positions in slurmd's list of devices, not the N of /dev/nvidiaN, and CUDA_VISIBLE_DEVICES of a
hook has the same positions, or UUIDs where slurmd knows them (MIG instances; ``AutoDetect=nvml`` of newer versions):
Slurm 22.05 to 26.05, ``gres_common.c``: gres_common_prep_set_env. A wrong guess changes the clocks of another job's
GPU, so what is not certain is not touched.
"""

from __future__ import annotations

import posixpath
import re
from typing import FrozenSet, List, Optional, Sequence, Tuple

from ..core.frozen import frozen
from ..core.host import Host
from ..facts.nvml.identity import Identity, normalise_pci_address
from . import gres_conf, syntax
from .types import Job

# One NVML call; a healthy one takes milliseconds, a hanging one must not hold a job for long.
CALL_TIMEOUT_SECONDS = 3.0
_KNOWN = "/proc/driver/nvidia/gpus"
_DEVICES = "/sys/fs/cgroup/devices"
_MAJOR = "195"  # of /dev/nvidiaN


@frozen
class Found:
    """PCI addresses of the job's GPUs; none, with a ``reason``, where it has some and they are not certain."""

    gpus: Tuple[str, ...] = ()
    reason: Optional[str] = None


def of_job(host: Host, job: Job) -> Found:
    """:raises NodeError: NVML had to be asked and does not answer."""
    if not job.gpus and not job.visible:
        return Found()
    devices = devices_of(host, job.node, job.slurm_conf or configuration(host))
    found = resolve(job.gpus, job.visible, devices, identities(host), _allowed(host, job))
    if found.reason == _NOT_LISTED:
        found = resolve(job.gpus, job.visible, devices, asked(host), _allowed(host, job))
    return found


_NOT_LISTED = "the driver lists no GPU"


def resolve(
    positions: Sequence[str],
    visible: Sequence[str],
    devices: gres_conf.Devices,
    known: Sequence[Identity],
    allowed: Optional[FrozenSet[int]] = None,
) -> Found:
    """All GPUs of the job, or none. ``allowed``: the N of /dev/nvidiaN that its device cgroup lets it open. Pure."""
    if any(word.upper().startswith("MIG-") for word in visible):
        return Found(reason="the job has MIG instances, whose GPU other jobs may have, too")
    uuids = bool(visible) and all(word.upper().startswith("GPU-") for word in visible)
    if not uuids and any(word.upper().startswith("GPU-") for word in visible):
        return Found(reason="the job's variables name GPUs by position and by UUID in one list")
    if not uuids and devices.reason is not None:
        return Found(reason=devices.reason)
    chosen: List[Identity] = []
    if not known:
        return Found(reason=_NOT_LISTED)
    for word in visible if uuids else positions or visible:
        if uuids:
            same = [one for one in known if (one.uuid or "").lower() == word.lower()]
        else:
            if not re.fullmatch(r"[0-9]{1,4}", word) or int(word) >= len(devices.positions):
                return Found(reason="gres.conf has no GPU at position {0}".format(word))
            files = devices.positions[int(word)]
            minor = re.fullmatch(r"/dev/nvidia([0-9]{1,4})", files[0]) if len(files) == 1 else None
            if minor is None:
                return Found(reason="position {0} of gres.conf, {1}, is no whole GPU".format(word, " ".join(files)))
            same = [one for one in known if one.minor_number == int(minor.group(1))]
        if len(same) != 1 or same[0].pci_address is None:
            return Found(reason="the driver has no {0}".format(word if uuids else files[0]))
        chosen.append(same[0])
    if not chosen or (positions and len(positions) != len(chosen)):
        return Found(reason="Slurm names {0} GPUs by position and {1} by UUID".format(len(positions), len(chosen)))
    if allowed is not None and any(one.minor_number not in allowed for one in chosen):
        return Found(reason="the job's device cgroup has other GPUs than gres.conf has at its positions")
    return Found(tuple(dict.fromkeys(one.pci_address for one in chosen if one.pci_address)))


def devices_of(host: Host, node: str, path: str) -> gres_conf.Devices:
    """``path`` is the slurm.conf of slurmd, which tells it to a hook; it reads the gres.conf beside it."""
    folder = posixpath.dirname(path)
    text = syntax.read(folder + "/gres.conf", host.read, folder)
    if text is None:
        return gres_conf.Devices(reason="{0}/gres.conf cannot be read".format(folder))
    found = gres_conf.gpus(text, node)
    if len({(line.type or "").lower() for line in found.lines}) <= 1:
        return gres_conf.devices(found)
    from . import slurm_conf  # it may be a long file, and only the order of types is asked of it

    conf = syntax.read(path, host.read)
    ours = slurm_conf.node(conf, node) if conf is not None else None
    return gres_conf.devices(found, ours.gres if ours is not None and ours.gres else None)


def configuration(host: Host) -> str:
    from . import places  # a hook that was not started by slurmd

    return places.find(host).path or places.LOCAL


def _allowed(host: Host, job: Job) -> Optional[FrozenSet[int]]:
    """By cgroup v1, while it is there: before a prolog and after the last step it is not. Rules of v2 are programs in
    the kernel, which cannot be read back."""
    for top in host.names(_DEVICES):
        if top == "slurm" or top.startswith("slurm_"):
            text = host.read("{0}/{1}/uid_{2}/job_{3}/devices.list".format(_DEVICES, top, job.uid, job.id))
            if text is not None:
                return allowed_by(text)
    return None


def allowed_by(devices_list: str) -> Optional[FrozenSet[int]]:
    """The N of /dev/nvidiaN that a devices.list allows; None where it allows all of them. Pure."""
    found = set()
    for line in devices_list.splitlines():
        rule = re.fullmatch(r"([ac]) (\*|\d+):(\*|\d+) [rwm]+", line.strip())
        if rule is None or rule.group(2) not in ("*", _MAJOR):
            continue
        if rule.group(1) == "a" or rule.group(3) == "*":
            return None
        found.add(int(rule.group(3)))
    return frozenset(found)


def identities(host: Host) -> Tuple[Identity, ...]:
    """The GPUs as the driver lists them in /proc, without opening NVML; nothing on a machine without that list."""
    found = []
    for address in host.names(_KNOWN):
        text = host.read("{0}/{1}/information".format(_KNOWN, address)) or ""
        minor = re.search(r"^Device Minor:\s*(\d+)", text, re.MULTILINE)
        uuid = re.search(r"^GPU UUID:\s*(GPU-\S+)", text, re.MULTILINE)
        pci_address = normalise_pci_address(address)
        if minor is not None and pci_address is not None:
            found.append((pci_address, uuid.group(1) if uuid else None, int(minor.group(1))))
    # NVML numbers the GPUs by PCI address.
    return tuple(Identity(index, uuid, address, None, minor) for index, (address, uuid, minor) in enumerate(found))


def asked(host: Host) -> Tuple[Identity, ...]:
    """The GPUs as NVML names them.

    :raises NodeError: no driver.
    """
    from ..facts.nvml.session import Survey, survey  # loaded only where it is wanted

    found: Survey[int] = survey(lambda dummy: (), call_timeout=CALL_TIMEOUT_SECONDS, host=host)
    found.require_driver()
    return tuple(visit.identity for visit in found.visits)
