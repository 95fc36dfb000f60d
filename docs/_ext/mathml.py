"""Render mathematics as MathML, which browsers draw without a script, a font or a network."""

from html import escape

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.errors import ExtensionError

# What Sphinx lets several lines of a formula stand in.
_ALIGNED = r"\begin{{aligned}}{}\end{{aligned}}"


def to_mathml(latex, *, display):
    """Return the MathML of a formula; a formula that cannot be read stops the build."""
    latex = latex.strip()
    if display and r"\\" in latex and r"\begin{" not in latex:
        latex = _ALIGNED.format(latex)
    try:
        return convert(latex, display="block" if display else "inline")
    except Exception as error:
        raise ExtensionError(f"cannot render the formula {latex!r}: {error!r}") from error


def visit_inline(translator, node):
    mathml = to_mathml(node.astext(), display=False)
    translator.body.append(f'<span class="math">{mathml}</span>')
    raise nodes.SkipNode


def visit_display(translator, node):
    mathml = to_mathml(node.astext(), display=True)
    name = f' id="{escape(node["ids"][0])}"' if node["ids"] else ""
    translator.body.append(f'<div class="math"{name}>{mathml}</div>')
    raise nodes.SkipNode


def setup(app):
    """Register the renderer under the name "mathml"."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
