# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hide what opens a door: passwords, tokens, access keys, private keys. Pure.

A secret is known by the name before it, by its form, or because it is one elsewhere on the node. It is hidden to the
end of the word, and where a value may have blanks, to the end of the line: a line too little costs less than a key too
much. Every repetition in a pattern is bounded or begins at the start of a word, so that no text makes it slow.
"""

from __future__ import annotations

import bisect
import re
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Match, Sequence, Tuple

from ...core.secrets import FORMS, HIDDEN, KNOWN_LENGTH, NAME, QUOTE, QUOTED, SIGN

# More than an RSA key of 16384 bits or a key ring of OpenPGP has.
_KEY_LINES = 1000

_SECRET_NAME = re.compile(NAME, re.IGNORECASE)
# A word of a command by itself; with a sign in it the value is in the same word.
_OPTION = re.compile(r"--?[\w-]{0,40}?" + NAME, re.IGNORECASE)
_I = re.IGNORECASE
# A word with a small letter, a capital and a digit.
_MIXED = r"(?=\S{0,200}[a-z])(?=\S{0,200}[A-Z])(?=\S{0,200}\d)"
_OUTCOME = "true|false|yes|no|none|null|ok|pass|passed|fail|failed|warn|unknown|skipped"
# Programs with options of one letter for a password, and these letters.
_LETTERS = (
    (r"ipmi\w{0,20}", "P"),
    (r"ldap\w{0,20}", "w"),
    (r"snmp\w{0,20}", "cAX"),  # community; pass phrases of version 3
    (r"mongo\w{0,20}", "p"),
    (r"redis-cli", "a"),
    (r"sqlcmd|bcp", "P"),
)
# The first group stays. These hold for the words of a command, in a line or in a list.
_COMMANDS: Tuple[re.Pattern[str], ...] = (
    # --NAME WORD
    re.compile(r"((?<![\w-])--?[\w-]{0,40}?" + NAME + r"[ \t]{1,8})(?:" + QUOTED + r"|[^\s\"']\S*)", _I),
    # USER:SECRET, which is not UID:GID
    re.compile(
        r"((?<!\S)(?:-u|--(?:proxy-)?user|--(?:\w{1,10}-)?creds)[ =]{0,8})(?!\d{1,8}:\d{1,8}(?!\S))"
        r"(?:[\"'][^\"'\n:]{0,200}:[^\"'\n]*|[^\s:]{0,200}:\S+)"
    ),
    # In the same word only: with a blank after it, mysql asks for the password, and the next word is a database.
    re.compile(r"((?<![\w-])(?:mysql\w{0,20}|mariadb\w{0,20})[ \t][^\n|;]{0,400}?(?<!\S)-p)(?![ \t\n])\S+"),
    *(
        re.compile(
            r"((?<![\w-])(?:{0})[ \t][^\n|;]{{0,400}}?(?<!\S)-[{1}][ \t]{{0,8}})(?:".format(program, letters)
            + QUOTED
            + r"|[^\s\"']\S*)"
        )
        for program, letters in _LETTERS
    ),
    # Programs that take a key as a bare word.
    re.compile(
        r"((?<![\w-])(?:wandb|huggingface-cli|hf|ngc|gh)[ \t]{1,8}(?:auth[ \t]{1,8})?login[ \t]{1,8})(?!-)\S{16,}"
    ),
    re.compile(r"((?<!\w)sshpass[ \t]{1,8}-p)[ \t]{0,8}\S+"),
    re.compile(r"((?<!\w)login[ \t][^\n]{0,400}?[ \t]-p[ \t]{1,8})\S+"),
    re.compile(r"((?<!\w)set[ \t]{1,8}password[ \t]{1,8})[^\n]+", _I),
    re.compile(r"((?<![\w-])aws[ \t][^\n|;]{0,200}?(?<!\S)set[ \t]{1,8}[\w.-]{0,60}?" + NAME + r"[ \t]{1,8})\S+", _I),
    re.compile(r"((?<!\S)preshared-key[ \t]{1,8})(?!/)\S+"),
)
_PAIR_NAME = (
    "(?:" + QUOTE + ")?(?:name|key)(?:" + QUOTE + r")?[ \t]{0,8}[:=][ \t]{0,8}(?:" + QUOTE + r")?[\w.-]{0,40}?" + NAME
)
_PAIR_VALUE = r"(?<![\w-])(?:" + QUOTE + ")?value(?:" + QUOTE + r")?[ \t]{0,8}[:=][ \t]{0,8}"
_PLAIN = r"(?!" + QUOTE + r"?(?:[\d.]{1,12}%?|" + _OUTCOME + r")(?:" + QUOTE + r")?[ \t]{0,8}(?:[,}\]]|$))"
# The first group stays.
_RULES: Tuple[re.Pattern[str], ...] = (
    # {"name": NAME, "value": WORD}, in both orders
    re.compile(
        r"((?<![\w-])"
        + _PAIR_NAME
        + "(?:"
        + QUOTE
        + r")?[ \t]{0,8},[ \t]{0,8}(?:[^{}\n]{0,200}?,[ \t]{0,8})?"
        + _PAIR_VALUE
        + ")"
        + _PLAIN
        + "(?:"
        + QUOTED
        + r"|[^\s\"',}]+)",
        _I,
    ),
    re.compile(
        "(" + _PAIR_VALUE + ")" + _PLAIN + "(?:" + QUOTED + r"|[^\s\"',}]+)(?=[ \t]{0,8},[ \t]{0,8}" + _PAIR_NAME + ")",
        _I,
    ),
    # A key of a keyring: base64 to its end.
    re.compile(
        r"((?<![\w-])key(?:"
        + QUOTE
        + r")?[ \t]{0,8}[:=][ \t]{0,8}(?:"
        + QUOTE
        + r")?)[A-Za-z0-9+/]{16,200}={1,2}(?![\w=])"
    ),
    # Of these a value has blanks as a rule.
    re.compile("((?:authorization|cookie|passphrase)" + SIGN + r"[ \t]{0,8})(?:" + QUOTED + r"|[^\s\"'][^\n]*)", _I),
    # NAME=WORD, NAME = ALL OF A LINE, NAME: ALL OF A LINE, "NAME": "STRING"
    re.compile("(" + NAME + SIGN + r"[ \t]{0,8})(?:" + QUOTED + r"|(?<==)[^\s\"']\S*|[^\s\"'][^\n]*)", _I),
    # A bare "pass" is a password only if its value is neither a count nor an outcome; in capitals it is a test result.
    re.compile(
        r"((?<![\w-])(?:pass|(?i:pass)(?==)|PASS(?=:[ ]{0,8}" + _MIXED + "))" + SIGN + r"[ \t]{0,8})"
        r"(?![\"']?(?:[\d.]+%?|(?i:" + _OUTCOME + r"))(?:[\s\"',;]|$))"
        r"(?:" + QUOTED + r"|[^\s\"',;]{4,}(?=[,;&}\])]|\s*$|\s+\w+=))"
    ),
    # NAME WORD, where the word has letters and digits.
    re.compile(
        r"((?:passw(?:or)?d|passphrase|passcode|secret|token|credential|api[-_]?key|pwd)[ \t]{1,8})"
        r"(?=\S{0,80}[a-z])(?=\S{0,80}\d)[^\s:\"',]{8,}",
        _I,
    ),
    re.compile(r"((?<![\w-])(?i:pass)[ \t]{1,8})" + _MIXED + r"[^\s:\"',]{10,}"),
    # In a sentence, and after a keyword of a configuration file.
    re.compile("(" + NAME + r"[ \t]{1,8}(?:is|was)[ \t]{1,8})[^\n]+", _I),
    re.compile(r"((?:^|(?<=\n))[ \t]{0,8}(?:requirepass|masterauth|bindpw|r[ow]community6?)[ \t]{1,8})\S+", _I),
    *_COMMANDS,
    # .netrc
    re.compile(r"((?:^[ \t]{0,8}|(?<!\w)login[ \t]{1,8}\S{1,200}[ \t]{1,8})pass(?:word|wd)[ \t]{1,8})\S+", _I),
    re.compile(r"(<[\w:.-]{0,40}?" + NAME + r"[^<>\n]{0,80}>)[^<\n]+", _I),
    *FORMS,
)
# A line without any of these has nothing for the rules.
_WORDS = (
    "pass pwd secret token credential bearer cookie key sig sas connection session auth -u --user --proxy-user login "
    "basic digest negotiate :// akia asia agpa aroa ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xox hf_ nvapi- sk- "
    "xapp- k_live_ k_test_ ya29. dckr_ glsa_ _v1_ atatt pypi-ag hvs. hvb. hvr. npm_ sg."
    " $1$ $2 $5$ $6$ $7$ $y$ $gy$ $sha1$ $argon2 gldt- glrt- glptt- "
    "glft- glimt- glagent- glcbt- glsoat- gloas- aiza eyj == pw psk jwt community masterauth "
    "wandb ngc %3d mysql maria ipmi ldap snmp mongo redis-cli sqlcmd bcp creds"
).split()
# A list of two words or more, in quotes or as YAML has it; the words of a command may be in it.
_WORD = r"(?:(?!(?<!\\)\1)[^\n]){0,400}"
_LIST = re.compile("(" + QUOTE + ")" + _WORD + r"\1(?:\s{0,80},\s{0,80}\1" + _WORD + r"\1)+")
_ITEM = re.compile("(" + QUOTE + ")(" + _WORD + r")\1")
_BLOCK = re.compile(r"(?:(?:^|(?<=\n))[ \t]{0,40}- [^\n]*(?:\n|$)){2,}")
_LINE = re.compile(r"((?:^|(?<=\n))[ \t]{0,40}- [\"']?)([^\n]*?)(?=[\"']?(?:\n|$))")
_NAMED = re.compile(r"[ \t]*(?:- )?[ \t]{0,8}" + _PAIR_NAME + "(?:" + QUOTE + r")?,?[ \t]*$", _I)
_VALUE = re.compile(r"([ \t]*(?:- )?[ \t]{0,8}" + _PAIR_VALUE + ")" + _PLAIN + r"(?=[^\s])", _I)
_OPENS = re.compile(r"[|>][-+0-9]{0,3}[ \t]*$")
# The value stands below the name, in lines that are indented (YAML, JSON), or in the next line.
_BELOW = re.compile(NAME + SIGN + r"[ \t]{0,8}(?:[|>][-+0-9]{0,3}|[\[{(])?[ \t]{0,8}$", _I)
_OPENING = "|>[{(:=\\+-0123456789"
_NEXT = re.compile(NAME + r"(?:=$|(?:" + SIGN + r")?[ \t]{0,8}\\$)", _I)
_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_OF_KEY = re.compile(r"(?:[^\n]{0,100}[ \t:])?[A-Za-z0-9+/=]{16,}|(?:Proc-Type|DEK-Info|Version|Comment):.*|\s*")
# Control characters, and what turns the direction of a text round or is no character at all.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


# They would hide the name of a secret from the rules: sequences of a terminal, and characters without a width.
_INVISIBLE = re.compile("\x1b\\[[0-9;?]*[ -/]*[@-~]|[\u00ad\u200b-\u200d\u2060\ufeff]")
_SIMILAR = {ord(one): " " for one in "\u00a0\u2007\u202f\u3000"}
_SIMILAR.update({0xFF1A: ":", 0xFF1D: "=", 0xFE55: ":"})


def plain_text(text: str) -> str:
    """A text that any terminal shows: lines and tabs stay, colours and invisible characters are removed."""
    return _UNFIT.sub("?", _INVISIBLE.sub("", text.replace("\r\n", "\n")).translate(_SIMILAR))


def after_cut(text: str) -> str:
    """A text whose front was cut off, from its first whole line on."""
    return text[text.find("\n") + 1 :] if "\n" in text else ""


def before_cut(text: str) -> str:
    """A text whose end was cut off, up to its last whole line."""
    return text[: text.rfind("\n") + 1]


def _suspect(line: str) -> bool:
    low = line.lower()
    return any(word in low for word in _WORDS)


def secret_name(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def secrets_of(value: Any, below: bool = False) -> List[str]:
    """The texts of a document that stand under the name of a secret."""
    if isinstance(value, dict):
        return [one for name, inner in value.items() for one in secrets_of(inner, below or secret_name(str(name)))]
    if isinstance(value, (list, tuple)):
        return [one for inner, told in _words(value) for one in secrets_of(inner, below or told)]
    return [value] if below and isinstance(value, str) else []


def _without_arguments(words: Sequence[str]) -> List[str]:
    """The words of a command without its secrets: they are found as in a line of a shell."""
    line = " ".join(re.sub(r"\s", "_", one) for one in words)
    kept = list(words)
    if not _suspect(line):
        return kept
    begins = [0]
    for one in words:
        begins.append(begins[-1] + len(one) + 1)
    cuts: Dict[int, int] = {}
    for rule in _COMMANDS:
        for found in rule.finditer(line):
            first = found.end() - len(line[found.end(1) : found.end()].lstrip())
            for number in range(bisect.bisect_right(begins, first) - 1, bisect.bisect_left(begins, found.end())):
                cuts[number] = min(cuts.get(number, len(line)), max(first - begins[number], 0))
    for number, cut in cuts.items():
        kept[number] = words[number][:cut] + HIDDEN
    return kept


def _of_pair(value: Mapping[Any, Any]) -> bool:
    """Whether it is the pair of the name of a secret and its value, as a container has its environment."""
    names = [inner for name, inner in value.items() if str(name).lower() in ("name", "key")]
    return any(isinstance(one, str) and secret_name(one) for one in names)


def _is_plain(value: Any) -> bool:
    return not isinstance(value, (dict, list, str)) or isinstance(value, str) and not re.match(_PLAIN, value, _I)


def _words(value: Sequence[Any]) -> Iterator[Tuple[Any, bool]]:
    """Each of a list, and whether the one before it is an option of a command that takes a secret."""
    told = False
    for one in value:
        yield one, told
        told = isinstance(one, str) and _OPTION.fullmatch(one) is not None


class Filter:
    """``known`` are texts that are hidden wherever they stand. ``hidden`` counts."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = sorted({one for one in known if len(one) >= KNOWN_LENGTH}, key=lambda one: (-len(one), one))
        self.hidden = 0

    def text(self, text: str) -> str:
        """Printable, and without secrets."""
        for one in self._known:
            if one in text:
                self.hidden += text.count(one)
                text = text.replace(one, HIDDEN)
        text = plain_text(text)
        text = _LIST.sub(lambda one: self._list(one.group(0), _ITEM), text)
        text = _BLOCK.sub(lambda one: self._list(one.group(0), _LINE), text)
        lines = self._without_blocks(self._without_keys(text.split("\n")))
        return "\n".join(self._line(line) for line in lines)

    def tree(self, value: Any, below: bool = False) -> Any:
        """A document of JSON: each text in it without secrets, and nothing that stands under the name of one."""
        if isinstance(value, dict):
            pair = _of_pair(value)
            return {
                self.text(str(name)): self.tree(
                    inner,
                    below or secret_name(str(name)) or (pair and str(name).lower() == "value" and not _is_plain(inner)),
                )
                for name, inner in value.items()
            }
        if isinstance(value, (list, tuple)):
            if value and all(isinstance(one, str) for one in value):
                return [self.tree(one, below or told) for one, (dummy, told) in zip(self._argv(value), _words(value))]
            return [self.tree(inner, below or told) for inner, told in _words(value)]
        if value is None or isinstance(value, bool):
            return value
        if below:
            self.hidden += 1
            return HIDDEN
        return self.text(value) if isinstance(value, str) else value

    def _argv(self, words: Sequence[str]) -> List[str]:
        kept = _without_arguments(words)
        self.hidden += sum(1 for one, other in zip(kept, words) if one != other)
        return kept

    def _list(self, text: str, item: re.Pattern[str]) -> str:
        """``item``: its second group is a word."""
        found = list(item.finditer(text))
        pieces, end = [], 0
        for one, word in zip(found, self._argv([one.group(2) for one in found])):
            pieces += [text[end : one.start(2)], word]
            end = one.end(2)
        return "".join([*pieces, text[end:]])

    def _line(self, line: str) -> str:
        if _suspect(line):
            for rule in _RULES:
                line = rule.sub(self._replaced, line)
        return line

    def _replaced(self, found: Match[str]) -> str:
        kept: str = found.group(1)
        if found.group(0) != kept + HIDDEN:
            self.hidden += 1
        return kept + HIDDEN

    def _without_keys(self, lines: List[str]) -> List[str]:
        """A key in one line (as JSON has it) or in many; one whose begin is missing is known by its end."""
        kept: List[str] = []
        inside = 0
        for line in lines:
            if inside:
                end = _END.search(line)
                inside = 0 if end else inside - 1
                if end is None:
                    continue
                line = line[end.end() :]
            begin = _BEGIN.search(line)
            while begin is not None:
                self.hidden += 1
                end = _END.search(line, begin.end())
                line = line[: begin.start()] + HIDDEN + (line[end.end() :] if end else "")
                inside = 0 if end else _KEY_LINES
                begin = _BEGIN.search(line)
            end = _END.search(line)
            if end is not None:
                self.hidden += 1
                line = HIDDEN + line[end.end() :]
                while kept and _OF_KEY.fullmatch(kept[-1]):
                    kept.pop()
            kept.append(line)
        return kept

    def _hidden_value(self, line: str) -> str:
        self.hidden += 1
        return _VALUE.sub(r"\g<1>" + HIDDEN + "\n", line, count=1).partition("\n")[0]

    def _without_blocks(self, lines: List[str]) -> List[str]:
        kept: List[str] = []
        depth, following, named, value_at = -1, False, False, -1
        for line in lines:
            pair = _VALUE.match(line) if "value" in line.lower() else None
            if pair is None:
                if _suspect(line) and _NAMED.match(line):
                    named = True
                    if value_at == len(kept) - 1 >= 0:
                        kept[-1] = self._hidden_value(kept[-1])
                else:
                    named = False
            elif named and not _OPENS.match(line, pair.end()):
                line, named = self._hidden_value(line), False
            else:
                value_at = len(kept)
            bare = line.lstrip(" \t")
            indent = len(line) - len(bare)
            if following or (depth >= 0 and bare and (indent > depth or (indent == depth and bare.startswith("- ")))):
                following = line.endswith("\\")
                line = line[:indent] + HIDDEN
                self.hidden += 1
            elif bare:
                opens = _suspect(line) and bare.rstrip(" \t")[-1:] in _OPENING
                opens_value = named and pair is not None and _OPENS.match(line, pair.end()) is not None
                depth = indent if opens_value or opens and _BELOW.search(line) else -1
                following = opens and _NEXT.search(line) is not None
            kept.append(line)
        return kept
