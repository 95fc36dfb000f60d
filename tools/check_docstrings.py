"""Check the docstring of every public name of skml against numpydoc's rules and a few of ours.

Public names are those in the ``__all__`` of the sub-packages, with the public methods and
properties that skml's own classes define. The numpydoc rules are the ones that
``[tool.numpydoc_validation]`` of pyproject.toml selects. Ours:

SK01  an attribute that ends in "_" is set by the class, or a field of a dataclass defined, without
      being documented
SK02  an estimator has no Attributes, References or Examples section
SK03  a module has no docstring
SK04  a word such as coef_ stands outside of backticks, where reST takes it for a link
SK05  a default is missing, or is not that of the signature
SK06  a type is not written in the form that all others have
SK07  the description of a shared parameter does not begin as it does elsewhere
SK08  the type of a parameter is not what the estimator's validation takes

Run ``python tools/check_docstrings.py``; the exit status is 1 if there is a problem.
"""

import ast
import dataclasses
import inspect
import pydoc
import re
import sys
import textwrap
import tomllib
from pathlib import Path

import numpydoc.validate
from docstring_words import constraint_problems, words_problems
from numpydoc.docscrape import ClassDoc, NumpyDocString
from sklearn.base import BaseEstimator

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

from public_api import own_members, public_names, subpackage_names  # noqa: E402

from skml.utils.discovery import public_modules  # noqa: E402

# A property is described by its summary, and "See Also" or "Examples" of every method would be
# noise; the class carries them.
_METHOD_EXEMPT = frozenset({"EX01", "SA01", "ES01"})
_PROPERTY_EXEMPT = _METHOD_EXEMPT | {"RT01", "RT03"}
# The fields that a dataclass inherits are documented where they come from.
_DATACLASS_EXEMPT = frozenset({"PR01"})
_LINK_LIKE = re.compile(r"(?<![\w`\].])[A-Za-z]\w*_(?![\w`{\]])")
_SET_ATTRIBUTE = re.compile(r"^[a-z]\w*[a-z0-9]_$", re.IGNORECASE)


def selected_checks(pyproject=ROOT / "pyproject.toml"):
    """Return the numpydoc codes to report; "all" followed by codes means all but these."""
    listed = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["numpydoc_validation"]
    codes = set(listed["checks"])
    if "all" in codes:
        return set(numpydoc.validate.ERROR_MSGS) - codes
    return codes


def numpydoc_problems(path, checks, is_method=False):
    """Return (code, message) of each rule that the docstring at a dotted path breaks."""
    found = numpydoc.validate.validate(path)["errors"]
    problems = [(code, message) for code, message in found if code in checks]
    value = pydoc.locate(path)
    docstring = inspect.getdoc(value) or ""
    for word in link_like_words(docstring):
        problems.append(("SK04", f"{word!r} stands outside of backticks"))
    if callable(value):
        parsed = NumpyDocString(docstring)
        problems += words_problems(parsed, inspect.signature(value), is_method)
    return problems


def link_like_words(docstring):
    """Words with a trailing underscore in the running text and the types of a docstring."""
    words, literal_indent = [], None
    for line in inspect.cleandoc(docstring).splitlines():
        indent = len(line) - len(line.lstrip())
        if literal_indent is not None and (not line.strip() or indent > literal_indent):
            continue
        literal_indent = None
        if line.lstrip().startswith((">>>", "...")):
            continue
        if line.rstrip().endswith("::") or line.lstrip().startswith(".. "):
            literal_indent = indent
            continue
        text = re.sub(r"``?[^`]*``?_?", "", line)
        # "coef_ : ndarray" names an entry of a section, which numpydoc escapes.
        text = re.sub(r"^\s*[\w, ]+ : ", "", text)
        words += _LINK_LIKE.findall(text)
    return words


def assigned_attributes(cls):
    """Names that end in "_" and are set on self in the classes of skml that make up ``cls``."""
    names = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("skml"):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
                and not node.attr.startswith("_")
                and _SET_ATTRIBUTE.match(node.attr)
            ):
                names.add(node.attr)
    return names


def estimator_problems(cls):
    """Return what our own rules find in the docstring of an estimator class."""
    parsed = ClassDoc(cls)
    problems = []
    for section in ("Attributes", "References", "Examples"):
        if not parsed[section]:
            problems.append(("SK02", f"No {section} section found"))
    documented = {
        name.strip() for entry in parsed["Attributes"] for name in entry.name.split(",")
    } | {name for name in dir(cls) if isinstance(inspect.getattr_static(cls, name), property)}
    for name in sorted(assigned_attributes(cls) - documented):
        problems.append(("SK01", f"Attribute {name!r} is set but not in the Attributes section"))
    problems += constraint_problems(parsed, getattr(cls, "_parameter_constraints", {}))
    return problems


def field_problems(entry):
    """Yield a problem for each field that a dataclass adds without documenting it."""
    parsed = ClassDoc(entry.value)
    named = {item.name for section in ("Parameters", "Attributes") for item in parsed[section]}
    for name in vars(entry.value).get("__annotations__", {}):
        if not name.startswith("_") and name not in named:
            yield entry.path, "SK01", f"Field {name!r} is not documented"


def class_problems(entry, checks, seen):
    """Yield (path, code, message) for the members of a class, each member once."""
    ours, _ = own_members(entry.value)
    for name in ours:
        member = inspect.getattr_static(entry.value, name)
        function = getattr(entry.value, name)
        identity = getattr(member, "fget", None) or getattr(function, "__func__", function)
        if id(identity) in seen:
            continue
        seen.add(id(identity))
        exempt = _PROPERTY_EXEMPT if isinstance(member, property) else _METHOD_EXEMPT
        path = f"{entry.path}.{name}"
        for code, message in numpydoc_problems(path, checks - exempt, is_method=True):
            yield path, code, message


def all_problems(checks):
    """Yield (path, code, message) over the whole library."""
    seen = set()
    for module_name in public_modules():
        module = sys.modules.get(module_name)
        if module is not None and not module.__doc__:
            yield module_name, "SK03", "The module has no docstring"
    for subpackage in subpackage_names():
        for entry in public_names(subpackage):
            if entry.kind not in ("class", "function"):
                continue
            exempt = _DATACLASS_EXEMPT if dataclasses.is_dataclass(entry.value) else set()
            for code, message in numpydoc_problems(entry.path, checks - exempt):
                yield entry.path, code, message
            if entry.kind == "class":
                if exempt:
                    yield from field_problems(entry)
                yield from class_problems(entry, checks, seen)
                if issubclass(entry.value, BaseEstimator):
                    for code, message in estimator_problems(entry.value):
                        yield entry.path, code, message


def main():
    """Print the problems and return the exit status."""
    problems = list(all_problems(selected_checks()))
    for path, code, message in problems:
        print(f"{path}: {code} {message}")
    count = sum(len(public_names(subpackage)) for subpackage in subpackage_names())
    print(f"{count} public names, {len(problems)} docstring problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
