#!/usr/bin/env python3
"""Draws figures.json as chart.svg, both beside this script: one row of bars for each figure, on a logarithmic scale.

    benches/chart.py            writes chart.svg
    benches/chart.py --check    fails if chart.svg is not what figures.json gives
"""

import json
import math
import pathlib
import sys
from html import escape

HERE = pathlib.Path(__file__).parent
WIDTH, LEFT, BAR, GAP, HEAD = 760, 170, 16, 5, 30
COLOURS = ["#1f6feb", "#8b949e", "#8b949e", "#8b949e"]


def text(x, y, words, size=12, weight="normal"):
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}">{escape(words)}</text>'


def draw(figures):
    parts, y = [], 10
    for chart in figures["charts"]:
        parts.append(text(10, y + 14, chart["title"], 13, "bold"))
        y += HEAD
        known = [value for value in chart["values"] if value is not None]
        low, high = math.log(min(known) / 2), math.log(max(known))
        for server, value, colour in zip(figures["servers"], chart["values"], COLOURS):
            parts.append(text(10, y + 12, server))
            if value is None:
                parts.append(text(LEFT, y + 12, chart["missing"]))
            else:
                length = (math.log(value) - low) / (high - low) * (WIDTH - LEFT - 70)
                parts.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>')
                parts.append(text(LEFT + round(length, 1) + 6, y + 12, f"{value:g}"))
            y += BAR + GAP
        y += 12
    parts.append(text(10, y + 4, "Logarithmic scales; shorter is better. Sources: benches/figures.json.", 11))
    size = f'width="{WIDTH}" height="{y + 16}" viewBox="0 0 {WIDTH} {y + 16}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" fill="#24292f">'
    background = f'<rect width="{WIDTH}" height="{y + 16}" fill="#ffffff"/>'
    return "\n".join([head, background, *parts, "</svg>", ""])


svg = draw(json.loads((HERE / "figures.json").read_text()))
if sys.argv[1:] == ["--check"]:
    sys.exit(0 if (HERE / "chart.svg").read_text() == svg else "benches/chart.svg is not current: run benches/chart.py")
(HERE / "chart.svg").write_text(svg)
