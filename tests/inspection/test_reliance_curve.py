"""RelianceCurveDisplay: the points it draws are the measured ones."""

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from skml.datasets import make_contextual_missingness
from skml.inspection import RelianceCurveDisplay
from skml.metrics import missingness_reliance, missingness_reliance_scorer

PRICE = "ccp_alpha"  # a stand-in: pruning, too, lowers the reliance


@pytest.fixture(scope="module")
def data():
    return make_contextual_missingness(400, random_state=0)


def make_tree():
    return DecisionTreeClassifier(max_depth=4, random_state=0)


def test_cross_validated_points(data):
    X, y = data
    alphas = [0.01, 0.0]
    display = RelianceCurveDisplay.from_estimator(
        make_tree(), X, y, alphas=alphas, param_name=PRICE, scoring="roc_auc", cv=3
    )
    scoring = {"auc": "roc_auc", "reliance": missingness_reliance_scorer}
    for k, alpha in enumerate(alphas):
        tree = make_tree().set_params(ccp_alpha=alpha)
        expected = cross_validate(tree, X, y, scoring=scoring, cv=3)
        assert display.scores[k] == pytest.approx(expected["test_auc"].mean())
        assert display.reliances[k] == pytest.approx(-expected["test_reliance"].mean())
        assert display.scores_std[k] == pytest.approx(expected["test_auc"].std())
    # The curve runs in the order of alpha, with alpha beside each point.
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), display.reliances[::-1])
    np.testing.assert_array_equal(line.get_ydata(), display.scores[::-1])
    assert [text.get_text() for text in display.ax_.texts] == ["0", "0.01"]
    assert display.ax_.get_ylabel() == "roc_auc"
    assert display.figure_ is display.ax_.figure


def test_points_on_test_data(data):
    X, y = data
    train, test = slice(0, 300), slice(300, None)
    display = RelianceCurveDisplay.from_estimator(
        make_tree(),
        X[train],
        y[train],
        alphas=[0.0, 0.02],
        param_name=PRICE,
        scoring="roc_auc",
        X_test=X[test],
        y_test=y[test],
    )
    for k, alpha in enumerate([0.0, 0.02]):
        tree = make_tree().set_params(ccp_alpha=alpha).fit(X[train], y[train])
        expected = roc_auc_score(y[test], tree.predict_proba(X[test])[:, 1])
        assert display.scores[k] == expected
        assert display.reliances[k] == missingness_reliance(tree, X[test])
    assert display.scores_std is None


def test_results_of_a_search_draw_one_curve_per_setting(data):
    X, y = data
    pipeline = make_pipeline(SimpleImputer(), make_tree())
    name = "decisiontreeclassifier__"
    search = GridSearchCV(
        pipeline,
        {name + PRICE: [0.0, 0.01], name + "max_depth": [1, 2, 3]},
        scoring={"auc": "roc_auc", "rho": missingness_reliance_scorer},
        refit=False,
        cv=2,
    ).fit(X, y)
    display = RelianceCurveDisplay.from_results(
        search.cv_results_, score="auc", reliance="rho", param_name=name + PRICE, annotate=False
    )
    assert [line.get_label() for line in display.lines_] == [f"max_depth={d}" for d in (1, 2, 3)]
    for depth, line in zip((1, 2, 3), display.lines_, strict=True):
        chosen = [p[name + "max_depth"] == depth for p in search.cv_results_["params"]]
        np.testing.assert_array_equal(
            line.get_xdata(), -search.cv_results_["mean_test_rho"][chosen]
        )
    assert not display.ax_.texts
    assert display.ax_.get_legend() is not None


def test_alpha_is_found_by_its_name():
    results = {
        "params": [
            {"tree__alpha": 0.1, "tree__ccp_alpha": 0},
            {"tree__alpha": 1.0, "tree__ccp_alpha": 0},
        ],
        "mean_test_score": [0.8, 0.7],
        "mean_test_reliance": [-0.5, -0.1],
    }
    display = RelianceCurveDisplay.from_results(results)
    np.testing.assert_array_equal(display.alphas, [0.1, 1.0])
    np.testing.assert_array_equal(display.reliances, [0.5, 0.1])
    with pytest.raises(ValueError, match="score must be one of .*, got 'auc'"):
        RelianceCurveDisplay.from_results(results, score="auc")
    with pytest.raises(ValueError, match=r"param_name must be one of \['tree__alpha'"):
        RelianceCurveDisplay.from_results(results, param_name="beta")
    results["params"] = [{"c": 1}, {"c": 2}]
    with pytest.raises(ValueError, match=r"param_name must be given, one of \['c'\]"):
        RelianceCurveDisplay.from_results(results)


def test_plot_draws_on_given_axes_and_passes_line_parameters():
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    display = RelianceCurveDisplay(alphas=[0, 1], scores=[0.8, 0.7], reliances=[0.5, 0.0])
    assert display.plot(ax=ax, color="red", marker="x") is display
    assert display.ax_ is ax
    assert display.lines_[0].get_color() == "red"
    assert display.lines_[0].get_marker() == "x"


def test_bad_arguments_are_named(data):
    X, y = data
    from_estimator = RelianceCurveDisplay.from_estimator
    with pytest.raises(ValueError, match=r"param_name .* one of \['ccp_alpha'\], got 'alpha'"):
        from_estimator(make_tree(), X, y)
    with pytest.raises(ValueError, match="X_test and y_test must be given together"):
        from_estimator(make_tree(), X, y, param_name=PRICE, X_test=X)
    with pytest.raises(ValueError, match="scores must have one entry for each of the 2 alphas"):
        RelianceCurveDisplay(alphas=[0, 1], scores=[0.5], reliances=[0, 0])
