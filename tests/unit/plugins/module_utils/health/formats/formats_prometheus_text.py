# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A strict reader of Prometheus' text format 0.0.4, as strict as the textfile collector of the node exporter is.

Written from the page "Exposition formats" of Prometheus, independent of what is tested with it.
"""

from __future__ import annotations

import re

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE = re.compile(r"(?P<name>" + _NAME + r")(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
_TYPES = ("counter", "gauge", "histogram", "summary", "untyped")


def read(text):
    """{name: (type, {labels: value})}; an AssertionError for whatever the collector would drop the file for."""
    assert text.endswith("\n") and "\r" not in text
    families, current = {}, None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, dummy, text_of_help = line[7:].partition(" ")
            assert re.fullmatch(_NAME, name) and name not in families
            assert re.fullmatch(r"(?:[^\\]|\\\\|\\n)*", text_of_help)
            current, families[name] = name, [None, {}]
        elif line.startswith("# TYPE "):
            name, dummy, kind = line[7:].partition(" ")
            assert name == current and kind in _TYPES and families[name] == [None, {}]
            families[name][0] = kind
        elif not line.startswith("#"):
            found = _SAMPLE.fullmatch(line)
            assert found, line
            assert found.group("name") == current and families[current][0] is not None
            labels, rest = {}, found.group("labels") or ""
            while rest:
                label = _LABEL.match(rest)
                assert label, rest
                assert label.group(1) not in labels
                labels[label.group(1)] = re.sub(
                    r"\\(.)", lambda m: "\n" if m.group(1) == "n" else m.group(1), label.group(2)
                )
                rest = rest[label.end() :]
            key = tuple(sorted(labels.items()))
            assert key not in families[current][1], "a sample stands twice"
            families[current][1][key] = float(found.group("value"))
    assert all(kind and samples for kind, samples in families.values())
    return {name: (kind, samples) for name, (kind, samples) in families.items()}
