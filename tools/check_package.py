"""Build the sdist and the wheel, install the wheel into an empty environment, and use it there.

Run it as ``make package``. The dependencies come from a package index at the versions of
constraints.txt; nothing of the checkout is on the path of the interpreter that tries the wheel.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

import mesonpy

ROOT = Path(__file__).resolve().parents[1]


def main():
    """Build, inspect and try the packages; a fault ends the program with an AssertionError."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="where they are kept")
    output = parser.parse_args().output
    output.mkdir(exist_ok=True)
    os.chdir(ROOT)
    sdist = output / mesonpy.build_sdist(str(output))
    check_sdist(sdist)
    with tempfile.TemporaryDirectory() as folder:
        # From the sdist, so that whatever it lacks is missed.
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        os.chdir(next(Path(folder).iterdir()))
        wheel = output / mesonpy.build_wheel(str(output))
        os.chdir(ROOT)
    check_wheel(wheel)
    try_wheel(wheel)


def check_sdist(path):
    """The sdist holds what a build and a reader need."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "meson.build"):
        assert name in names, f"{path.name} lacks {name}."
    assert any(name.startswith("ext/") for name in names), f"{path.name} lacks the C sources."
    print(f"{path.name}: {len(names)} files, {path.stat().st_size / 2**20:.1f} MiB")


def check_wheel(path):
    """The wheel holds the package, compiled, its licence, and nothing else."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    foreign = [name for name in names if not name.startswith(("skml/", "skml-"))]
    assert not foreign, f"{path.name} installs {foreign}."
    sources = [name for name in names if name.endswith((".pyx", ".c", ".h", ".build"))]
    tests = [name for name in names if "/tests/" in name or Path(name).name.startswith("test_")]
    assert not sources, f"{path.name} holds {sources}."
    assert not tests, f"{path.name} holds {tests}."
    assert any(name.endswith("licenses/LICENSE") for name in names), f"{path.name}: no licence."
    compiled = [name for name in names if name.endswith(".so")]
    assert compiled, f"{path.name} holds no compiled module."
    size = path.stat().st_size / 2**20
    print(f"{path.name}: {len(names)} files, {len(compiled)} of them compiled, {size:.1f} MiB")


def try_wheel(path):
    """Install the wheel where nothing else is, and use it from another folder."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        install = ["-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", path]
        subprocess.run([python, *install], check=True)
        subprocess.run([python, ROOT / "tools" / "smoke_test.py"], check=True, cwd=folder)


if __name__ == "__main__":
    sys.exit(main())
