"""The C kernels under AddressSanitizer and UBSan, on random shapes.

``make sanitize`` runs many more rounds, through the variable SKML_SANITIZE_ROUNDS.
"""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "ext" / "quantization"
ROUNDS = int(os.environ.get("SKML_SANITIZE_ROUNDS", "80"))
# What AddressSanitizer finds as well is left out of UBSan: it takes a third of the compile time.
FLAGS = [
    "-std=c11", "-O0", "-fopenmp", "-Wall", "-Werror", "-fno-sanitize-recover=all",
    "-fsanitize=address,undefined", "-fno-sanitize=null,object-size,pointer-overflow",
]  # fmt: skip


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("sanitized")
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }")
    if subprocess.run([compiler, *FLAGS, probe, "-o", folder / "probe"], check=False).returncode:
        pytest.skip("needs the libraries of the sanitizers")

    def compile_one(source):
        target = folder / f"{source.stem}.o"
        command = [compiler, *FLAGS, "-I", SOURCES, "-c", source, "-o", target]
        subprocess.run(command, check=True)
        return target

    sources = [*sorted(SOURCES.glob("*.c")), HERE / "fuzz_gemm.c"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, sources))
    program = folder / "fuzz_gemm"
    subprocess.run([compiler, *FLAGS, *objects, "-lm", "-o", program], check=True)
    return program


def test_no_kernel_reads_or_writes_out_of_bounds(driver):
    finished = subprocess.run(
        [driver, str(ROUNDS), "7"], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    assert f"{ROUNDS} rounds" in finished.stdout
