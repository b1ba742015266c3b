# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The man page gpunode(1), in the macros that groff and mandoc share."""

from __future__ import annotations

import re
import textwrap
from typing import List

from .command import Argument, Command

NOTICE = r""".\" Copyright (c) 2026, trainyard.gpu_node contributors
.\" GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
.\" SPDX-License-Identifier: GPL-3.0-or-later
.\" Generated from the argument parser of gpunode by "make docs"; change it there.
"""
FILES = (
    ("/etc/gpu_node/node.json", "what was declared for this node; written by the modules, applied by gpunode apply"),
    ("/var/lib/gpu_node/", "what was set and cannot be read back, such as locked GPU clocks"),
    ("/opt/gpu_node/gpunode.pyz", "this command, with NVIDIA's Python binding inside"),
)
ENVIRONMENT = (
    ("NO_COLOR", "when set and not empty, there is no colour on a terminal either; elsewhere there is none anyway"),
    ("LC_ALL", "when it names no UTF-8 locale, drawings are made of ASCII characters"),
)
SEE_ALSO = "nvidia-smi(1), lstopo(1), numactl(8), taskset(1), srun(1), mpirun(1)"


def page(command: Command, version: str) -> str:
    lines = [NOTICE + '.TH GPUNODE 1 "" "trainyard.gpu_node {0}" "GPU nodes"'.format(escaped(version))]
    lines += [".SH NAME", "gpunode \\- " + paragraph(_first_small(command.description.rstrip(".")))]
    lines += [".SH SYNOPSIS"]
    runners = [one for one in command.every() if one.runs]
    for one in runners:
        lines += _synopsis(one) + [".br"]
    lines[-1:] = [".SH DESCRIPTION", paragraph(command.description)]
    lines += [
        ".PP",
        paragraph(
            "Every command prints text for people, and JSON for programs with --json. An error is one sentence on "
            "standard error: the thing, the reason and the remedy. With --json it is one document on standard output, "
            "in place of the answer, and nothing is printed on standard error."
        ),
        ".SH OPTIONS",
        *(line for argument in command.options if "--help" not in argument.flags for line in _argument(argument)),
        ".SH COMMANDS",
    ]
    for one in command.every()[1:]:
        lines += _section(one)
    lines += _blocks(command.epilog, ".SH {0}", upper=True)
    lines += [".SH ENVIRONMENT", *_terms(ENVIRONMENT), ".SH FILES", *_terms(FILES)]
    lines += [".SH SEE ALSO", escaped(SEE_ALSO)]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Text that roff takes as it stands: no escapes, no requests, a hyphen that can be copied."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in lines)


def paragraph(text: str) -> str:
    """Running text, in lines of the source that a difference can be read in."""
    lines = textwrap.wrap(text, 76, break_long_words=False, break_on_hyphens=False)
    return escaped("\n".join(lines))


def _first_small(text: str) -> str:
    return text[:1].lower() + text[1:]


def _synopsis(one: Command) -> List[str]:
    words = " ".join(("gpunode",) + one.words)
    forms = [_unbroken(argument.form) for argument in one.arguments if "--help" not in argument.flags]
    return [".B {0}".format(escaped(words)), *forms]


def _unbroken(form: str) -> str:
    """A form is not broken over lines: its spaces do not stretch and do not end a line."""
    return escaped(form).replace(" ", "\\ ")


def _section(one: Command) -> List[str]:
    lines = ['.SS "{0}"'.format(escaped(" ".join(("gpunode",) + one.words)))]
    text = one.description or one.summary[:1].upper() + one.summary[1:]
    lines += [paragraph(text if text.endswith(".") else text + ".")]
    for argument in one.arguments:
        if "--help" not in argument.flags:
            lines += _argument(argument)
    return lines + _blocks(one.epilog, ".PP\n.I {0}", upper=False)


def _argument(argument: Argument) -> List[str]:
    if argument.flags:
        value = argument.value or ""
        value = " [{0}]".format(value) if value and argument.optional_value else value and " " + value
        term = "\\fB{0}\\fR{1}".format(escaped(", ".join(argument.flags)), escaped(value))
    else:
        term = "\\fI{0}\\fR".format(escaped(argument.value or ""))
    return [".TP", term, paragraph(argument.help or "one of " + ", ".join(argument.choices))]


def _blocks(epilog: str, heading: str, upper: bool) -> List[str]:
    """The paragraphs of an epilog: ``examples:`` and indented lines as they are, sentences as text."""
    lines: List[str] = []
    for block in re.split(r"\n\s*\n", epilog.strip("\n")):
        head, dummy, rest = block.partition("\n")
        if head.endswith(":") and rest.startswith("  "):
            title = head[:-1]
            shown = title.upper() if upper else title[:1].upper() + title[1:]
            lines += [heading.format(escaped(shown)), *(() if upper else (".PP",)), ".nf", escaped(rest), ".fi"]
        elif block.strip():
            lines += [".PP", paragraph(" ".join(block.split()))]
    return lines


def _terms(pairs: "tuple[tuple[str, str], ...]") -> List[str]:
    return [line for term, text in pairs for line in (".TP", ".B {0}".format(escaped(term)), paragraph(text))]
