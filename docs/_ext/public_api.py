"""Find every public name of skml through the ``__all__`` of its public modules."""

import inspect
from dataclasses import dataclass

import skml
from skml.utils.discovery import public_objects


@dataclass(frozen=True)
class PublicName:
    """A name of some ``__all__``; ``value`` is None where its extra is not installed."""

    module: str
    name: str
    value: object
    missing: str = ""

    @property
    def path(self):
        return f"{self.module}.{self.name}"

    @property
    def kind(self):
        if self.missing:
            return "unavailable"
        if inspect.isclass(self.value):
            return "class"
        return "function" if callable(self.value) else "data"


def subpackage_names():
    """Names of the sub-packages of skml, sorted."""
    return sorted(skml._SUBPACKAGES)


def public_names(subpackage):
    """Return the `PublicName` of each name of a sub-package, its shortest path only."""
    found, skipped = public_objects()
    candidates = [_name(path, value) for path, value in found.items()]
    candidates += [_name(path, None, message) for path, message in skipped.items()]
    prefix = f"skml.{subpackage}"
    chosen = {}
    for entry in sorted(candidates, key=lambda entry: (len(entry.path), entry.path)):
        inside = entry.path.startswith(prefix + ".")
        if inside and entry.module != "skml" and not inspect.ismodule(entry.value):
            chosen.setdefault(entry.name if entry.missing else id(entry.value), entry)
    return sorted(chosen.values(), key=lambda entry: (entry.module, entry.name.lower()))


def _name(path, value, missing=""):
    module, _, name = path.rpartition(".")
    return PublicName(module, name, value, missing)


def own_members(cls):
    """Split the public methods and properties of a class: ours, and scikit-learn's.

    A member is ours if the class of the MRO that defines it lives in skml. Metadata-request
    methods (``set_fit_request`` …) are made by scikit-learn whichever class shows them.
    """
    ours, inherited = [], []
    for name in sorted(dir(cls)):
        if name.startswith("_"):
            continue
        owner = next((base for base in cls.__mro__ if name in vars(base)), None)
        if owner is None or owner is object:
            continue
        value = vars(owner)[name]
        if not (callable(value) or isinstance(value, property | classmethod | staticmethod)):
            if not hasattr(value, "__get__"):
                continue
        request = name.startswith("set_") and name.endswith("_request")
        (ours if owner.__module__.startswith("skml") and not request else inherited).append(name)
    return ours, inherited
