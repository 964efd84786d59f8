"""Plots as SVG that follow the reader's light or dark colours, for README and the tables of resume.py, start.py, memory.py, cost.py."""

import html

STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 11px; fill: #59636e }
.middle { text-anchor: middle } .end { text-anchor: end }
.yes { fill: #1a7f37 } .no { fill: #cf222e } .none { fill: #6e7781 }
.one { fill: #0969da } .two { fill: #bf8700 }
.axis { stroke: #d1d9e0 } .line { fill: none; stroke-width: 2 }
.on { fill: #ffffff; font-weight: 600 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .small { fill: #9198a1 }
.yes { fill: #238636 } .no { fill: #da3633 } .none { fill: #656c76 }
.one { fill: #4493f8 } .two { fill: #d29922 }
.axis { stroke: #3d444d } .on { fill: #ffffff }
}
</style>"""


def text(x, y, words, kind=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{html.escape(str(words))}</text>'


def box(x, y, width, height, kind):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}" rx="2" class="{kind}"/>'


def rule(x, top, bottom):
    return f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}" class="axis"/>'


def document(width, height, title, description, body):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">\n'
        f"<title>{html.escape(title)}</title>\n<desc>{html.escape(description)}</desc>\n{STYLE}\n" + "\n".join(body) + "\n</svg>\n"
    )


def ticks(most):
    """Round numbers from 0 to the first that is not below the largest value."""
    step = 10.0 ** -6
    while most / step > 5:
        step *= 2.5 if f"{step:e}"[0] == "2" else 2
    count = int(-(-most // step))
    return [number * step for number in range(max(count, 1) + 1)]


def figure(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def bars(title, unit, rows, series, description):
    """Horizontal bars. `rows` has a name and a value of each series; None is not drawn and takes no room."""
    left, right, bar, gap = 250, 70, 13, 12
    height_of_row = max(sum(value is not None for value in values) for _, values in rows) * bar + gap
    top = 62
    plot = 760 - left - right
    bottom = top + len(rows) * height_of_row
    marks = ticks(max(value for _, values in rows for value in values if value is not None) or 1)
    scale = plot / marks[-1]
    body = [text(12, 24, title)]
    x = left
    for kind, name in zip(("one", "two"), series):
        body += [box(x, 36, 11, 11, kind), text(x + 16, 46, name, "small")]
        x += 30 + 6.2 * len(name)
    for mark in marks:
        body += [rule(left + mark * scale, top - 4, bottom), text(left + mark * scale, bottom + 16, f"{mark:g}", "small middle")]
    body.append(text(left + plot, bottom + 32, unit, "small end"))
    for place, (name, values) in enumerate(rows):
        y = top + place * height_of_row
        body.append(text(left - 8, y + height_of_row / 2, name, "end"))
        shown = [(kind, value) for kind, value in zip(("one", "two"), values) if value is not None]
        for number, (kind, value) in enumerate(shown):
            body.append(box(left, y + number * bar, value * scale, bar - 2, kind))
            body.append(text(left + value * scale + 5, y + number * bar + 10, figure(value), "small value"))
    return document(760, bottom + 44, title, description, body)
