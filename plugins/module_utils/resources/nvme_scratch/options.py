# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the scratch; what a user gets wrong is said here."""

from __future__ import annotations

import fnmatch
import posixpath
from typing import Any, Dict, Optional, Tuple

from ...core.mounts import ADOPTED, SCRATCH
from ...core.options import described, option, options, state
from ...core.resource import NodeError
from ...core.systemd.boot_unit import BEFORE_UNITS, BootUnit, at_boot, boot_timeout

SECTION = "nvme_scratch"
# An option that mount(8) ignores; it marks our line in fstab.
MARKER_OPTION = "x-gpu-node.scratch"

# XFS keeps 12 bytes for a label, ext4 16.
LABEL_BYTES = {"xfs": 12, "ext4": 16}
# Not declared: what a boot does not repeat, or has no part in.
_NOT_DECLARED = ("state", "declare", "manage_packages", "ahead", "boot_unit", "before_units", "boot_timeout_seconds")
# How refusals name these two, of which a play knows the variable of the role only, and gpunode neither.
REBUILD = "run nvme_scratch once with rebuild: true (role: nvme_scratch_rebuild)"
# Folders that the system lives in or makes anew at each boot.
SYSTEM_FOLDERS = frozenset(
    "/ /bin /boot /dev /etc /home /lib /lib32 /lib64 /media /mnt /opt /proc /root /run /sbin /srv /sys /tmp /usr /var "
    "/var/lib /var/lib/gpu_node /var/log /usr/local /boot/efi".split()
)
VIRTUAL_FOLDERS = ("/dev/", "/proc/", "/sys/", "/run/", "/etc/", "/boot/")
# Local disks of Azure, AWS, Google Cloud and Oracle Cloud, whose content is lost at a deallocation.
MODELS = (
    "Microsoft NVMe Direct Disk",
    "Microsoft NVMe Direct Disk v2",
    "Amazon EC2 NVMe Instance Storage",
    "nvme_card",
    "nvme_card[0-9]",
    "nvme_card[0-9][0-9]",
)
_TEXT = (r"\s*[^\x00-\x1f\s][^\x00-\x1f]*", "text in one line", "give one, or leave it out")
_ACCOUNT = (r"(?!-)[A-Za-z0-9_.@\\-]+\$?", "name or number of an account", "give one such as root or 1000")


def overwrite(serial: str) -> str:
    return (
        "run nvme_scratch once, on this node alone (--limit), with overwrite_serials: [{0}]"
        " (role: nvme_scratch_overwrite_serials)".format(serial)
    )


@options
class Desired:
    """The wanted scratch."""

    _for_absent = ("command_timeout_seconds",)

    present: bool = state(
        [
            "Whether the scratch is there.",
            "V(absent) unmounts it and erases what is proven ours; B(its data are lost). An adopted mount and "
            "everything else that is not ours are left alone.",
        ]
    )
    models: Tuple[str, ...] = option(
        MODELS,
        "Model names of the disks that are scratch material, as C(nvme list) shows them; shell patterns are possible. "
        "V([]) names none.",
        form=_TEXT,
        profile="nvme.models",
    )
    serials: Tuple[str, ...] = option(
        (),
        "Serial numbers of further disks that are scratch material. A disk named here that is missing is an error.",
        form=_TEXT,
    )
    devices: Tuple[str, ...] = option(
        (),
        [
            "Device paths of further disks that are scratch material, best under C(/dev/disk/by-id), as names like "
            "C(/dev/nvme0n1) change between boots.",
            "They are declared for the next boots by serial number.",
        ],
        form=(
            r"/dev/(?!(?:.*/)?\.\.(?:/|$))[^\x00-\x1f]+",
            "path under /dev",
            "give one such as /dev/disk/by-id/nvme-...",
        ),
    )
    overwrite_serials: Tuple[str, ...] = option(
        (),
        [
            "Serial numbers of disks whose content may be lost although nobody knows what it is, for this run only. "
            "Without it such a disk is a refusal. Give it on the command line, not in an inventory.",
            "It is not declared, and no boot repeats it. What is known (a file system, a partition table, a member of "
            "an array) and what is in use are refused all the same. Serial numbers of other nodes are passed over.",
            "With all disks of an array it covers what only the new array shows of earlier uses of them, too.",
        ],
        form=_TEXT,
        once=True,
    )
    rebuild: bool = option(
        False,
        [
            "Erase what is left of a scratch that cannot be used any more, and build it anew, for this run only. B(Its "
            "data are lost.) Give it on the command line, not in an inventory.",
            "It is for a scratch of which a disk is gone for good, or whose file system is not recognised any more. A "
            "scratch that is whole is kept all the same, and so is a disk that only bears a copy of its mark.",
            "It also covers data of earlier uses of the disks that only a new array of them shows.",
            "It is not declared, and no boot repeats it.",
        ],
        once=True,
    )
    count: Optional[int] = option(
        None,
        [
            "How many disks there must be. With fewer or more nothing is done.",
            "Without it any number is taken, but not fewer than the scratch was built of last, as a late disk may "
            "still appear.",
        ],
        bounds=(1, 384),
        profile="nvme.count",
        of_profile=lambda count: count or None,
        example=8,
    )
    mount_point: str = option(
        SCRATCH, "Where the scratch is mounted. It must be missing, or an empty folder.", kind="path"
    )
    owner: str = option("root", "Owner of the root folder of the scratch, by name or number.", form=_ACCOUNT)
    group: str = option("root", "Group of the root folder of the scratch, by name or number.", form=_ACCOUNT)
    mode: str = option(
        "1777",
        "Mode of the root folder of the scratch, in octal digits.",
        form=(r"0?[0-7]{3,4}", "octal mode", "give four octal digits in quotes, such as '1777'"),
    )
    mount_options: Tuple[str, ...] = option(
        ("noatime",),
        "Mount options. V(nofail), so that a lost scratch never stops a boot, V(x-gpu-node.scratch), which marks our "
        "line in C(/etc/fstab), and, unless given, V(x-systemd.device-timeout=30s) are always added.",
        form=(r"[^\s\"'\\#]+", "option that can stand in /etc/fstab", "leave out blanks and quotes"),
    )
    filesystem: str = option("xfs", "The file system to make.", choices=("xfs", "ext4"))
    filesystem_label: str = option(
        "gpu_scratch",
        "Its label, at most 12 characters for XFS and 16 for ext4.",
        form=(r"[A-Za-z0-9_.-]+", "label", "give letters, digits, '_', '.' or '-'"),
    )
    discard: bool = option(
        False,
        "Discard all blocks while the file system is made. New local disks of a cloud machine do not need it.",
    )
    array_name: str = option(
        "gpu_node_scratch",
        "Name of the array, seen as C(/dev/md/NAME); at most 24 characters.",
        form=(
            r"(?!md(?:_?d?[0-9]+)?$)[A-Za-z_][A-Za-z0-9_.-]{0,23}",
            "name that md keeps over a reboot",
            "give at most 24 letters, digits, '_', '.' or '-', a letter first, and not md with a number",
        ),
    )
    chunk_kib: int = option(
        512,
        "Chunk of the array, a power of two. It becomes the stripe unit of the file system.",
        bounds=(4, 65536),
        unit="KiB",
    )
    adopt: bool = option(
        True,
        "Use a mount that is there already at O(mount_point) or one of O(adopt_mount_points) and change nothing, if it "
        "is writable and lies on exactly the chosen disks.",
    )
    adopt_mount_points: Tuple[str, ...] = option(ADOPTED, "Where else such a mount may be.", elements="path")
    declare: bool = option(
        True,
        "Write the options into C(/etc/gpu_node/node.json), so that C(gpunode apply nvme_scratch) repeats them at each "
        "boot.",
    )
    require_disks: bool = option(False, "Fail, instead of skip, when no disk fits.")
    manage_packages: bool = option(
        True,
        "Install mdadm and the tools of the file system with the package manager of the distribution, where there are "
        "disks to use them on. They stay when the scratch goes.",
    )
    ahead: bool = option(
        False,
        "Install these tools and the boot unit where there are no such disks, too, for an image whose machines have "
        "some.",
    )
    wait_seconds: int = option(
        30,
        "In the first ten minutes after a boot, wait so long for disks that are still missing.",
        bounds=(0, 600),
        unit="seconds",
    )
    command_timeout_seconds: int = option(
        300, "A single command (C(mdadm), C(mkfs), C(mount)) may take so long.", bounds=(1, 86400), unit="seconds"
    )
    boot_unit: bool = at_boot(SECTION, "builds the scratch again after a deallocation")
    before_units: Tuple[str, ...] = BEFORE_UNITS
    boot_timeout_seconds: int = boot_timeout(300)

    def __post_init__(self) -> None:
        self._become(mount_point=_folder("mount_point", self.mount_point))
        for name in ("models", "serials", "devices", "overwrite_serials"):
            self._become(**{name: tuple(dict.fromkeys(text.strip() for text in getattr(self, name)))})
        if not self.present:
            return
        # Tools of clouds mount their scratch at /mnt; it is adopted only if it is on exactly the chosen disks.
        adopted = (
            "/mnt" if one.rstrip("/") == "/mnt" else _folder("adopt_mount_points", one)
            for one in self.adopt_mount_points
        )
        self._become(adopt_mount_points=tuple(adopted))
        if self.chunk_kib & (self.chunk_kib - 1):
            reason = "{0} is not a power of two".format(self.chunk_kib)
            raise NodeError("option chunk_kib", reason, "give 512, for example")
        most = LABEL_BYTES[self.filesystem]
        if len(self.filesystem_label) > most:
            reason = "{0!r} does not fit {1}".format(self.filesystem_label, self.filesystem)
            raise NodeError("option filesystem_label", reason, "give at most {0} characters".format(most))
        for one in self.all_mount_options:
            if one in ("noauto", "ro", "fail", "bind", "rbind", "remount", "user", "users", "loop"):
                reason = "{0} contradicts a scratch that is mounted at boot".format(one)
                raise NodeError("option mount_options", reason, "leave it out")

    def _become(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def mode_bits(self) -> int:
        return int(self.mode, 8)

    @property
    def all_mount_options(self) -> Tuple[str, ...]:
        """Those that are asked for and those that are always added, one by one."""
        found = [part for text in self.mount_options for part in text.split(",") if part]
        if not any(one.startswith("x-systemd.device-timeout=") for one in found):
            found.append("x-systemd.device-timeout=30s")
        # A lost scratch must never stop a boot; the marker says that the line in fstab is ours.
        return tuple(dict.fromkeys([*found, "nofail", MARKER_OPTION]))

    @property
    def mount_points(self) -> Tuple[str, ...]:
        """Where the scratch may be mounted: its own mount point first, then those of one that is adopted."""
        others = self.adopt_mount_points if self.adopt else ()
        return tuple(dict.fromkeys((self.mount_point, *others)))

    def matches_model(self, model: str) -> bool:
        """Equal, or a shell pattern that fits; letter case counts."""
        return any(model == pattern or fnmatch.fnmatchcase(model, pattern) for pattern in self.models)

    @property
    def unit(self) -> BootUnit:
        """What makes the scratch again at each boot."""
        # The parent directories of the mount points: a later mount there would hide our mount.
        parts = [place.strip("/").split("/") for place in self.mount_points]
        above = ("/" + "/".join(names[:depth]) for names in parts for depth in range(1, len(names)))
        return BootUnit(
            SECTION,
            "Local NVMe scratch of this GPU node",
            # Azure's /mnt, above the scratch, is a mount of cloud-init (both names of its network stage).
            after=(
                "local-fs.target",
                "systemd-udev-settle.service",
                "cloud-init.service",
                "cloud-init-network.service",
            ),
            before=self.before_units,
            timeout_seconds=self.boot_timeout_seconds,
            after_mounts=tuple(dict.fromkeys((*self.mount_points, *above))),
        )

    def section(self) -> Dict[str, Any]:
        """The options that a boot makes the same scratch of, all of them: a later version may have other defaults."""
        kept = {name: one for name, one in described(Desired).items() if name not in _NOT_DECLARED and not one.once}
        values = {name: getattr(self, one.field) for name, one in kept.items()}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _folder(name: str, path: str) -> str:
    if not path.startswith("/") or ".." in path.split("/") or any(ord(letter) < 32 for letter in path):
        raise NodeError("option " + name, "{0!r} is not an absolute path".format(path), "give one such as " + SCRATCH)
    path = posixpath.normpath("/" + path.lstrip("/"))
    if path in SYSTEM_FOLDERS or path.startswith(VIRTUAL_FOLDERS):
        remedy = "give a folder of its own, such as " + SCRATCH
        raise NodeError("option " + name, "{0} belongs to the system".format(path), remedy)
    return path
