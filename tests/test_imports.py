"""Importing is cheap, arrows between sub-packages point one way, missing extras are explained."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import skml
from skml.utils.discovery import public_modules

SOURCE = Path(__file__).resolve().parents[1] / "skml"
EXT = SOURCE.parent / "ext"
OPTIONAL = {
    "dask",
    "distributed",
    "gymnasium",
    "matplotlib",
    "numba",
    "pandas",
    "peft",
    "polars",
    "safetensors",
    "skorch",
    "tokenizers",
    "torch",
    "tqdm",
    "transformers",
}
# Modules that are the torch (or plotting, ...) side of a method by their very name. They load
# their extra at once; everything else loads it on use.
NEEDS_EXTRA = {"skml.linear_model.torch"}
MODULES = [name for name in public_modules() if name not in NEEDS_EXTRA]
# `utils` <- `datasets`, `metrics` <- the methods <- `inspection`.
LEVELS = {"utils": 0, "datasets": 1, "metrics": 1, "inspection": 3}
METHOD_LEVEL = 2
# Ensembles grow trees by the core that skml.tree keeps to itself, as scikit-learn's do.
SHARES_A_CORE = {("ensemble", "tree")}


def run_python(code):
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout.splitlines()[-1])


def loaded_by(*statements):
    """For each statement, run in turn in one fresh interpreter, the packages that it loads."""
    return run_python(f"""
import json, sys
report = []
for statement in {statements!r}:
    before = set(sys.modules)
    exec(statement)
    report.append(sorted({{name.partition(".")[0] for name in set(sys.modules) - before}}))
print(json.dumps(report))
""")


def test_import_skml_loads_nothing_but_itself():
    (loaded,) = loaded_by("import skml")
    assert "skml" in loaded
    assert not set(loaded) & (OPTIONAL | {"numpy", "scipy", "sklearn", "joblib"})


def test_sub_packages_load_no_optional_package():
    # scikit-learn loads pandas by itself where it is installed; tqdm is no burden.
    first = "import sklearn.base, sklearn.utils.estimator_checks, joblib"
    statements = [f"import {module}" for module in MODULES]
    report = zip(statements, loaded_by(first, *statements)[1:], strict=True)
    too_much = {
        statement: set(loaded) & (OPTIONAL - {"tqdm"})
        for statement, loaded in report
        if set(loaded) & (OPTIONAL - {"tqdm"})
    }
    assert not too_much


def test_utils_package_itself_loads_no_scikit_learn():
    (loaded,) = loaded_by("import skml.utils, skml.utils._optional")
    assert "sklearn" not in loaded


def test_sub_packages_load_on_first_access():
    _, loaded = loaded_by("import skml", "skml.utils.discovery.all_estimators")
    assert "sklearn" in loaded
    with pytest.raises(AttributeError, match="has no attribute 'no_such_sub_package'"):
        skml.no_such_sub_package  # noqa: B018 - the access is the test
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} <= set(dir(skml))


def test_every_public_name_loads_or_names_the_pip_command():
    """With every optional package blocked, a name loads, or its ImportError says what to do."""
    found, skipped = run_python(f"""
import sys, json
blocked = {OPTIONAL!r} - {{"pandas", "polars"}}

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
import warnings
warnings.simplefilter("ignore")
from skml.utils.discovery import public_objects
found, skipped = public_objects()
print(json.dumps([sorted(found), skipped]))
""")
    assert "skml.utils.discovery.all_estimators" in found
    for name, message in skipped.items():
        assert "pip install" in message, f"{name}: {message}"


def source_files():
    return sorted(path for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts)


def skml_imports(path):
    """Imports of skml in a file, as ``(line, module, name or None)``."""
    inside = path.relative_to(SOURCE.parent).with_suffix("").parts
    package = inside[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "skml":
                    yield node.lineno, alias.name, None
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *filter(None, [node.module])])
            if module.partition(".")[0] == "skml":
                for alias in node.names:
                    yield node.lineno, module, alias.name


def sub_package(dotted):
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else None


def edges():
    """Imports across sub-packages: ``(importing, imported, place, module, name)``."""
    for path in source_files():
        relative = path.relative_to(SOURCE)
        if len(relative.parts) == 1:  # skml/__init__.py
            continue
        origin = relative.parts[0]
        for line, module, name in skml_imports(path):
            target = sub_package(module) or name
            if target not in {None, origin}:
                yield origin, target, f"{relative}:{line}", module, name


def test_imports_are_found_in_the_source():
    checks = SOURCE / "utils" / "estimator_checks.py"
    assert checks in source_files()
    assert "skml.utils._tags" in {module for _, module, _ in skml_imports(checks)}
    assert list(edges())


def test_arrows_point_one_way():
    wrong = [
        f"{place}: {origin} imports {target}"
        for origin, target, place, *_ in edges()
        if LEVELS.get(origin, METHOD_LEVEL) < LEVELS.get(target, METHOD_LEVEL)
        or (LEVELS.get(origin) == LEVELS.get(target) == 1)
    ]
    assert not wrong, wrong


def test_no_cycles_between_sub_packages():
    imports = {}
    for origin, target, *_ in edges():
        imports.setdefault(origin, set()).add(target)

    def visit(node, trail):
        assert node not in trail, " -> ".join([*trail, node])
        for target in sorted(imports.get(node, ())):
            visit(target, [*trail, node])

    for origin in sorted(imports):
        visit(origin, [])


def test_private_modules_stay_inside_their_sub_package():
    """Only `utils` lends private modules; `__version__` and the like are no private names."""
    wrong = []
    for origin, target, place, module, name in edges():
        if target == "utils" or (origin, target) in SHARES_A_CORE:
            continue
        parts = [*module.split("."), *filter(None, [name])]
        if any(part.startswith("_") and not part.startswith("__") for part in parts):
            wrong.append(f"{place}: {'.'.join(parts)}")
    assert not wrong, wrong


def cimported_packages():
    """Installed packages whose declarations our Cython code takes."""
    files = [*EXT.rglob("*.pyx"), *EXT.rglob("*.pxd")]
    ours = {path.stem for path in files} | {"libc", "cython", "openmp"}
    found = set()
    for path in files:
        for modules in re.findall(
            r"^(?:from|cimport) ([\w.]+)(?: cimport|$)", path.read_text(), re.M
        ):
            found.add(modules.partition(".")[0])
    return found - ours


def test_the_build_requires_what_the_compiled_code_cimports():
    """An isolated build has nothing else, and `make demo` installs the group before it builds."""
    project = tomllib.loads((EXT.parent / "pyproject.toml").read_text(encoding="utf-8"))
    assert "scipy" in cimported_packages()
    requires = project["build-system"]["requires"]
    assert requires == project["dependency-groups"]["build"]
    assert cimported_packages() <= {re.match(r"[\w-]+", text).group() for text in requires}
