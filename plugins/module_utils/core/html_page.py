# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The frame of our HTML pages: one file that needs nothing else, and still opens in an archive in ten years.

The policy in its head lets a browser run the page's own script, which it names by its hash, and load nothing.
"""

from __future__ import annotations

import html

SIGNS = {"pass": "✓", "warn": "!", "unknown": "?", "none": "∅", "fail": "✗"}
# Colours that differ in brightness too, for eyes that do not tell red from green; each cell has a sign as well.
STYLE = """
:root{--back:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--panel:#f6f8fa;
--pass:#c6e6d0;--pass-ink:#0b4a24;--warn:#ffd966;--warn-ink:#4a3300;--unknown:#c8b6e8;--unknown-ink:#2e1461;
--none:#8c959f;--none-ink:#fff;--fail:#b3261e;--fail-ink:#fff;--bar:#6a8fc0}
@media(prefers-color-scheme:dark){:root{--back:#0f1318;--ink:#e6edf3;--soft:#9aa5b1;--line:#30363d;--panel:#171c23;
--pass:#1f4d33;--pass-ink:#c9f2d8;--warn:#d9a521;--warn-ink:#1d1500;--unknown:#7d5cc0;--unknown-ink:#fff;
--none:#59636e;--none-ink:#fff;--fail:#f2594b;--fail-ink:#1d0503;--bar:#5b86bd}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:76rem;padding:1rem 1.5rem 3rem;background:var(--back);color:var(--ink);
font:15px/1.45 system-ui,"Segoe UI","DejaVu Sans",sans-serif}
h1{font-size:1.5rem;margin:.2rem 0}h2{font-size:1.15rem;margin:1.6rem 0 .6rem}h3{font-size:1rem;margin:0 0 .4rem}
.when,small,.remedy{color:var(--soft)}ul{list-style:none;margin:0;padding:0}
.badge{padding:.15rem .6rem;border-radius:.4rem;font-size:.85rem}
.pass.badge{background:var(--pass);color:var(--pass-ink)}
.warn.badge{background:var(--warn);color:var(--warn-ink)}
.unknown.badge{background:var(--unknown);color:var(--unknown-ink)}
.none.badge{background:var(--none);color:var(--none-ink)}
.fail.badge{background:var(--fail);color:var(--fail-ink)}
article{border:1px solid var(--line);border-radius:.5rem;background:var(--panel);padding:.7rem .9rem;margin:0 0 .6rem}
article li{display:flex;gap:.6rem;margin:.3rem 0;overflow-wrap:anywhere}
.sign{font-weight:700}
article li .sign{min-width:1.1rem;text-align:center}
code,pre{font:13px ui-monospace,"DejaVu Sans Mono",monospace;color:var(--soft)}
table{border-collapse:collapse;font-size:.88rem;margin:.4rem 1.5rem .4rem 0}td,th{padding:.1rem .8rem .1rem 0;
text-align:left;vertical-align:top}
.number{text-align:right;font-variant-numeric:tabular-nums}
details{margin:.6rem 0}summary{cursor:pointer}
"""


def document(title: str, body: str, style: str = "", script: str = "") -> str:
    """``body``, ``style`` and ``script`` are put in as they are; ``title`` is escaped."""
    policy, program = "default-src 'none'; style-src 'unsafe-inline'", ""
    if script:
        import base64
        import hashlib

        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy += "; script-src 'sha256-{0}'".format(digest)
        program = "<script>{0}</script>\n".format(script)
    return "".join(
        (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n',
            '<meta http-equiv="Content-Security-Policy" content="{0}">\n'.format(html.escape(policy)),
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="color-scheme" content="light dark">\n',
            "<title>{0}</title>\n<style>{1}{2}</style></head><body>\n".format(html.escape(title), STYLE, style),
            body,
            program,
            "</body></html>\n",
        )
    )
