# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pictures under docs/pictures, drawn by the collection itself from simulated nodes.

``node.svg`` is what `gpunode topo --svg` prints. ``health_report.svg`` is the page of the callback health_report over
verdicts of `gpunode health`, put into an SVG picture without its script: a README may show a picture and no page.
"""

from __future__ import annotations

import html
import html.parser
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from . import simulated_node

ROOT = simulated_node.ROOT
# Node, what is done to its simulated GPUs, and files that are put over its tree.
TROUBLES: Tuple[Tuple[str, Tuple[str, ...], Dict[str, str]], ...] = (
    ("gpu-05", ("fault gpu 3 lost",), {}),
    ("gpu-09", ("nvlink 6 4 down",), {}),
    ("gpu-14", ("remap 1 uncorrectable 1 pending",), {}),
    ("gpu-18", (), {"sys/class/infiniband/mlx5_ib2/ports/1/state": "1: DOWN"}),
)
NODES = 24
UNREACHED = {"gpu-21": "it was not reached (Connection timed out)"}
# They look at the machine that the documentation is made on.
LEFT_OUT = ("--without", "filesystem_space", "--without", "nvme_smart")
# 2026-01-01 07:00 UTC, as the pages must not change with the hour.
TIME = 1_767_250_800.0
WIDTH, HEIGHT = 1040, 940
VOID = ("br", "meta", "path")
FRAME = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" \
style="width:{width}px;height:{height}px" role="img">
<title>{title}</title>
<style>{style}
svg{{background:var(--back)}}</style>
<foreignObject width="{width}" height="{height}">
<body xmlns="http://www.w3.org/1999/xhtml">
{body}</body>
</foreignObject>
</svg>
"""
# In a process of its own, since the report is imported as Ansible imports it.
RENDER = """
import json, sys
from {0}.plugins.plugin_utils.health_report import model, page
given = json.load(sys.stdin)
print(page.page(model.report(given["verdicts"], given["missing"]), "GPU node health"), end="")
""".format(simulated_node.COLLECTION)


class _Static(html.parser.HTMLParser):
    """The style of a page, and its body as XML without what only a script shows."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.style, self.body = "", ""
        self._at: List[str] = []
        self.feed(page)
        self.close()

    @property
    def _shown(self) -> bool:
        return "body" in self._at and "script" not in self._at

    def handle_starttag(self, tag: str, attributes: List[Tuple[str, Optional[str]]]) -> None:
        if tag not in VOID:
            self._at.append(tag)
        if self._shown and tag != "body":
            words = "".join(' {0}="{1}"'.format(name, html.escape(value or name)) for name, value in attributes)
            self.body += "<{0}{1}{2}>".format(tag, words, "/" if tag in VOID else "")

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if self._shown and tag != "body":
            self.body += "</{0}>".format(tag)
        self._at.pop()

    def handle_data(self, data: str) -> None:
        if self._at[-1:] == ["style"]:
            self.style += data
        elif self._shown:
            self.body += html.escape(data)


def picture_of(page: str, title: str) -> str:
    """The page as it stands before anything in it is chosen."""
    static = _Static(page)
    return FRAME.format(
        width=WIDTH, height=HEIGHT, title=html.escape(title), style=static.style.strip(), body=static.body.lstrip()
    )


def verdicts(built: Path, folder: Path) -> Dict[str, Any]:
    """Of a small fleet: the nodes with a trouble each, and healthy ones, which are all alike."""
    names = ["gpu-{0:02d}".format(number) for number in range(1, NODES + 1)]
    found = {}
    for name, faults, files in (("healthy", (), {}), *TROUBLES):
        node = simulated_node.Node(built, folder / name, name)
        node.simulate("set", "gpu.persistence_mode", "1")
        for fault in faults:
            node.simulate(*fault.split())
        for path, content in files.items():
            node.write(path, content)
        found[name] = dict(node.health(*LEFT_OUT), time=TIME)
    return {name: found.get(name, found["healthy"]) for name in names if name not in UNREACHED}


def generate(root: Path) -> Dict[Path, str]:
    """Every picture with its whole text.

    :raises SystemExit: when a simulated node cannot be made or asked, with the reason.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()  # the control program compares paths with its own
        built = folder / "simulator"
        make = ["make", "--silent", "-C", str(ROOT / "tools" / "nvml_simulator"), "OUT={0}".format(built)]
        if subprocess.run(make, check=False).returncode != 0:
            raise SystemExit("docs: the NVML simulator was not built; run make setup, which installs gcc and make.")
        drawing = simulated_node.Node(built, folder / "drawn", "nd96asr-v4").gpunode("topo", "--svg", "-")
        given = json.dumps({"verdicts": verdicts(built, folder), "missing": UNREACHED})
    done = subprocess.run(
        [sys.executable, "-c", RENDER],
        env=dict(simulated_node.bytecode(), PYTHONPATH=str(simulated_node.LINKED)),
        cwd=str(ROOT),
        input=given,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit("docs: the health report was not made: {0}".format(done.stderr.strip()))
    pictures = root / "docs" / "pictures"
    return {
        pictures / "node.svg": drawing,
        pictures / "health_report.svg": picture_of(done.stdout, "The health report of a fleet of simulated nodes"),
    }
