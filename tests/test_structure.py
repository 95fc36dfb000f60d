"""Modules hold one idea, and stay short enough to be read as one."""

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
