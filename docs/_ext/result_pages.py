"""Directives ``reproduction-results`` and ``benchmark-results``: tables from JSON files.

Each file gets a section, with the heading and the explanation that the script which wrote it has
in its docstring.
"""

import ast
import math
import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from ratio_chart import ratio_chart
from result_files import read_benchmarks, read_reproductions

# "A  event sequences ...": a term, two spaces or more, its explanation.
_TERM = re.compile(r"(\S.{0,12}?) {2,}(?=\S)")


def heading_and_story(script):
    """Split the docstring of a script: its first sentence, and the rest as reStructuredText."""
    docstring = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8")))
    heading, _, story = docstring.partition("\n")
    lines, below_term = [], False
    for line in story.strip().split("\n"):
        term = _TERM.match(line)
        below_term = bool(term) or (below_term and line.startswith(" "))
        if term:
            lines += [term[1], "   " + line[term.end() :]]
        else:
            lines.append("   " + line.strip() if below_term else line)
    return heading.rstrip("."), "\n".join(lines)


def format_value(value):
    """Write a number with four significant digits, a truth value as yes or no."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(format_value(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {format_value(item)}" for key, item in value.items())
    return str(value)


def table_node(columns, rows, failed=()):
    """Build a docutils table; rows whose index is in ``failed`` get the class ``failed``."""
    table = nodes.table(classes=["results"])
    group = nodes.tgroup(cols=len(columns))
    table += group
    for _ in columns:
        group += nodes.colspec(colwidth=1)
    head, body = nodes.thead(), nodes.tbody()
    group += [head, body]
    head += _row(columns)
    for index, row in enumerate(rows):
        body += _row([format_value(cell) for cell in row], index in failed)
    return table


def _row(cells, failed=False):
    row = nodes.row(classes=["failed"] if failed else [])
    for cell in cells:
        entry = nodes.entry()
        entry += nodes.paragraph(text=cell)
        row += entry
    return row


def _columns(rows):
    """Keys of a list of dicts as they first appear; a key and its ``_sd`` share a column."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return [key for key in keys if not (key.endswith("_sd") and key[:-3] in keys)]


def _cell(row, key):
    """Write a value of a row, with its standard deviation over the seeds if there is one."""
    spread = row.get(f"{key}_sd")
    if spread is None or row[key] is None:
        return format_value(row.get(key))
    # As many decimals as the deviation has with two significant digits.
    decimals = max(0, 1 - math.floor(math.log10(spread))) if spread > 0 else 4
    decimals = min(decimals, 6)
    return f"{row[key]:.{decimals}f}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{spread:.{decimals}f}"


def _paragraph(label, value):
    paragraph = nodes.paragraph()
    paragraph += [nodes.strong(text=f"{label}: "), nodes.Text(format_value(value))]
    return paragraph


class _Results(Directive):
    """Read the JSON files of ``folder`` and lay out one section per file."""

    folder = ""
    script = ""
    nothing = ""

    def run(self):
        env = self.state.document.settings.env
        folder = Path(env.srcdir) / self.folder
        # The folder itself is a dependency, so that a new file is noticed.
        for path in [folder, *sorted(folder.glob("*.json"))]:
            env.note_dependency(str(path))
        results = self.read(folder)
        if not results:
            return [nodes.paragraph(text=self.nothing)]
        return [self.section(result, Path(env.srcdir)) for result in results]

    def section(self, result, source):
        page = result["page"]
        script = source.parent / self.script.format(page)
        section = nodes.section(ids=[nodes.make_id(f"{self.folder}-{page}")])
        if script.exists():
            self.state.document.settings.env.note_dependency(str(script))
            heading, story = heading_and_story(script)
        else:
            heading, story = page.replace("_", " "), ""
        section += nodes.title(text=heading)
        lines = StringList(story.splitlines(), source=str(script))
        self.state.nested_parse(lines, self.content_offset, section)
        section += self.layout(result)
        return section


class ReproductionResults(_Results):
    """Tables and gates of the reproductions."""

    folder = "reproductions"
    script = "examples/reproductions/{}.py"
    nothing = "No reproduction has been recorded yet."
    read = staticmethod(read_reproductions)

    @staticmethod
    def layout(result):
        columns = _columns(result["table"])
        failed = {i for i, gate in enumerate(result["gates"]) if not gate["holds"]}
        gates = [
            [gate["name"], gate["value"], gate["bound"], bool(gate["holds"])]
            for gate in result["gates"]
        ]
        return [
            table_node(columns, [[_cell(row, key) for key in columns] for row in result["table"]]),
            table_node(["claim", "measured", "bound", "holds"], gates, failed),
            _paragraph("Seeds", result["seeds"]),
            _paragraph("Machine", result["machine"]),
            _paragraph("Versions", result["versions"]),
            _paragraph("Seconds", result["seconds"]),
        ]


class BenchmarkResults(_Results):
    """Times of our code beside a named peer."""

    folder = "benchmarks"
    script = "tests/benchmarks/bench_{}.py"
    nothing = "No benchmark has been recorded yet."
    read = staticmethod(read_benchmarks)

    @staticmethod
    def layout(result):
        fields = ["name", "ours_s", "peer", "peer_s", "ratio", "goal", "holds"]
        titles = ["what", "skml (s)", "peer", "peer (s)", "ratio", "goal", "holds"]
        # holds is None where a row is reported without a goal.
        failed = {i for i, row in enumerate(result["rows"]) if row["holds"] is False}
        return [
            nodes.raw(text=ratio_chart(result["rows"]), format="html"),
            table_node(titles, [[row[f] for f in fields] for row in result["rows"]], failed),
            _paragraph("Machine", result["machine"]),
            _paragraph("Versions", result["versions"]),
        ]


def setup(app):
    app.add_directive("reproduction-results", ReproductionResults)
    app.add_directive("benchmark-results", BenchmarkResults)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
