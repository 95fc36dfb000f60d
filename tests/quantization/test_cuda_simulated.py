"""The CUDA kernels in numba's simulator, compared with numpy: indexing, tails, formats."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.quantization._cuda_simulator import Simulator

# Oracle 7 asks for 3e-6; float32 sums of a few hundred products are closer.
BOUND = 1e-6
RUN_ALL = Path(__file__).resolve().parents[1] / "gpu" / "run_all.py"


@pytest.fixture(scope="module")
def simulate():
    simulator = Simulator()
    yield simulator.run
    simulator.stop()


@pytest.mark.parametrize("case", ["gemv", "long_rows", "pair_tables", "uniform", "small_batch"])
def test_oracle_10_simulator_equals_numpy(case, simulate):
    errors = simulate(case)
    assert errors
    wrong = {name: error for name, error in errors.items() if not error < BOUND}
    assert not wrong


def test_tensor_cores_in_the_simulator(simulate):
    """What is around the linked function; errors are in units of the last place of the type."""
    result = simulate("tensor_core")
    assert result.pop("type") == "float16"
    assert len(result) == 6
    assert any("2 splits" in name for name in result)
    assert max(result.values()) < 1.5


def test_oracle_11_gradients_of_the_layer_in_the_simulator(simulate):
    result = simulate("linear")
    assert result.pop("torch.float16 comes back") is True
    assert result.pop("torch.bfloat16 comes back") is True
    assert len(result) == 10
    assert max(result.values()) < BOUND


def test_oracle_08_integers_are_exact_in_the_simulator(simulate):
    errors = simulate("integer")
    assert errors.pop("rows that are finite") == [True, False, True]
    assert len(errors) == 5
    assert max(errors.values()) < BOUND


def test_oracle_09_grouped_equals_the_loop_in_the_simulator(simulate):
    result = simulate("grouped")
    assert result["error"] < BOUND
    assert result["outliers"] < BOUND
    assert result["same again"]


def test_the_script_for_devices_runs_through(tmp_path):
    """Checks, table and record of tests/gpu/run_all.py, with tiny shapes."""
    record = tmp_path / "record.json"
    finished = subprocess.run(
        [sys.executable, RUN_ALL, "--rehearse", "--seed", "3", "--output", record],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    content = json.loads(record.read_text())
    assert content["checks"]["count"] >= 15
    assert content["checks"]["failed"] == []
    assert "simulator" in content["device"]["name"]
    assert {(row["B"], row["kernel"]) for row in content["rows"]} == {
        (1, "float32"), (1, "float32, pairs"), (1, "tensor cores"),
        (9, "float32"), (9, "tensor cores"),
    }  # fmt: skip
    assert set(content) >= {"page", "rows", "gates", "versions", "machine", "copy_bytes_per_s"}


def test_arguments_on_the_device(simulate):
    result = simulate("contract")
    assert result["one-hot is exact"]
    assert result["float64 comes back"] == "float64"
    assert result["half comes back"] == "float16"
    assert result["no rows"] == [0, 6]
    assert result["outliers"] < BOUND
    assert result["columns"] == "X has 9 columns, but the weight has 150 inputs."
    assert result["bias"] == "bias must have shape (6,), got (5,)."
    assert "C-ordered float32 array of shape (3, 6), got float32 of shape (3, 5)" in result["out"]
    assert result["host out"] == "out must lie on the device of X."
    assert "backend='scalar' computes on the host" in result["host backend"]
