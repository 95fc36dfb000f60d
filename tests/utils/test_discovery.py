"""Public estimators are found by themselves; what lacks an extra is counted."""

import abc
import sys
import types
import warnings

import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin

from skml.utils import discovery


class SomeClassifier(ClassifierMixin, BaseEstimator):
    pass


class SomeRegressor(RegressorMixin, TransformerMixin, BaseEstimator):
    pass


class SomePlanner(BaseEstimator):
    pass


class Abstract(BaseEstimator, abc.ABC):
    @abc.abstractmethod
    def fit(self, X): ...


class NoEstimator:
    pass


@pytest.fixture
def package(monkeypatch):
    """A module that stands for all of skml."""
    module = types.ModuleType("some_package")
    module.__all__ = ["Abstract", "Alias", "NoEstimator", "SomeClassifier", "SomePlanner", "Late"]
    for value in (Abstract, NoEstimator, SomeClassifier, SomePlanner):
        setattr(module, value.__name__, value)
    module.Alias = SomeClassifier

    def load(name):
        if name == "Late":
            return SomeRegressor
        if name == "Missing":
            raise ImportError("some_package.Missing needs torch: pip install 'skml[torch]'")
        if name == "Broken":
            raise ImportError("cannot import name 'helper' from 'skml.tree'", name="skml.tree")
        raise AttributeError(name)

    module.__getattr__ = load
    monkeypatch.setitem(sys.modules, "some_package", module)
    monkeypatch.setattr(discovery, "public_modules", lambda: ["some_package"])
    return module


def names(type_filter=None):
    return [name for name, _ in discovery.all_estimators(type_filter)]


@pytest.mark.usefixtures("package")
def test_estimators_are_found_once_with_lazy_ones_and_without_abstract_ones():
    assert names() == ["SomeClassifier", "SomePlanner", "SomeRegressor"]


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("type_filter", "expected"),
    [
        ("classifier", ["SomeClassifier"]),
        ("regressor", ["SomeRegressor"]),
        ("transformer", ["SomeRegressor"]),
        ("cluster", []),
        ("other", ["SomePlanner"]),
        (["classifier", "other"], ["SomeClassifier", "SomePlanner"]),
        (("regressor", "transformer"), ["SomeRegressor"]),
    ],
)
def test_type_filter(type_filter, expected):
    assert names(type_filter) == expected


@pytest.mark.parametrize("type_filter", ["forest", ["classifier", "forest"]])
def test_unknown_type_filter_is_named(type_filter):
    with pytest.raises(ValueError, match=r"type_filter must be .*'other'\], got \['forest'\]"):
        discovery.all_estimators(type_filter)


def test_missing_extra_is_counted(package):
    package.__all__ += ["Missing"]
    with pytest.warns(UserWarning, match="1 public names .* skipped.*: some_package.Missing"):
        found = discovery.all_estimators()
    assert len(found) == 3
    assert list(found.skipped) == ["some_package.Missing"]
    assert "pip install 'skml[torch]'" in found.skipped["some_package.Missing"]


def test_whole_module_without_its_package_is_counted(monkeypatch):
    def import_module(name):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(discovery, "public_modules", lambda: ["skml.attention"])
    monkeypatch.setattr(discovery.importlib, "import_module", import_module)
    found, skipped = discovery.public_objects()
    assert found == {}
    assert skipped == {"skml.attention": "No module named 'torch'"}


def test_broken_import_is_not_taken_for_a_missing_extra(package):
    package.__all__ += ["Broken"]
    with pytest.raises(ImportError, match="cannot import name 'helper'"):
        discovery.all_estimators()


def test_name_that_does_not_exist_is_an_error(package):
    package.__all__ += ["Forgotten"]
    with pytest.raises(AttributeError, match="Forgotten"):
        discovery.all_estimators()


def test_public_modules_of_skml():
    modules = discovery.public_modules()
    assert {"skml.utils", "skml.utils.discovery", "skml.tree"} <= set(modules)
    assert not [name for name in modules if "._" in name or ".tests" in name]


def test_all_estimators_of_skml():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = discovery.all_estimators()
    assert found == sorted(found, key=lambda pair: pair[0])
    assert all(issubclass(cls, BaseEstimator) and cls.__name__ == name for name, cls in found)
    assert "MADecisionTreeClassifier" in dict(found)
