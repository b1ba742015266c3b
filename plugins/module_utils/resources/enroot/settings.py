# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of enroot.conf. Pure.

enroot reads lines of KEY VALUE, and hands each VALUE to the shell's ``eval echo``. So only values that the shell
can do no harm with are taken: text, variables, and a few commands that only print.
"""

from __future__ import annotations

import re
from typing import Dict, Mapping

from ...core.resource import NodeError

# enroot 4.1: enroot.in and src/*.sh. The folders of its own installation are none of a site's business.
_ENROOT = """
RUNTIME_PATH CONFIG_PATH CACHE_PATH DATA_PATH TEMP_PATH GZIP_PROGRAM ZSTD_OPTIONS SQUASH_OPTIONS ROOTFS_WRITABLE
NATIVE_OVERLAYFS REMAP_ROOT UNSHARE_NET UNSHARE_PID UNSHARE_IPC UNSHARE_UTS MAX_PROCESSORS MAX_CONNECTIONS
CONNECT_TIMEOUT TRANSFER_TIMEOUT TRANSFER_RETRIES LOGIN_SHELL ALLOW_SUPERUSER ALLOW_HTTP BUNDLE_ALL BUNDLE_CHECKSUM
MOUNT_HOME RESTRICT_DEV FORCE_OVERRIDE
""".split()
KEYS = frozenset("ENROOT_" + one for one in _ENROOT) | frozenset(
    ("SSL_CERT_DIR", "SSL_CERT_FILE", "all_proxy", "no_proxy", "http_proxy", "https_proxy")
)
# What the hooks 98-nvidia.sh and 99-mellanox.sh read; enroot takes any name with one of these beginnings.
_HOOKS = re.compile(r"(MELLANOX|NVIDIA)_[A-Z0-9_]+")
_SAFE = re.compile(
    r"(?:[A-Za-z0-9_./:=,+@%^~ -]|\$\{[A-Za-z_][A-Za-z0-9_]*\}|\$\((?:id -u|id -un|id -g|nproc|hostname)\))*"
)
_ANY = re.compile(r"ENROOT_[A-Z_]+")
# enroot 4.1, config::fini: what it takes for no; whatever else stands there is yes.
_NO = re.compile(r"no?|N[oO]?|[fF](?:alse)?|FALSE")
_YES = re.compile(r"y|yes|true|1|on", re.IGNORECASE)
# What echo would take for options of its own.
_ECHO = re.compile(r"-[neE]+(?: |$)")

# Many users on one node with a local scratch. Images are not compressed: that costs processors and saves
# nothing on NVMe (Azure and NVIDIA's deepops use the same options). The home folder is a site's choice.
DEFAULTS: Mapping[str, str] = {
    "ENROOT_SQUASH_OPTIONS": "-noI -noD -noF -noX -no-duplicates",
    "ENROOT_ROOTFS_WRITABLE": "yes",
    "ENROOT_RESTRICT_DEV": "yes",
    "ENROOT_MOUNT_HOME": "no",
}


def checked(given: Mapping[str, str]) -> Dict[str, str]:
    """Settings of a site; an empty value leaves that setting to enroot.

    :raises NodeError: an unknown key, or a value that the shell would do something with.
    """
    for key, value in given.items():
        if key not in KEYS and not _HOOKS.fullmatch(key):
            raise NodeError(
                "setting {0!r}".format(key), "enroot knows no such key", "see enroot.conf(5) for those it knows"
            )
        if not _SAFE.fullmatch(value) or value != value.strip() or _ECHO.match(value):
            raise NodeError(
                "setting {0}".format(key),
                "the shell, which reads {0!r}, would take it for more than text".format(value),
                "use letters, digits, blanks, ._/:=,+@%^~- and ${NAME}, $(id -u), $(id -un), $(id -g), $(nproc)",
            )
    return dict(given)


def values_of(text: str) -> Dict[str, str]:
    """What a file sets, as enroot reads it: the first word, ended by blanks or an equals sign, and the rest. A key
    without a value sets nothing, and the first value of a key stays."""
    found: Dict[str, str] = {}
    for line in text.splitlines():
        words = re.split(r"[ \t=]+", line.strip(" \t="), maxsplit=1)
        if len(words) == 2 and (words[0] in KEYS or _HOOKS.fullmatch(words[0]) or _ANY.fullmatch(words[0])):
            found.setdefault(words[0], words[1])
    return found


def same(one: str, other: str) -> bool:
    """Whether enroot takes both values for the same: it knows several words for yes and no."""
    return one == other or any(word.fullmatch(one) and word.fullmatch(other) for word in (_YES, _NO))
