"""A chart of ratios of speed, as HTML that fits any width and either colour scheme."""

import math
from html import escape


def ratio_chart(rows):
    """Draw one bar per row from 1 to its ratio, on a logarithmic scale, and a mark at its goal.

    Parameters
    ----------
    rows : list of dict
        Rows of a benchmark with "name", "peer", "ratio" and "goal".

    Returns
    -------
    str
        HTML.
    """
    values = [value for row in rows for value in (row["ratio"], row["goal"]) if value]
    low, high = min([0.5, *values]), max([2.0, *values])

    def position(value):
        return 100 * math.log(value / low) / math.log(high / low)

    bars = "".join(_bar(row, position) for row in rows if row["ratio"])
    legend = (
        "Bars reach from 1, as fast as the peer, to the measured ratio; to the right this code is "
        "faster. The scale is logarithmic. A short line marks the goal."
    )
    return f'<div class="ratio-chart"><p>{legend}</p>{bars}</div>'


def _bar(row, position):
    ratio, goal = row["ratio"], row["goal"]
    start, end = sorted((position(1), position(ratio)))
    kind = "slower" if ratio < 1 else "faster"
    mark = "" if not goal else f'<i class="goal" style="left: {position(goal):.2f}%"></i>'
    peer = str(row["peer"] or "")
    label = row["name"] if peer in row["name"] else f"{row['name']} beside {peer}"
    return (
        f'<div class="bar"><span>{escape(label)}</span><b>{ratio:.2g}</b>'
        f'<div class="track"><i class="one" style="left: {position(1):.2f}%"></i>'
        f'<i class="{kind}" style="left: {start:.2f}%; width: {end - start:.2f}%"></i>'
        f"{mark}</div></div>"
    )
