"""The reproductions run, and what they have recorded is whole and agrees with itself."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted(
    path
    for path in (ROOT / "examples" / "reproductions").glob("*.py")
    if not path.name.startswith("_")
)
RECORDS = sorted((ROOT / "docs" / "reproductions").glob("*.json"))
KEYS = {"page", "table", "gates", "seeds", "versions", "machine", "seconds"}


@pytest.fixture(scope="module")
def report():
    path = ROOT / "examples" / "reproductions" / "_report.py"
    spec = importlib.util.spec_from_file_location("_report", path)
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    sys.modules["_report"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["_report"]


def assert_sound(record, page, report):
    assert record.keys() >= KEYS
    assert record["page"] == page
    assert record["table"]
    assert all(isinstance(row, dict) and row for row in record["table"])
    assert record["gates"]
    for gate in record["gates"]:
        assert gate.keys() == {"name", "value", "bound", "holds"}
        assert gate["holds"] == report.gate_holds(gate), gate["name"]
    assert record["seeds"]
    assert all(isinstance(seed, int) for seed in record["seeds"])
    assert {"python", "skml", "numpy", "scikit-learn"} <= record["versions"].keys()
    assert "core" in record["machine"]
    assert "/" not in record["machine"]
    assert record["seconds"] >= 0


def test_there_is_something_to_run():
    assert SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_quick_run(script, tmp_path, report):
    record = ROOT / "docs" / "reproductions" / f"{script.stem}.json"
    before = record.read_bytes() if record.exists() else None
    output = tmp_path / "record.json"
    finished = subprocess.run(
        [sys.executable, str(script), "--quick", "--output", str(output)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg"},
        timeout=240,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    content = json.loads(output.read_text(encoding="utf-8"))
    assert_sound(content, script.stem, report)
    assert content["quick"] is True
    # The table is printed, row for row, under its head and a rule.
    assert len(finished.stdout.splitlines()) >= len(content["table"]) + 2
    assert (record.read_bytes() if record.exists() else None) == before


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_record(path, report):
    record = json.loads(path.read_text(encoding="utf-8"))
    assert_sound(record, path.stem, report)
    assert record.get("quick", False) is False
    assert (ROOT / "examples" / "reproductions" / f"{path.stem}.py").is_file()


@pytest.mark.parametrize(
    ("value", "bound", "holds"),
    [(0.1, 0.2, (True, False)), (0.2, 0.2, (True, True)), (float("nan"), 0.2, (False, False))],
)
def test_gates(report, value, bound, holds):
    gates = report.at_most("low", value, bound), report.at_least("high", value, bound)
    assert tuple(gate["holds"] for gate in gates) == holds
    assert tuple(report.gate_holds(gate) for gate in gates) == holds


def test_a_missed_gate_fails_the_check_only(report, tmp_path, capsys):
    def measure(quick):
        table = [{"model": "a", **report.mean_and_spread("score", [0.5, 0.7])}]
        return report.Measurement(table, [report.at_least("score", 0.6, 0.9)], [0, 1])

    output = ["--output", str(tmp_path / "out.json")]
    assert report.reproduce("page", measure, arguments=output) == 0
    assert report.reproduce("page", measure, arguments=[*output, "--check"]) == 1
    printed = capsys.readouterr().out
    assert "0.600 ± 0.141" in printed
    assert "MISSED" in printed
