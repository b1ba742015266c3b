# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of the scratch: the options, checked one by one."""

from __future__ import annotations

import dataclasses
import fnmatch
import posixpath
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...core.mounts import ADOPTED
from ...core.resource import NodeError
from .types import MARKER_OPTION

# XFS keeps 12 bytes for a label, ext4 16.
LABEL_BYTES = {"xfs": 12, "ext4": 16}
# What counts for the run in which it is given: never declared, and not honoured at boot.
FOR_ONE_RUN = ("rebuild", "overwrite_serials")
# How refusals name these two, of which a play knows the variable of the role only, and gpunode neither.
REBUILD = "run nvme_scratch once with rebuild: true (role: nvme_scratch_rebuild)"
# Folders that the system lives in or makes anew at each boot.
SYSTEM_FOLDERS = frozenset(
    "/ /bin /boot /dev /etc /home /lib /lib32 /lib64 /media /mnt /opt /proc /root /run /sbin /srv /sys /tmp /usr /var "
    "/var/lib /var/lib/gpu_node /var/log /usr/local /boot/efi".split()
)
VIRTUAL_FOLDERS = ("/dev/", "/proc/", "/sys/", "/run/", "/etc/", "/boot/")


def overwrite(serial: str) -> str:
    return (
        "run nvme_scratch once, on this node alone (--limit), with overwrite_serials: [{0}]"
        " (role: nvme_scratch_overwrite_serials)".format(serial)
    )


def _wrong(option: str, reason: str, remedy: str) -> NodeError:
    return NodeError("option {0}".format(option), reason, remedy)


def _text(option: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(option, "{0!r} is not a text".format(value), "give a text")
    if not value.strip():
        raise _wrong(option, "{0!r} is empty".format(value), "give a text, or leave it out")
    if any(ord(c) < 32 for c in value):
        raise _wrong(option, "{0!r} has control characters".format(value), "give a text without any")
    return value.strip()


def _texts(option: str, value: Any) -> Tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        raise _wrong(option, "{0!r} is not a list".format(value), "give a list of texts")
    return tuple(dict.fromkeys(_text(option, item) for item in value))


def _number(option: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(
            option, "{0!r} is not a whole number".format(value), "give a number from {0} to {1}".format(least, most)
        )
    if not least <= value <= most:
        raise _wrong(option, "{0} is out of range".format(value), "give a number from {0} to {1}".format(least, most))
    return value


def _switch(option: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(option, "{0!r} is neither true nor false".format(value), "give true or false")
    return value


def _choice(option: str, value: Any, choices: Tuple[str, ...]) -> str:
    if value not in choices:
        raise _wrong(option, "{0!r} is unknown".format(value), "give one of {0}".format(", ".join(choices)))
    return str(value)


def _folder(option: str, value: Any) -> str:
    path = _text(option, value)
    if not path.startswith("/") or ".." in path.split("/"):
        raise _wrong(option, "{0!r} is not an absolute path".format(path), "give a path like /mnt/resource_nvme")
    path = posixpath.normpath("/" + path.lstrip("/"))
    if path in SYSTEM_FOLDERS or path.startswith(VIRTUAL_FOLDERS):
        raise _wrong(
            option, "{0} belongs to the system".format(path), "give a folder of its own, like /mnt/resource_nvme"
        )
    return path


def _mode(value: Any) -> int:
    text = "{0:o}".format(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not re.fullmatch(r"[0-7]{3,5}", text) or int(text, 8) > 0o7777:
        raise _wrong(
            "mode", "{0!r} is not an octal mode".format(value), "give four octal digits in quotes, like '1777'"
        )
    return int(text, 8)


def _account(option: str, value: Any) -> str:
    text = _text(option, str(value) if isinstance(value, int) and not isinstance(value, bool) else value)
    if not re.fullmatch(r"[A-Za-z0-9_.@\\-]+\$?", text) or text.startswith("-"):
        raise _wrong(option, "{0!r} is not an account name".format(text), "give a name or a number")
    return text


def _mount_options(value: Any) -> Tuple[str, ...]:
    options: List[str] = []
    for text in _texts("mount_options", value):
        options.extend(part for part in text.split(",") if part)
    for option in options:
        if re.search(r"[\s\"'\\#]", option):
            raise _wrong(
                "mount_options", "{0!r} cannot stand in /etc/fstab".format(option), "leave out blanks and quotes"
            )
        if option in ("noauto", "ro", "fail", "bind", "rbind", "remount", "user", "users", "loop"):
            raise _wrong(
                "mount_options", "{0} contradicts a scratch that is mounted at boot".format(option), "leave it out"
            )
    if not any(option.startswith("x-systemd.device-timeout=") for option in options):
        options.append("x-systemd.device-timeout=30s")
    # A lost scratch must never stop a boot; the marker says that the line in fstab is ours.
    options += ["nofail", MARKER_OPTION]
    return tuple(dict.fromkeys(options))


@dataclasses.dataclass(frozen=True)
class Desired:
    """The wanted scratch. Build it with :meth:`from_options`; :meth:`to_dict` gives options again."""

    state: str = "present"
    models: Tuple[str, ...] = ()
    serials: Tuple[str, ...] = ()
    devices: Tuple[str, ...] = ()
    overwrite_serials: Tuple[str, ...] = ()
    rebuild: bool = False
    count: Optional[int] = None
    mount_point: str = "/mnt/resource_nvme"
    array_name: str = "gpu_node_scratch"
    chunk_kib: int = 512
    filesystem: str = "xfs"
    filesystem_label: str = "gpu_scratch"
    mount_options: Tuple[str, ...] = ("noatime", "x-systemd.device-timeout=30s", "nofail", MARKER_OPTION)
    discard: bool = False
    owner: str = "root"
    group: str = "root"
    mode: int = 0o1777
    adopt: bool = True
    adopt_mount_points: Tuple[str, ...] = ADOPTED
    declare: bool = True
    require_disks: bool = False
    wait_seconds: int = 30
    lock_timeout_seconds: int = 600
    command_timeout_seconds: int = 300

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Desired:
        """Check the options; what is left out or None gets its default.

        :raises NodeError: one sentence on the first wrong option.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        for name in options:
            if name not in known:
                raise _wrong(str(name), "there is no such option", "take it out")
        given = {name: value for name, value in options.items() if value is not None}
        state = _choice("state", given.get("state", cls.state), ("present", "absent"))
        filesystem = _choice("filesystem", given.get("filesystem", cls.filesystem), ("xfs", "ext4"))
        label = _text("filesystem_label", given.get("filesystem_label", cls.filesystem_label))
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", label) or len(label) > LABEL_BYTES[filesystem]:
            raise _wrong(
                "filesystem_label",
                "{0!r} does not fit {1}".format(label, filesystem),
                "give at most {0} letters, digits, '_', '.' or '-'".format(LABEL_BYTES[filesystem]),
            )
        array_name = _text("array_name", given.get("array_name", cls.array_name))
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,23}", array_name) or re.fullmatch(
            r"md(_?d?[0-9]+)?", array_name
        ):
            raise _wrong(
                "array_name",
                "{0!r} is not a name that md keeps over a reboot".format(array_name),
                "give at most 24 letters, digits, '_', '.' or '-', a letter first, and not md with a number",
            )
        chunk_kib = _number("chunk_kib", given.get("chunk_kib", cls.chunk_kib), 4, 65536)
        if chunk_kib & (chunk_kib - 1):
            raise _wrong("chunk_kib", "{0} is not a power of two".format(chunk_kib), "give 512, for example")
        models = _texts("models", given.get("models"))
        serials = _texts("serials", given.get("serials"))
        devices = _texts("devices", given.get("devices"))
        for device in devices:
            if not device.startswith("/dev/") or ".." in device.split("/"):
                raise _wrong("devices", "{0!r} is not a path under /dev".format(device), "give /dev/disk/by-id/…")
        count = given.get("count")
        return cls(
            state=state,
            models=models,
            serials=serials,
            devices=devices,
            overwrite_serials=_texts("overwrite_serials", given.get("overwrite_serials")),
            rebuild=_switch("rebuild", given.get("rebuild", cls.rebuild)),
            count=None if count is None else _number("count", count, 1, 384),
            mount_point=_folder("mount_point", given.get("mount_point", cls.mount_point)),
            array_name=array_name,
            chunk_kib=chunk_kib,
            filesystem=filesystem,
            filesystem_label=label,
            mount_options=_mount_options(given.get("mount_options", ["noatime"])),
            discard=_switch("discard", given.get("discard", cls.discard)),
            owner=_account("owner", given.get("owner", cls.owner)),
            group=_account("group", given.get("group", cls.group)),
            mode=_mode(given.get("mode", cls.mode)),
            adopt=_switch("adopt", given.get("adopt", cls.adopt)),
            adopt_mount_points=tuple(
                _folder("adopt_mount_points", item)
                for item in _texts("adopt_mount_points", given.get("adopt_mount_points", list(cls.adopt_mount_points)))
            ),
            declare=_switch("declare", given.get("declare", cls.declare)),
            require_disks=_switch("require_disks", given.get("require_disks", cls.require_disks)),
            wait_seconds=_number("wait_seconds", given.get("wait_seconds", cls.wait_seconds), 0, 600),
            lock_timeout_seconds=_number(
                "lock_timeout_seconds", given.get("lock_timeout_seconds", cls.lock_timeout_seconds), 0, 86400
            ),
            command_timeout_seconds=_number(
                "command_timeout_seconds", given.get("command_timeout_seconds", cls.command_timeout_seconds), 1, 86400
            ),
        )

    def to_dict(self) -> Dict[str, Any]:
        """Options that :meth:`from_options` turns into an equal Desired."""
        content: Dict[str, Any] = {
            name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(self).items()
        }
        content["mode"] = "{0:04o}".format(self.mode)
        return content

    @property
    def mount_points(self) -> Tuple[str, ...]:
        """Where the scratch may be mounted: its own mount point first, then those of one that is adopted."""
        others = self.adopt_mount_points if self.adopt else ()
        return tuple(dict.fromkeys((self.mount_point, *others)))

    def matches_model(self, model: str) -> bool:
        """Equal, or a shell pattern that fits; letter case counts."""
        return any(model == pattern or fnmatch.fnmatchcase(model, pattern) for pattern in self.models)
