"""A run as a picture (SVG): accounted memory by holder, and memory taken, over time.

Areas are the holders of `coscan.memory`, one above the other; lines are the process, the group's
usage and the limits. The gap between the areas and the process's line is memory that is taken but
not accounted.
"""

import watch

WIDTH, HEIGHT = 960, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 40, 40
AREAS = {
    "operators": "#4c78a8", "frames": "#72b7b2", "pages": "#9d755d", "arrays": "#eeca3b", "metadata": "#b279a2",
    "statements": "#ff9da6", "connections": "#54a24b",
}
LINES = {"the process": "#000000", "the group": "#e45756", "the group's limit": "#e45756", "coscan.memory": "#4c78a8"}
DASHED = ("the group's limit", "coscan.memory")
TICKS = 5


def values(samples):
    """Each line's points, as pairs of seconds and bytes."""
    of = {
        "the process": lambda s: s.get("resident"),
        "the group": lambda s: s["group"]["usage"] if s.get("group") else None,
        "the group's limit": lambda s: s["group"]["limit"] if s.get("group") else None,
        "coscan.memory": lambda s: (s.get("engine") or {}).get("limit"),
    }
    return {name: [(s["time"], get(s)) for s in samples if get(s)] for name, get in of.items()}


def stacked(samples):
    """For each holder the lower and the upper edge of its area: lists of (seconds, bytes)."""
    told = [sample for sample in samples if sample.get("engine")]
    below = [0] * len(told)
    for holder in watch.HOLDERS:
        above = [under + sample["engine"].get(holder, 0) for under, sample in zip(below, told)]
        times = [sample["time"] for sample in told]
        yield holder, list(zip(times, below)), list(zip(times, above))
        below = above


def step(most):
    """A round distance between ticks, so that there are about `TICKS`."""
    distance = 1
    while most / distance > TICKS:
        distance = distance * 2 if str(distance)[0] in "15" else distance * 5 // 2
    return distance


def draw(samples, title):
    lines = values(samples)
    times = [sample["time"] for sample in samples] or [1]
    most_s = max(1.0, *times)
    most_mib = max((value for points in lines.values() for _, value in points), default=watch.MIB) / watch.MIB * 1.05

    def at(point):
        x = LEFT + point[0] / most_s * (WIDTH - LEFT - RIGHT)
        y = HEIGHT - BOTTOM - point[1] / watch.MIB / most_mib * (HEIGHT - TOP - BOTTOM)
        return f"{x:.1f},{y:.1f}"

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escaped(title)}</text>',
    ]
    for mib in range(0, int(most_mib) + 1, step(most_mib)):
        x, y = at((0, mib * watch.MIB)).split(",")
        out.append(f'<line x1="{x}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{float(y) + 4}" text-anchor="end">{mib} MiB</text>')
    for seconds in range(0, int(most_s) + 1, step(most_s)):
        x = at((seconds, 0)).split(",")[0]
        out.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{seconds} s</text>')
    legend = []
    for holder, below, above in stacked(samples):
        points = " ".join(map(at, above + below[::-1]))
        out.append(f'<polygon points="{points}" fill="{AREAS[holder]}"/>')
        legend.append((holder, AREAS[holder], ""))
    for name, points in lines.items():
        if points:
            dashes = ' stroke-dasharray="5 4"' if name in DASHED else ""
            path = " ".join(map(at, points))
            out.append(f'<polyline points="{path}" fill="none" stroke="{LINES[name]}" stroke-width="1.5"{dashes}/>')
            legend.append((name, LINES[name], dashes))
    for number, (name, colour, dashes) in enumerate(legend):
        y = TOP + 10 + 18 * number
        out.append(
            f'<line x1="{WIDTH - RIGHT + 15}" y1="{y}" x2="{WIDTH - RIGHT + 40}" y2="{y}" '
            f'stroke="{colour}" stroke-width="{8 if name in AREAS else 1.5}"{dashes}/>'
        )
        out.append(f'<text x="{WIDTH - RIGHT + 46}" y="{y + 4}">{escaped(name)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")
