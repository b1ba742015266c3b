# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration file of nvidia-mig-parted, read as that program reads it (api/spec/v1 of its 0.15).

    {"version": "v1", "mig-configs":
        {"all-3g": [{"devices": "all", "mig-enabled": true, "mig-devices": {"3g.20gb": 2}}]}}

Unknown fields are errors, a filter names PCI ids, and of two entries that choose one GPU the later one holds, because
that program applies them in turn.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional, Sequence, Tuple

from ...core.frozen import frozen
from ...core.nearest import nearest
from .names import NAME

_FIELDS = ("devices", "device-filter", "mig-enabled", "mig-devices")
_ID = re.compile(r"(0[xX][0-9a-fA-F]{1,8}|[0-9]{1,10})(?::(0[xX][0-9a-fA-F]{1,8}|[0-9]{1,10}))?")


class NotParted(ValueError):
    """What is wrong with a configuration, and where."""


@frozen
class Entry:
    """What one entry of a configuration wants of the GPUs that it chooses; ``devices`` None: all that can do MIG."""

    devices: Optional[Tuple[int, ...]]
    # (device and vendor, subsystem or None), as PCI has them; none: any.
    filters: Tuple[Tuple[int, Optional[int]], ...]
    enabled: bool
    instances: Tuple[Tuple[str, int], ...] = ()

    def chooses(self, index: int, pci_id: Optional[int], subsystem_id: Optional[int]) -> bool:
        """``index``: in the order of PCI addresses; the ids as NVML gives them, vendor in the low 16 bits."""
        if self.devices is not None and index not in self.devices:
            return False
        return not self.filters or any(
            pci_id == primary and sub in (None, subsystem_id) for primary, sub in self.filters
        )


def entries(config: Any, label: Optional[str]) -> Tuple[Entry, ...]:
    """The entries of a label; without one, those of the only configuration.

    Raises:
        NotParted: the file is none, or has no such label.
    """
    document = _mapping(config, "the configuration")
    unknown = [str(key) for key in document if key not in ("version", "mig-configs")]
    if unknown:
        raise NotParted("unexpected field {0}; there are version and mig-configs".format(unknown[0]))
    if document.get("version") != "v1":
        raise NotParted("its version is {0!r}, and v1 is the one that is known".format(document.get("version")))
    configs = _mapping(document.get("mig-configs"), "mig-configs")
    if not configs:
        raise NotParted("mig-configs has no entry; it needs one at least")
    if label is None:
        if len(configs) > 1:
            raise NotParted("it has {0} configurations; name one of them with parted_label".format(len(configs)))
        label = str(next(iter(configs)))
    if label not in configs:
        known = [str(key) for key in configs]
        raise NotParted(
            "it has no label '{0}'; {1}there are {2}".format(label, nearest(label, known), ", ".join(sorted(known)))
        )
    specs = configs[label]
    if not isinstance(specs, (list, tuple)) or not specs:
        raise NotParted("{0} is no list with an entry at least".format(label))
    return tuple(_entry(spec, "{0}[{1}]".format(label, number)) for number, spec in enumerate(specs))


def of_gpu(
    all_entries: Sequence[Entry], index: int, pci_id: Optional[int], subsystem_id: Optional[int]
) -> Optional[Entry]:
    """The entry that holds for one GPU; None: it is left alone."""
    return next((entry for entry in reversed(all_entries) if entry.chooses(index, pci_id, subsystem_id)), None)


def _entry(spec: Any, where: str) -> Entry:
    fields = _mapping(spec, where)
    for key in fields:
        if key not in _FIELDS:
            raise NotParted("{0}: unexpected field {1}; there are {2}".format(where, key, ", ".join(_FIELDS)))
    for key in ("devices", "mig-enabled"):
        if key not in fields:
            raise NotParted("{0}: the field {1} is missing".format(where, key))
    enabled = fields["mig-enabled"]
    if not isinstance(enabled, bool):
        raise NotParted("{0}: mig-enabled is {1!r}, neither true nor false".format(where, enabled))
    if enabled and "mig-devices" not in fields:
        raise NotParted("{0}: the field mig-devices is missing; an empty one makes no instances".format(where))
    instances = _instances(fields.get("mig-devices") or {}, where)
    if instances and not enabled:
        raise NotParted("{0}: mig-devices wants instances, and mig-enabled is false".format(where))
    return Entry(_devices(fields["devices"], where), _filters(fields.get("device-filter"), where), enabled, instances)


def _devices(value: Any, where: str) -> Optional[Tuple[int, ...]]:
    if value == "all":
        return None
    if isinstance(value, (list, tuple)) and all(_number(each) for each in value):
        return tuple(value)
    raise NotParted("{0}: devices is {1!r}, neither all nor a list of indices".format(where, value))


def _filters(value: Any, where: str) -> Tuple[Tuple[int, Optional[int]], ...]:
    found = []
    for text in [value] if isinstance(value, str) else value or []:
        parsed = _ID.fullmatch(text) if isinstance(text, str) else None
        if parsed is None:
            raise NotParted(
                "{0}: device-filter has {1!r}, which is no PCI id as 0x20B010DE or 0x20B010DE:0x134F10DE".format(
                    where, text
                )
            )
        found.append((int(parsed[1], 0), int(parsed[2], 0) if parsed[2] else None))
    return tuple(found)


def _instances(value: Any, where: str) -> Tuple[Tuple[str, int], ...]:
    counts = _mapping(value, where + ": mig-devices")
    for name, count in counts.items():
        if not isinstance(name, str) or NAME.fullmatch(name) is None:
            raise NotParted("{0}: mig-devices has {1!r}, which is no name of a profile as 3g.20gb".format(where, name))
        if not _number(count):
            raise NotParted("{0}: mig-devices wants {1!r} of {2}; that is no count".format(where, count, name))
    if counts and not any(counts.values()):
        raise NotParted("{0}: all counts of mig-devices are 0".format(where))
    return tuple((name, count) for name, count in counts.items() if count)


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _mapping(value: Any, what: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise NotParted("{0} is no mapping".format(what))
    return value
