"""Bars per feature, the union of a forest's paths, and several learners in one picture."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import ShuffleSplit, train_test_split
from sklearn.pipeline import make_pipeline

from skml.datasets import make_contextual_missingness
from skml.ensemble import MARandomForestClassifier
from skml.inspection import FeatureRelianceDisplay, PathUnionDisplay, RelianceCurveDisplay
from skml.metrics import missingness_reliance
from skml.tree import MADecisionTreeClassifier


@pytest.fixture(scope="module")
def data():
    return make_contextual_missingness(500, random_state=0)


@pytest.fixture(scope="module")
def forest(data):
    return MARandomForestClassifier(6, max_depth=4, alpha=0.1, random_state=0).fit(*data)


# ----- features ------------------------------------------------------------------------------


def test_bars_are_the_weighted_shares(forest, data):
    X, _ = data
    weight = np.random.default_rng(0).uniform(size=len(X))
    names = ["age", "mmse", "mri"]
    display = FeatureRelianceDisplay.from_estimator(
        forest, X, sample_weight=weight, feature_names=names, color="C3"
    )
    cells = forest.missingness_reliance(X)
    assert_allclose(display.reliance, weight @ cells / weight.sum())
    assert_allclose(display.missing, weight @ np.isnan(X) / weight.sum())
    assert display.reliance.max() > 0
    # Age is never missing and has no bar; the others stand in the order of their gaps.
    shown = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert shown == [names[j] for j in np.argsort(-display.missing)[:2]]
    widths = [bar.get_width() for bar in display.bars_]
    assert_allclose(widths, display.reliance[np.argsort(-display.missing)[:2]])
    assert display.figure_ is display.ax_.figure
    again = display.plot(max_features=1, label="forest")
    assert again is display
    assert len(display.bars_) == 1


def test_a_mask_and_the_names_of_a_frame(data):
    pandas = pytest.importorskip("pandas")
    X, y = data
    names = ["age", "mmse", "mri"]
    frame = pandas.DataFrame(X, columns=names)
    tree = MADecisionTreeClassifier(max_depth=3, alpha=0, random_state=0).fit(frame, y)
    by_nan = FeatureRelianceDisplay.from_estimator(tree, frame)
    assert by_nan.feature_names.tolist() == names
    filled = pandas.DataFrame(SimpleImputer().fit_transform(X), columns=names)
    by_mask = FeatureRelianceDisplay.from_estimator(tree, filled, missing_mask=np.isnan(X))
    assert_allclose(by_mask.reliance, by_nan.reliance)
    assert_allclose(by_mask.missing, by_nan.missing)


def test_complete_data_show_all_features():
    display = FeatureRelianceDisplay(missing=[0, 0], reliance=[0, 0]).plot()
    assert len(display.bars_) == 2
    assert display.feature_names.tolist() == ["feature_0", "feature_1"]


def test_feature_bars_refuse_what_they_cannot_know(data):
    X, y = data
    pipeline = make_pipeline(SimpleImputer(), RandomForestClassifier(2)).fit(X, y)
    with pytest.raises(TypeError, match="Pipeline has none"):
        FeatureRelianceDisplay.from_estimator(pipeline, X)
    with pytest.raises(ValueError, match="reliance must have one entry for each of the 2"):
        FeatureRelianceDisplay(missing=[0, 0], reliance=[0])
    with pytest.raises(ValueError, match="feature_names must have one entry"):
        FeatureRelianceDisplay(missing=[0, 0], reliance=[0, 0], feature_names=["a"])


# ----- union of the paths --------------------------------------------------------------------


def test_union_of_the_first_trees(forest, data):
    X, _ = data
    display = PathUnionDisplay.from_estimator(forest, X)
    rows = [member.missingness_reliance(X, reduce=True) for member in forest.estimators_]
    expected = [np.any(rows[: t + 1], axis=0).mean() for t in range(6)]
    assert_allclose(display.union, expected)
    assert_allclose(display.single, np.mean(rows, axis=1))
    assert display.union[-1] == pytest.approx(missingness_reliance(forest, X))
    assert display.bound == pytest.approx(np.isnan(X).any(axis=1).mean())
    assert np.all(np.diff(display.union) >= 0)
    assert display.union[-1] > display.single.max()
    assert_array_equal(display.line_.get_xdata(), np.arange(1, 7))
    assert_array_equal(display.line_.get_ydata(), display.union)

    weight = np.random.default_rng(0).uniform(size=len(X))
    weighted = PathUnionDisplay.from_estimator(forest, X, sample_weight=weight)
    assert weighted.union[-1] == pytest.approx(
        missingness_reliance(forest, X, sample_weight=weight)
    )
    assert len(PathUnionDisplay(union=[0.1], single=[0.1]).plot().ax_.lines) == 2


def test_union_refuses_other_models(data):
    X, y = data
    X = SimpleImputer().fit_transform(X)
    for model in (RandomForestClassifier(2), MADecisionTreeClassifier(max_depth=2)):
        with pytest.raises(TypeError, match=f"forest .* got {type(model).__name__}"):
            PathUnionDisplay.from_estimator(model.fit(X, y), X)
    with pytest.raises(ValueError, match="single must have one entry for each of the 2"):
        PathUnionDisplay(union=[0, 0], single=[0])


# ----- several learners ----------------------------------------------------------------------


def test_a_curve_for_each_learner(data):
    X, y = data
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    learners = {
        "tree": MADecisionTreeClassifier(max_depth=3, random_state=0),
        "forest": make_pipeline(
            SimpleImputer(), MARandomForestClassifier(4, max_depth=3, random_state=0)
        ),
    }
    price = {"tree": "alpha", "forest": "marandomforestclassifier__alpha"}
    alphas = {"tree": [0.0, 1.0], "forest": [0.5, 0.0, 0.1]}
    display = RelianceCurveDisplay.from_estimators(
        learners,
        X_train,
        y_train,
        alphas=alphas,
        param_name=price,
        scoring="roc_auc",
        X_test=X_test,
        y_test=y_test,
    )
    assert display.groups.tolist() == ["tree"] * 2 + ["forest"] * 3
    assert [line.get_label() for line in display.lines_] == ["tree", "forest"]
    k = 0
    for label, learner in learners.items():
        for alpha in alphas[label]:
            model = learner.set_params(**{price[label]: alpha}).fit(X_train, y_train)
            score = roc_auc_score(y_test, model.predict_proba(X_test)[:, 1])
            assert display.alphas[k] == alpha
            assert display.scores[k] == pytest.approx(score)
            assert display.reliances[k] == pytest.approx(missingness_reliance(model, X_test))
            k += 1


def test_one_of_several_learners_is_its_own_curve(data):
    X, y = data
    splits = ShuffleSplit(3, random_state=0)
    tree = MADecisionTreeClassifier(max_depth=2, random_state=0)
    deeper = MADecisionTreeClassifier(max_depth=4, random_state=0)
    both = RelianceCurveDisplay.from_estimators(
        {"shallow": tree, "deep": deeper}, X, y, alphas=[0.0, 1.0], cv=splits
    )
    alone = RelianceCurveDisplay.from_estimator(deeper, X, y, alphas=[0.0, 1.0], cv=splits)
    assert_array_equal(both.scores[2:], alone.scores)
    assert_array_equal(both.reliances_std[2:], alone.reliances_std)


@pytest.mark.parametrize(
    ("learners", "kwargs", "message"),
    [
        ({}, {}, "estimators must hold at least one"),
        (None, {"alphas": {"tree": [0.1]}}, r"alphas must have an entry .* \['forest'\]"),
        (None, {"param_name": {"forest": "alpha"}}, r"param_name must have .* \['tree'\]"),
        (None, {"param_name": "price"}, "param_name must be a parameter of MADecisionTree"),
        (None, {"X_test": np.ones((2, 3))}, "X_test and y_test must be given together"),
    ],
)
def test_several_learners_with_something_amiss(data, learners, kwargs, message):
    if learners is None:
        learners = {"tree": MADecisionTreeClassifier(), "forest": MARandomForestClassifier(2)}
    with pytest.raises(ValueError, match=message):
        RelianceCurveDisplay.from_estimators(learners, *data, **kwargs)
