# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hide what opens a door, in a sentence: passwords, tokens, access keys. Pure.

A sentence says why something failed, so a secret in it is known by its form alone, by ``NAME=`` right before it, or
because it is one elsewhere; of a whole log :mod:`..node.diagnose.secrets` hides all that follows the name of one. Every
repetition in a pattern is bounded or begins at the start of a word, so that no text makes it slow.
"""

from __future__ import annotations

import re
from typing import Iterable, List, Sequence, Tuple

from .host import Completed, Host
from .resource import NodeError

HIDDEN = "[hidden]"
NAME = (
    r"(?:pass(?:wor[dt]|wd|phrase|code)|(?<=[a-z_-])(?<!by)(?<!com)(?<!sur)(?<!tres)pass(?![a-z])|(?<![a-z])pw(?![a-z])"
    r"|bindpw|psk(?![a-z])|pwd"
    r"|secret|token|credential|bearer|cookie|jwt(?![a-z])"
    r"|(?:api|access|account|shared|storage|private|primary|secondary|master|encryption|signing"
    r"|license|munge)[-_. ]?key"
    r"|[-_]key(?![a-z])|(?<![a-z])(?:sig|sas)(?![a-z])|signature|connection[-_ ]?string|session[-_]?id"
    r"|(?<![a-z])auth(?:entication|orization|[-_]?info)?(?![a-z]))[\w.-]{0,40}"
)
# The quotes of JSON may stand in a string of JSON, and a name in brackets.
QUOTE = r"\\{0,3}[\"']"
# As a URL has it, an equals sign is %3D.
SIGN = r"(?:" + QUOTE + r")?\]?[ \t]{0,8}(?:=>|:=|[:=]|%3D)"
# A quote with a backslash before it ends nothing, at whatever depth.
QUOTED = r"(?P<quote>" + QUOTE + r")(?:(?!(?<!\\)(?P=quote))[^\n])*(?:(?P=quote)[^\s,;}\])&]*)?"
# The first group stays.
FORMS: Tuple[re.Pattern[str], ...] = (
    re.compile(
        r"((?<![a-z])(?:bearer|basic|digest|negotiate|sharedkey)[ \t]{1,8})(?!auth(?:entic|oriz)ation\b)"
        r"[\w+/=.~:-]{12,}",
        re.IGNORECASE,
    ),
    re.compile(r"(://)[^\s/]+(?=@)"),
    re.compile(r"(://[^\s?]{1,2000}\?)[^\s\"'<>]+"),
    # Forms of AWS, GitHub, GitLab, Slack, Hugging Face, NVIDIA NGC, OpenAI, Google, Stripe, Docker, Grafana,
    # DigitalOcean, Atlassian, age, Vault, npm, PyPI, SendGrid, JWT, and keys of Azure's stores.
    re.compile(r"((?<!\w))(?:AKIA|ASIA|AGPA|AROA)[0-9A-Z]{12,}"),
    re.compile(
        r"((?<!\w))(?:gh[pousr]_|github_pat_|gl(?:pat|dt|rt|ptt|ft|imt|agent|cbt|soat|oas)-|xox[a-z]-|xapp-|hf_|nvapi-"
        r"|sk-|[rs]k_(?:live|test)_|AIza|ya29\.|dckr_[a-z]at_|glsa_|do[oprt]_v1_|ATATT|AGE-SECRET-KEY-|pypi-Ag)[\w-]{12,}"
    ),
    re.compile(r"((?<![\w.]))(?:hv[sbr]\.[\w-]{12,}|npm_[A-Za-z0-9]{24,}|SG\.[\w-]{16,}\.[\w-]{16,})"),
    # Hashes of passwords as crypt(5) has them.
    re.compile(r"((?<![\w$]))\$(?:[1567]|2[abxy]?|g?y|sha1|argon2[a-z]{1,2})\$[\w./$=,+-]{12,}"),
    re.compile(r"((?<![\w-]))eyJ[\w-]{4,}\.[\w.-]{8,}"),
    re.compile(r"((?<![\w+/]))[A-Za-z0-9+/]{86}=="),
    # A key of Ceph: type 1, a time, 16 bytes.
    re.compile(r"((?<![\w+/]))AQ[A-Za-z0-9+/]{36}=="),
    # A channel of conda.
    re.compile(r"(://[^\s]{1,500}?/t/)[^\s/\"'<>]{6,}"),
)
_PARTS = re.compile(r"[\s:=,]+")
_ASSIGNED = re.compile("(" + NAME + "=(?!=))(?:" + QUOTED + r"|[^\s\"']\S*)", re.IGNORECASE)


# What is shorter guards nothing, and hiding it everywhere would garble the rest.
KNOWN_LENGTH = 6


def of_arguments(argv: Sequence[str]) -> List[str]:
    """Texts that may be a secret in a command whose arguments only root may read. Its program, its options, absolute
    paths and plain numbers are none. A part of an argument is one (``user:SECRET``, ``--key=SECRET``) unless it is an
    ordinary word."""
    found: List[str] = []
    for one in argv[1:]:
        if not one.startswith(("-", "/")):
            found.append(one)
        parts = _PARTS.split(one)[1:]
        if one.startswith("-") and not one.startswith("--"):
            parts.append(one[2:])  # -pSECRET
        found += [part for part in parts if not part.isalpha() or part.lower() != part]
    plain_words = (one for one in found if len(one) >= KNOWN_LENGTH and not one.isdigit())
    return list(dict.fromkeys(one for one in plain_words if not one.startswith("/")))


def run(host: Host, argv: Sequence[str], timeout_seconds: float) -> Completed:
    """Run a command whose arguments may contain an access key: no error shows them.

    :raises NodeError: as :meth:`.host.Host.run`.
    """
    try:
        return host.run(argv, timeout_seconds)
    except NodeError as error:
        raise NodeError(argv[0], hide(error.reason, of_arguments(argv)), error.remedy) from None


def hide(text: str, known: Iterable[str] = ()) -> str:
    """``known`` are hidden wherever they stand, however short they are."""
    words = sorted(filter(None, known), key=len, reverse=True)
    if words:
        text = re.sub("|".join(map(re.escape, words)), HIDDEN, text)
    for rule in (_ASSIGNED, *FORMS):
        text = rule.sub(r"\g<1>" + HIDDEN, text)
    return text
