"""Pickle every estimator under one version of Python and use it under another, both ways.

Run it as ``make across``. A wheel is built for the other interpreter and installed into an
environment that is thrown away afterwards, with the packages of constraints.txt, so that the two
interpreters differ in nothing else. Without an extra the estimators that need one are left out.
"""

import argparse
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CANDIDATES = ("python3.13", "python3.12", "python3.14", "python3.11")


def main():
    """Compare both ways; the exit status is that of the first comparison that fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", help="the other interpreter (default: the first on PATH)")
    parser.add_argument("--extras", default="", help="extras to install there, such as torch")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write or options.read:
        sys.path.append(str(ROOT))  # for the tests; skml is found before, where it is installed
        return write(options.write) if options.write else read(options.read)
    other = find_interpreter(options.other)
    if other is None:
        print(f"Nothing to compare with: none of {', '.join(CANDIDATES)} on PATH runs.")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        there = make_environment(other, options.extras, Path(folder) / "environment")
        for number, pair in enumerate([(sys.executable, there), (there, sys.executable)]):
            pickles = Path(folder) / f"pickles{number}"
            pickles.mkdir()
            for option, python in zip(("--write", "--read"), pair, strict=True):
                run(python, __file__, option, pickles)
    return 0


def run(*command):
    """Run a command in a neutral folder, where no skml lies, and end if it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    command = [str(part) for part in command]
    finished = subprocess.run(command, cwd=tempfile.gettempdir(), env=environment, check=False)
    if finished.returncode:
        sys.exit(finished.returncode)


def find_interpreter(wanted):
    """The wanted interpreter, or the first on PATH of another version than this one."""
    for name in [wanted] if wanted else CANDIDATES:
        version = minor_version(name)
        if version not in {None, sys.version_info[:2]}:
            return name
        if wanted:
            sys.exit(f"{wanted} does not run, or is Python {version} as this one is.")
    return None


def minor_version(python):
    """Version of an interpreter as (major, minor); None if it does not run."""
    if shutil.which(python) is None:
        return None
    command = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if finished.returncode else tuple(map(int, finished.stdout.split()))


def make_environment(python, extras, folder):
    """Install this skml for another interpreter; returns the interpreter of the environment."""
    print(f"==> building and installing skml for {python}", flush=True)
    run(python, "-m", "venv", folder)
    there = folder / "bin" / "python"
    skml = f"{ROOT}[{extras}]" if extras else ROOT
    # pytest, because the estimators to try are listed where the tests are.
    run(there, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", skml, "pytest")
    return there


def estimators():
    """Yield the name, a quick instance and the inputs of every estimator that is found here."""
    from skml.utils._contract_inputs import inputs_for
    from tests._estimators import CLASSES, tiny_estimator

    for name in CLASSES:
        estimator = tiny_estimator(name)
        if "random_state" in estimator.get_params(deep=False):
            estimator.set_params(random_state=0)
        yield name, estimator, inputs_for(estimator)("small")


def write(folder):
    """Fit, and pickle the estimators with their outputs."""
    warnings.simplefilter("ignore")
    for name, estimator, inputs in estimators():
        try:
            inputs.fit(estimator)
        except ImportError:  # the class is here, what its fit needs is not
            continue
        content = {"estimator": estimator, "outputs": inputs.outputs(estimator)}
        (folder / name).write_bytes(pickle.dumps(content))
    return 0


def read(folder):
    """Load what the other interpreter pickled, and compare the outputs; 1 if any differ."""
    from sklearn.exceptions import InconsistentVersionWarning

    warnings.simplefilter("ignore")
    warnings.simplefilter("error", InconsistentVersionWarning)
    results = {}
    for name, _, inputs in estimators():
        if not (folder / name).exists():
            continue
        try:
            content = pickle.loads((folder / name).read_bytes())
        except ImportError:
            continue
        results[name] = compare(content["outputs"], inputs.outputs(content["estimator"]))
    left_out = sorted({path.name for path in folder.iterdir()} - set(results))
    counts = {how: list(results.values()).count(how) for how in sorted(set(results.values()))}
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"{len(results)} estimators read by Python {version}: {counts}", flush=True)
    for name, how in results.items():
        if how != "identical":
            print(f"    {name}: {how}")
    if left_out:
        print(f"    left out, because an extra is missing: {', '.join(left_out)}")
    return int(not results or "different" in counts)


def compare(expected, seen):
    """How alike the outputs are: another build of torch may round in another way."""
    import numpy as np

    from skml.utils._contract_compare import assert_same

    try:
        assert_same(expected, seen, "outputs")
        return "identical"
    except AssertionError:
        pass
    try:
        for method, values in expected.items():
            np.testing.assert_allclose(seen[method], values, rtol=1e-5, atol=1e-6)
        return "equal to five digits"
    except (AssertionError, KeyError, TypeError):
        return "different"


if __name__ == "__main__":
    sys.exit(main())
