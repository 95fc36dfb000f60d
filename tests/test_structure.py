"""Modules hold one idea, stay short enough to be read as one, and are named in one way."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 500
SOURCES = sorted(
    path
    for folder, endings in (("skml", {".py"}), ("ext", {".pyx", ".pxd", ".c", ".h"}))
    for path in (ROOT / folder).rglob("*")
    if path.suffix in endings
)


def test_sources_are_found():
    folders = {path.relative_to(ROOT).parent.as_posix() for path in SOURCES}
    assert {"skml", "skml/tree", "skml/utils", "ext/tree", "ext/quantization"} <= folders


def test_no_module_is_too_long_to_be_read():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert not {name: length for name, length in lengths.items() if length > LONGEST}


def test_neighbours_are_imported_relatively():
    """From the same folder ``from ._module import``, from elsewhere the whole name."""
    wrong = []
    for path in SOURCES:
        if path.suffix != ".py":
            continue
        folder = ".".join(path.relative_to(ROOT).parent.parts)
        neighbours = {folder, *(f"{folder}.{other.stem}" for other in path.parent.iterdir())}
        wrong += [
            f"{path.relative_to(ROOT)}:{node.lineno}"
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
            and (node.level > 1 or (not node.level and node.module in neighbours))
        ]
    assert not wrong
