# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How azcopy proves who it is: variables of its environment, or a shared access signature out of a file.

A secret comes from a file of its owner alone, and goes into the environment of azcopy, which only its owner can read.
"""

from __future__ import annotations

import calendar
import os
import re
import stat
import time
from typing import Mapping, Sequence, Tuple
from urllib.parse import parse_qs

from ..core.frozen import frozen
from ..core.host import Host
from ..core.moment import moment
from ..core.resource import NodeError
from ..core.secrets import hide
from .settings import MSI, SAS_FILE, SPN, WORKLOAD, Settings

_MOST_BYTES = 8192
_QUERY = re.compile(r"[A-Za-z0-9%=&._~:+/-]+")
_TIMES = ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%MZ", "%Y-%m-%d")
_RIGHTS = {"r": "read", "w": "write", "c": "create", "d": "delete", "l": "list"}
# Of a pod with a workload identity; azcopy reads them itself.
_OF_POD = ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE")


@frozen
class Access:
    """``environment`` of azcopy; ``query``: the shared access signature, empty for none."""

    environment: Tuple[Tuple[str, str], ...] = ()
    query: str = ""

    def hides(self, text: str) -> str:
        """The text without what nobody else may read."""
        known = [value for name, value in self.environment if name.endswith(("SECRET", "PASSWORD"))]
        return hide(text, [*known, self.query])


def public(settings: Settings) -> Tuple[Tuple[str, str], ...]:
    """The part of the environment that is no secret. Pure."""
    if settings.auth == SAS_FILE:
        return ()
    found = [("AZCOPY_AUTO_LOGIN_TYPE", settings.auth.upper())]
    if settings.auth == MSI and settings.msi_client_id:
        found.append(("AZCOPY_MSI_CLIENT_ID", settings.msi_client_id))
    if settings.auth == SPN:
        found.append(("AZCOPY_SPA_APPLICATION_ID", settings.application_id))
        found.append(("AZCOPY_TENANT_ID", settings.tenant_id))
    return tuple(found)


def read(
    host: Host, settings: Settings, rights: str, environment: Mapping[str, str], now: float, home: str = ""
) -> Access:
    """``rights``: the letters that a signature has to grant; ``environment``: of this process.

    :raises NodeError: a secret is not there, not kept, or of no use now.
    """
    known = list(public(settings))
    if settings.auth == WORKLOAD:
        missing = [name for name in _OF_POD if not environment.get(name)]
        if missing:
            reason = "the environment lacks {0}, which a pod with a workload identity has".format(", ".join(missing))
            raise NodeError("auth workload", reason, "run it in such a pod, or choose another auth")
    if settings.auth == SPN:
        for name in ("application_id", "tenant_id", "secret_file"):
            if not getattr(settings, name):
                raise NodeError("auth spn", "no {0} is declared".format(name), "set checkpoint_" + name)
        known.append(("AZCOPY_SPA_CLIENT_SECRET", _secret(host, settings.secret_file, "secret_file", home)))
    if settings.auth != SAS_FILE:
        return Access(tuple(known))
    if not settings.sas_file:
        raise NodeError("auth sas_file", "no file is named", "set checkpoint_sas_file, or give --sas-file")
    query = _secret(host, settings.sas_file, "sas_file", home).lstrip("?")
    _check(settings.sas_file, query, rights, now)
    return Access(tuple(known), query)


def _secret(host: Host, path: str, option: str, home: str) -> str:
    thing = "{0} {1}".format(option, path)
    whole = home + path[1:] if path.startswith("~/") else host.path(path)
    try:
        handle = os.open(whole, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        reason = "it cannot be read ({0})".format(error.strerror)
        raise NodeError(thing, reason, "put it there, as a file of the user who runs this, with mode 0600") from error
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()):
            raise NodeError(thing, "it is no file of yours or of root's", "make it one")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise NodeError(thing, "others may read it, or write to it", "run 'chmod 600 {0}'".format(path))
        with os.fdopen(handle, "rb", closefd=False) as stream:  # which takes no folder
            text = stream.read(_MOST_BYTES + 1)
    finally:
        os.close(handle)
    try:
        secret = text.decode("ascii").strip()
    except UnicodeDecodeError:
        secret = ""
    if not secret or len(text) > _MOST_BYTES or not secret.isprintable() or " " in secret:
        raise NodeError(thing, "it does not hold one line of text", "write the secret alone into it")
    return secret


def _check(path: str, query: str, rights: str, now: float) -> None:
    """What the signature says of itself, so that the answer is not a bare 403 of the store."""
    thing = "sas_file " + path
    fields = parse_qs(query)
    if not _QUERY.fullmatch(query) or "sig" not in fields or "://" in query:
        remedy = "write the token alone into it, as in sv=...&se=...&sig=..."
        raise NodeError(thing, "it holds no shared access signature", remedy)
    clock = moment(now)
    ends, begins = (_moment(fields.get(name, [])) for name in ("se", "st"))
    if ends is not None and ends <= now:
        reason = "it expired at {0}, and this node's clock says {1}".format(fields["se"][0], clock)
        raise NodeError(thing, reason, "write a new one into it, or correct the clock")
    if begins is not None and begins > now:
        reason = "it begins at {0}, and this node's clock says {1}".format(fields["st"][0], clock)
        raise NodeError(thing, reason, "correct the clock (chronyc tracking), or issue one that begins earlier")
    granted = fields.get("sp", [rights])[0]  # by a stored access policy: the store knows
    missing = [_RIGHTS[one] for one in rights if one not in granted]
    if missing:
        raise NodeError(thing, "it does not grant: {0}".format(", ".join(missing)), "issue one that does")


def _moment(values: Sequence[str]) -> "float | None":
    for form in _TIMES if values else ():
        try:
            return float(calendar.timegm(time.strptime(values[0], form)))
        except ValueError:
            continue
    return None
