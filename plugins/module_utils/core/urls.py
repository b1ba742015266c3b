# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""URLs in a text without what opens a door: a user with a password, a query, a token of conda. Pure.

What stays is a URL that works, so less is taken out than :mod:`.secrets` hides, which may hide too much: their patterns
differ on purpose.
"""

from __future__ import annotations

import re

_USER = re.compile(r"(?<=://)[^\s/?#\"'<>]*@")
# conda: split_anaconda_token of conda/common/url.py. Right below the host it is one where a channel and a platform
# follow; further down only one of the form that Anaconda gives (tk-..., er-...), as packages lie in folders "t", too.
_TOKEN = re.compile(r"(://[^\s/?#]{1,500})/t/[A-Za-z0-9-]+(?=/[^\s/?#]+/)")
_TOKEN_BELOW = re.compile(r"(://[^\s?#]{1,500}?)/t/[A-Za-z]{2}-[A-Za-z-]{0,40}[0-9][A-Za-z0-9-]*(?=[/\s\"']|$)")
_QUERY = re.compile(r"(://[^\s?#\"'<>]{1,2000})\?([^\s#\"'<>]*)")
# Names of keys and of signatures: shared access signatures of Azure, signed URLs of Amazon and Google.
_ACCESS = re.compile(r"(?:^|[&;])[\w.-]*(?:sig|sas|token|key|secret|pass|pwd|auth|credential)[\w.-]*=", re.IGNORECASE)


def shown(text: str) -> str:
    """For whoever reads it: no query at all, as its names are anybody's."""
    return _QUERY.sub(r"\1", _bare(text))


def same(text: str) -> str:
    """For comparing: a query stays that names another thing, and goes where it has an access key."""
    return _QUERY.sub(lambda one: one.group(1 if _ACCESS.search(one.group(2)) else 0), _bare(text))


def _bare(text: str) -> str:
    return _TOKEN_BELOW.sub(r"\1", _TOKEN.sub(r"\1", _USER.sub("", text)))
