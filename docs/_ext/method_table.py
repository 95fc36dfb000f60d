"""Directive ``method-table``: the methods of the README, with links into this documentation."""

import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList


def readme_rows(readme):
    """Rows of the README's table of methods as lists of five cells of Markdown."""
    rows = []
    for line in readme.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 5 and cells[2].startswith("`skml."):
            rows.append(cells)
    return rows


def method_table(readme):
    """Write the available methods as a table in reStructuredText, and the planned ones below."""
    rows = readme_rows(readme)
    text = ".. list-table::\n   :header-rows: 1\n   :class: prose\n\n"
    text += "   * - method\n     - paper\n     - classes and functions\n"
    for method, paper, subpackage, names, status in rows:
        if status == "available":
            module = subpackage.strip("`")
            objects = re.sub(r"`(\w+)`", rf":py:obj:`~{module}.\1`", names)
            text += f"   * - {_links(method)}\n     - {_links(paper)}\n     - {objects}\n"
    planned = [method for method, *_, status in rows if status == "planned"]
    if planned:
        text += "\nPlanned, and not there yet: " + "; ".join(planned) + ".\n"
    return text


def _links(markdown):
    text = re.sub(r"\[([^\]]+)\]\(docs/([^)]+)\.rst\)", r":doc:`\1 </\2>`", markdown)
    return re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r"`\1 <\2>`__", text)


class MethodTable(Directive):
    """The table of methods."""

    def run(self):
        env = self.state.document.settings.env
        readme = Path(env.srcdir).parent / "README.md"
        env.note_dependency(str(readme))
        lines = method_table(readme.read_text(encoding="utf-8")).splitlines()
        node = nodes.container()
        self.state.nested_parse(StringList(lines, source=str(readme)), self.content_offset, node)
        return node.children


def setup(app):
    app.add_directive("method-table", MethodTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
