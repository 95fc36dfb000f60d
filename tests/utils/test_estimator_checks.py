"""Every contract check passes a good estimator and catches the one that it is there for."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import NearestCentroid
from sklearn.utils.estimator_checks import check_fit_score_takes_y
from sklearn.utils.validation import _num_samples

from skml.utils import extend_tags
from skml.utils._tags import follows_x_y, takes_two_d_array
from skml.utils.estimator_checks import (
    ContractInputs,
    check_name,
    check_skml_estimator,
    checks_of,
    collect_inputs,
    contract_checks,
    make_instance,
    register_inputs,
    register_instance,
    with_extra_arrays,
)
from tests.utils._broken_estimators import (
    BROKEN,
    BROKEN_OTHERS,
    PositionalExtraArray,
    SeedsTorch,
    SetsTorchThreads,
)
from tests.utils._good_estimators import (
    GoodCentroid,
    GoodPlanner,
    GoodSequenceModel,
    GoodShift,
)


def run_check(estimator, name):
    checks = [check for _, check in contract_checks(estimator) if check_name(check) == name]
    assert len(checks) == 1
    checks[0](estimator)


def identifier(value):
    return value if isinstance(value, str) else type(value).__name__


@pytest.mark.filterwarnings("ignore:One or more of the test scores", "ignore:X has feature names")
@pytest.mark.parametrize(("estimator", "name"), BROKEN + BROKEN_OTHERS, ids=identifier)
def test_check_catches_broken_estimator(estimator, name, monkeypatch):
    monkeypatch.setenv("SKML_TEST_LEAK", "0")
    # Some checks hand on the estimator's own error.
    errors = (AssertionError, AttributeError, TypeError, ValueError)
    with warnings.catch_warnings(), pytest.raises(errors):
        run_check(estimator, name)


@pytest.mark.parametrize("estimator", [SeedsTorch(), SetsTorchThreads()], ids=identifier)
def test_global_state_check_knows_torch(estimator):
    torch = pytest.importorskip("torch")
    n_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.manual_seed(1)
    try:
        with pytest.raises(AssertionError, match="torch|thread"):
            run_check(estimator, "check_global_state")
    finally:
        torch.set_num_threads(n_threads)


GOOD = [GoodCentroid(), GoodShift(), GoodSequenceModel(), GoodPlanner()]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("estimator", GOOD, ids=identifier)
def test_good_estimator_passes_everything(estimator):
    results = check_skml_estimator(estimator)
    assert {result["status"] for result in results} <= {"passed", "skipped"}


def test_every_contract_check_has_a_broken_estimator():
    checks = {check_name(check) for good in GOOD for _, check in contract_checks(good)}
    assert checks == {name for _, name in BROKEN + BROKEN_OTHERS}


def test_scikit_learn_checks_run_where_x_is_two_dimensional():
    names = {check_name(check) for _, check in checks_of(GoodCentroid())}
    assert check_name(check_fit_score_takes_y) in names
    names = {check_name(check) for _, check in checks_of(GoodSequenceModel())}
    assert check_name(check_fit_score_takes_y) not in names


def test_not_x_y_estimator_is_kept_out_of_pipelines():
    names = {check_name(check) for _, check in contract_checks(GoodPlanner())}
    assert not names & {"check_pipeline", "check_grid_search"}
    assert "check_pickle" in names
    assert not follows_x_y(GoodPlanner())
    assert not takes_two_d_array(GoodPlanner())


def test_first_failure_is_raised():
    with pytest.raises(AssertionError, match="must be keyword-only"):
        check_skml_estimator(PositionalExtraArray())


def test_failures_are_collected():
    results = check_skml_estimator(PositionalExtraArray(), on_fail=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    assert failed == {"check_extra_arrays_keyword_only"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_excuse_is_accepted_when_needed():
    excuses = {"check_extra_arrays_keyword_only": "mask came first"}
    results = check_skml_estimator(PositionalExtraArray(), expected_failed_checks=excuses)
    assert [r["check_name"] for r in results if r["status"] == "xfail"] == list(excuses)


@pytest.mark.parametrize("excused", ["check_pickle", "check_that_does_not_exist"])
def test_unneeded_excuse_fails(excused):
    with pytest.raises(AssertionError, match=excused):
        check_skml_estimator(GoodSequenceModel(), expected_failed_checks={excused: "no reason"})


def test_skipped_check_warns():
    with pytest.warns(SkipTestWarning, match="GoodShift has no score method"):
        check_skml_estimator(GoodShift())


def test_class_instead_of_instance_is_refused():
    with pytest.raises(TypeError, match="must be an instance, got the class GoodShift"):
        check_skml_estimator(GoodShift)


def test_missing_inputs_are_named():
    class Unregistered(BaseEstimator):
        def fit(self, X):
            return self

        def __sklearn_tags__(self):
            return extend_tags(super().__sklearn_tags__(), input_kind="graphs")

    with pytest.raises(LookupError, match="Unregistered .*register_inputs"):
        check_skml_estimator(Unregistered())


class Meta(BaseEstimator):
    def __init__(self, estimator):
        self.estimator = estimator


def test_required_parameters_need_an_instance():
    with pytest.raises(TypeError, match="Meta .*register_instance"):
        make_instance(Meta)
    register_instance(Meta)(lambda: Meta(LinearRegression()))
    assert isinstance(make_instance(Meta).estimator, LinearRegression)


class NeedsGroups(NearestCentroid):
    """Drops the rows outside of group 1."""

    def fit(self, X, y, *, groups):
        assert len(groups) == _num_samples(X)
        return super().fit(X, y)

    def predict(self, X, *, groups):
        assert len(groups) == _num_samples(X)
        return super().predict(X)


NeedsGroupsWithArrays = with_extra_arrays(
    NeedsGroups, {"groups": lambda X, rng: (X @ rng.normal(size=X.shape[1]) > 0).astype(int)}
)


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.SkipTestWarning")
def test_adapter_runs_through_scikit_learns_checks():
    instances = {type(estimator) for estimator, _ in checks_of(NeedsGroups())}
    assert instances == {NeedsGroupsWithArrays}
    for estimator, check in checks_of(NeedsGroups()):
        if check.func.__module__ == "sklearn.utils.estimator_checks":
            try:
                check(estimator)
            except BaseException as error:
                if type(error).__name__ != "SkipTest":
                    raise


class RoutesGroups(NeedsGroups):
    def score(self, X, y, sample_weight=None, *, groups):
        return float(np.mean(self.predict(X, groups=groups) == y))


class RoutesNothing(RoutesGroups):
    set_fit_request = None


@register_inputs(RoutesGroups)
def make_groups(size):
    X = np.random.default_rng(0).normal(size=(20, 3))
    groups = {"groups": np.arange(20) % 3}
    return ContractInputs(X=X, y=np.arange(20) % 2, fit_params=groups, predict_params=groups)


def test_class_with_adapter_and_inputs_has_its_own_routing_checked():
    with_extra_arrays(RoutesGroups, {"groups": lambda X, rng: X[:, 0]})
    kinds = {check_name(check): type(estimator) for estimator, check in checks_of(RoutesGroups())}
    assert kinds["check_pipeline"] is RoutesGroups
    assert kinds["check_fit_score_takes_y"].__name__ == "RoutesGroupsWithArrays"
    run_check(RoutesGroups(), "check_pipeline")
    run_check(RoutesGroups(), "check_grid_search")
    with pytest.raises(ValueError, match="groups"):
        run_check(RoutesNothing(), "check_pipeline")


def test_adapter_computes_rows_by_themselves():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.arange(20) % 2
    model = clone(NeedsGroupsWithArrays()).fit(X, y)
    np.testing.assert_array_equal(model.predict(X)[::-1], model.predict(X[::-1]))


def test_adapter_without_such_argument_is_refused():
    with pytest.raises(ValueError, match="No public method of LinearRegression takes any of"):
        with_extra_arrays(LinearRegression, {"treatment": lambda X, rng: X[:, 0]})


def test_collect_inputs_imports_by_file_name(tmp_path):
    folder = tmp_path / "checks_of_somebody" / "sub"
    folder.mkdir(parents=True)
    (folder / "_inputs_page.py").write_text("VALUE = 3\n")
    (folder / "_inputs_torchless.py").write_text("import a_package_that_nobody_has\n")
    (folder / "test_page.py").write_text("raise RuntimeError\n")
    modules = collect_inputs(tmp_path / "checks_of_somebody")
    assert [module.__name__ for module in modules] == ["checks_of_somebody.sub._inputs_page"]
    assert modules[0].VALUE == 3


def test_restores_on_error_keeps_the_earlier_model():
    X, y = np.arange(8.0).reshape(-1, 1), np.arange(8) % 2
    model = GoodCentroid(random_state=0)
    with pytest.raises(ValueError, match="one class"):
        model.fit(X, np.zeros(8))
    with pytest.raises(NotFittedError):
        model.predict(X)
    labels = model.fit(X, y).predict(X)
    with pytest.raises(ValueError, match="one class"):
        model.fit(X[:, [0, 0]], np.zeros(8))
    np.testing.assert_array_equal(labels, model.predict(X))
