# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Style and script of the page."""

from __future__ import annotations

# Beside the style of all our pages.
STYLE = """
.counts{display:flex;flex-wrap:wrap;gap:.5rem}
.counts li{padding:.15rem .6rem;border-radius:.4rem;border:1px solid var(--line)}
.counts .pass,.grid .pass{background:var(--pass);color:var(--pass-ink)}
.counts .warn,.grid .warn{background:var(--warn);color:var(--warn-ink)}
.counts .unknown,.grid .unknown{background:var(--unknown);color:var(--unknown-ink)}
.counts .none,.grid .none{background:var(--none);color:var(--none-ink)}
.counts .fail,.grid .fail{background:var(--fail);color:var(--fail-ink)}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(1.7rem,1fr));gap:3px}
.grid button{height:1.7rem;border:0;border-radius:.25rem;font:inherit;font-weight:600;cursor:pointer;padding:0}
.grid button:focus-visible,.grid button.chosen{outline:3px solid var(--ink);outline-offset:1px}
#detail,figure{border:1px solid var(--line);border-radius:.5rem;background:var(--panel);padding:.7rem .9rem;
margin:0 0 .6rem}
#detail{margin-top:.8rem}#detail h3{margin-bottom:.5rem}
#detail li{display:flex;gap:.6rem;margin:.3rem 0;overflow-wrap:anywhere}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(22rem,1fr));gap:.6rem}
figure{margin:0}figcaption{overflow-wrap:anywhere}svg{width:100%;height:auto;display:block}
svg text{font-size:14px;fill:var(--soft)}.bars{fill:var(--bar)}.median{stroke:var(--ink);stroke-dasharray:3 3;fill:none}
.mark{fill:var(--fail)}.usual{stroke:var(--ink);stroke-width:2;fill:none}
.of-pass{fill:var(--pass)}.of-warn{fill:var(--warn)}.of-unknown{fill:var(--unknown)}.of-none{fill:var(--none)}
.of-fail{fill:var(--fail)}.used{fill:none;stroke:var(--ink);stroke-width:2}
"""

# Everything from the data goes in by textContent.
SCRIPT = """
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const panel = document.getElementById("detail");
function add(parent, name, words, style) {
  const made = document.createElement(name);
  if (words !== undefined) made.textContent = words;
  if (style) made.className = style;
  parent.appendChild(made);
  return made;
}
function show(host) {
  const [outcome, profile, checks, lines, figures] = data.nodes[host];
  panel.replaceChildren();
  const head = add(panel, "h3");
  add(head, "span", data.signs[outcome] + " " + data.words[outcome], "badge " + outcome);
  add(head, "span", " " + host + " ");
  add(head, "small", profile);
  const list = add(panel, "ul");
  for (const [how, words, check] of lines) {
    const item = add(list, "li", undefined, how);
    add(item, "span", data.signs[how], "sign");
    const told = add(item, "div", words + " ");
    add(told, "code", check);
  }
  const seen = add(add(panel, "details"), "summary", checks.length + " checks").parentNode;
  const table = add(seen, "table");
  for (const [number, how, words] of checks) {
    const row = add(table, "tr");
    add(row, "td", data.signs[how], "sign");
    add(row, "td", data.checks[number][0]);
    add(row, "td", data.checks[number][1]);
    add(row, "td", words || "");
  }
  const words = data.few && !figures.length ? "figures: in the drawings only" : figures.length + " figures";
  const measured = add(add(panel, "details"), "summary", words).parentNode;
  const values = add(measured, "table");
  const names = add(values, "tr");
  for (const name of ["figure", "least", "most", "median of its type", ""]) add(names, "th", name);
  for (const [number, least, most, odd] of figures) {
    const row = add(values, "tr");
    add(row, "td", data.figures[number][0]);
    for (const value of [least, most, data.figures[number][1]]) add(row, "td", String(value), "number");
    add(row, "td", odd ? "\\u25b2 outlier" : "");
  }
  panel.hidden = false;
  for (const cell of document.querySelectorAll(".grid button"))
    cell.classList.toggle("chosen", cell.dataset.host === host);
}
function follow() {
  let host = location.hash.slice(1);
  try { host = decodeURIComponent(host); } catch (error) { return; }
  if (Object.hasOwn(data.nodes, host)) show(host);
}
document.querySelector(".grid").addEventListener("click", event => {
  const host = event.target.dataset.host;
  if (host !== undefined) location.hash = encodeURIComponent(host);
});
addEventListener("hashchange", follow);
follow();
document.documentElement.dataset.ready = "yes";
"""
