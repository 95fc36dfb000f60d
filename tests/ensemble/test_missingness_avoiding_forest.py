"""Missingness-avoiding forests: members, samples, out-of-bag answers, threads, warm starts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.inspection import partial_dependence
from sklearn.metrics import accuracy_score, mean_absolute_error, r2_score
from sklearn.model_selection import train_test_split

from skml.datasets import make_contextual_missingness
from skml.ensemble import MARandomForestClassifier, MARandomForestRegressor
from skml.metrics import missingness_reliance
from tests.ensemble._forest_problems import (
    FORESTS,
    PLAIN,
    SCOPES,
    TREE,
    is_classifier,
    outputs,
    random_problem,
)
from tests.tree._reference_tree import walk


def assert_same_trees(one, other):
    assert len(one.estimators_) == len(other.estimators_)
    for a, b in zip(one.estimators_, other.estimators_, strict=True):
        for name in ("feature", "threshold", "value", "n_node_samples", "missing_go_to_left"):
            assert_array_equal(getattr(a.tree_, name), getattr(b.tree_, name))
        assert_array_equal(a.node_missingness_reliance_, b.node_missingness_reliance_)


# ----- members and samples -------------------------------------------------------------------


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("Forest", FORESTS)
def test_members_are_trees_on_bootstrap_samples(Forest, scope):
    X, mask, y = random_problem(20, Forest)
    imputed = SimpleImputer().fit_transform(X)
    params = {"max_depth": 5, "min_samples_leaf": 3, "alpha": 0.05, "penalty_scope": scope}
    forest = Forest(4, random_state=7, **params).fit(X, y)
    samples = forest.estimators_samples_
    assert len({tuple(sample) for sample in samples}) == 4
    for member, sample in zip(forest.estimators_, samples, strict=True):
        assert len(sample) == len(X)
        counts = np.bincount(sample, minlength=len(X))
        alone = TREE[Forest](random_state=member.random_state, **params)
        alone.fit(imputed, y, sample_weight=counts, missing_mask=mask)
        assert_array_equal(member.tree_.feature, alone.tree_.feature)
        assert_allclose(member.tree_.threshold, alone.tree_.threshold)
        assert_allclose(member.tree_.value, alone.tree_.value, atol=1e-12)
        assert_allclose(member.node_missingness_reliance_, alone.node_missingness_reliance_)
        # A member answers on raw rows with the labels, the imputer and the names of the forest.
        assert_array_equal(member.predict(X), alone.predict(imputed))
        assert member.imputer_ is forest.imputer_
    assert_allclose(
        outputs(forest, X), np.mean([outputs(member, X) for member in forest.estimators_], axis=0)
    )
    assert_array_equal(
        forest.apply(X), np.column_stack([member.apply(X) for member in forest.estimators_])
    )


@pytest.mark.parametrize("Forest", FORESTS)
def test_without_bootstrap_every_tree_sees_all_rows(Forest):
    X, _, y = random_problem(21, Forest)
    forest = Forest(3, bootstrap=False, max_depth=4, random_state=0).fit(X, y)
    for member, sample in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        assert_array_equal(sample, np.arange(len(X)))
        assert member.tree_.n_node_samples[0] == len(X)
    single = TREE[Forest](max_depth=4, random_state=0).fit(X, y)
    assert_allclose(outputs(forest, X), outputs(single, X), atol=1e-12)


@pytest.mark.parametrize(
    ("max_samples", "expected"), [(None, 100), (17, 17), (0.25, 25), (1.0, 100), (300, 300)]
)
def test_max_samples_is_a_number_or_a_share_of_rows(max_samples, expected):
    X, _, y = random_problem(22, MARandomForestClassifier, n=120)
    weight = np.r_[np.zeros(20), np.full(100, 0.01)]
    forest = MARandomForestClassifier(3, max_samples=max_samples, random_state=0)
    forest.fit(X, y, sample_weight=weight)
    for sample in forest.estimators_samples_:
        assert len(sample) == expected
        assert sample.min() >= 20


@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize("Forest", FORESTS)
def test_rows_of_weight_zero_are_absent_rows(Forest, bootstrap):
    X, _, y = random_problem(23, Forest)
    weight = np.random.default_rng(0).integers(0, 3, size=len(X)).astype(float)
    kept = weight > 0
    params = {"n_estimators": 5, "bootstrap": bootstrap, "max_depth": 4, "random_state": 0}
    weighted = Forest(**params).fit(X, y, sample_weight=weight)
    without = Forest(**params).fit(X[kept], y[kept], sample_weight=weight[kept])
    assert_array_equal(outputs(weighted, X), outputs(without, X))
    assert weighted.missingness_reliance_ == pytest.approx(without.missingness_reliance_)
    in_other_units = Forest(**params).fit(X, y, sample_weight=4 * weight)
    assert_array_equal(outputs(weighted, X), outputs(in_other_units, X))


@pytest.mark.parametrize("Forest", FORESTS)
def test_constant_weights_are_no_weights(Forest):
    X, _, y = random_problem(24, Forest)
    plain = Forest(4, random_state=0).fit(X, y)
    assert_same_trees(plain, Forest(4, random_state=0).fit(X, y, np.ones(len(X))))
    assert_same_trees(plain, Forest(4, random_state=0).fit(X, y, np.full(len(X), 0.3)))


def test_class_weights():
    X, _, y = random_problem(25, MARandomForestClassifier, n=400, n_classes=2)
    kept = np.flatnonzero((y == 0) | (np.arange(400) % 8 == 0))
    X, y = X[kept], y[kept]
    params = {"n_estimators": 60, "max_depth": 3, "random_state": 0}

    def root_shares(**changes):
        forest = MARandomForestClassifier(**params).set_params(**changes).fit(X, y)
        return np.array([member.tree_.value[0, 0, 1] for member in forest.estimators_])

    rare = np.mean(y == 1)
    assert rare < 0.15
    assert root_shares().mean() == pytest.approx(rare, abs=0.02)
    # Draws are balanced in the mean, or each sample is balanced exactly by its own weights.
    balanced = root_shares(class_weight="balanced")
    assert balanced.mean() == pytest.approx(0.5, abs=0.02)
    assert balanced.std() > 0.01
    assert_allclose(root_shares(class_weight="balanced_subsample"), 0.5)
    for preset in ("balanced", "balanced_subsample"):
        assert_allclose(root_shares(class_weight=preset, bootstrap=False), 0.5)
    # Weights of 0 and 1 leave one class.
    assert_array_equal(root_shares(class_weight={0: 0, 1: 1}), 1.0)


def test_balanced_subsample_without_a_class_in_the_sample():
    X = np.arange(12.0)[:, None]
    y = np.r_[np.zeros(10), 1, 2].astype(int)
    forest = MARandomForestClassifier(
        20, class_weight="balanced_subsample", max_samples=3, random_state=0
    ).fit(X, y)
    assert {len(np.unique(y[sample])) for sample in forest.estimators_samples_} >= {1, 2}
    assert np.isfinite(forest.predict_proba(X)).all()
    for member, sample in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        present = np.unique(y[sample])
        assert_allclose(member.tree_.value[0, 0, present], 1 / len(present))


# ----- the same distribution as scikit-learn's forests ---------------------------------------


def forest_statistics(forest, X, y):
    """Score on new rows, size of the trees, and how far their answers lie apart."""
    answers = np.array([outputs(member, X.astype(np.float32)) for member in forest.estimators_])
    return [
        forest.score(X, y),
        np.log(np.mean([member.tree_.node_count for member in forest.estimators_])),
        answers.std(axis=0).mean() / np.std(answers),
    ]


@pytest.mark.parametrize("max_features", [1.0, "sqrt"])
@pytest.mark.parametrize("Forest", FORESTS)
def test_alpha_zero_is_statistically_a_random_forest(Forest, max_features):
    """Twenty pairs; leaving out the bootstrap or the draw of features misses by far."""
    load = load_breast_cancer if is_classifier(Forest) else load_diabetes
    X, y = load(return_X_y=True)
    differences = []
    for seed in range(20):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=seed)
        pair = []
        for cls, extra in ((Forest, {"alpha": 0}), (PLAIN[Forest], {})):
            # Other seeds on the two sides: equality must not come from equal draws.
            forest = cls(
                15,
                max_features=max_features,
                random_state=seed + 100 * (cls is Forest),
                **extra,
            ).fit(X_train, y_train)
            pair.append(forest_statistics(forest, X_test, y_test))
        differences.append(np.subtract(*pair))
    differences = np.array(differences)
    error = differences.std(axis=0, ddof=1) / np.sqrt(len(differences))
    assert np.all(np.abs(differences.mean(axis=0)) <= 3.5 * error), (differences.mean(0), error)
    # The error itself is small enough for the statement to mean something.
    assert np.all(error <= [0.02, 0.02, 0.02])


# ----- reliance ------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", SCOPES)
def test_context_brings_reliance_to_zero_at_no_loss(scope):
    a = np.repeat([0.0, 1.0], 200)
    b = np.tile([0.0, 1.0], 200)
    y = (a * b).astype(int)
    X = np.column_stack([a, np.where(a == 0, np.nan, b)])
    forest = MARandomForestClassifier(20, alpha=1, penalty_scope=scope, random_state=0).fit(X, y)
    assert forest.missingness_reliance_ == 0.0
    assert forest.score(X, y) == 1.0
    reader = MARandomForestClassifier(20, alpha=0.2, penalty_scope=scope, random_state=0)
    assert reader.fit(X, y).missingness_reliance_ == 0.5


def test_reliance_falls_as_alpha_rises():
    X, y = make_contextual_missingness(3000, random_state=0)
    rhos = [
        MARandomForestClassifier(10, max_depth=4, alpha=alpha, random_state=0)
        .fit(X, y)
        .missingness_reliance_
        for alpha in (0.0, 0.1, 1.0)
    ]
    assert rhos[0] > 0.7
    assert rhos[0] >= rhos[1] >= rhos[2]
    assert rhos[2] <= 0.01


@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
def test_rows_are_the_rows_of_the_cells_at_any_share_of_missing_rows(share):
    """Rows that are settled are left behind while the trees are gone through."""
    X, _, y = random_problem(30, MARandomForestRegressor, n=700, missing=0.5)
    complete = np.random.default_rng(0).random(700) >= share
    X[complete] = np.nan_to_num(X[complete])
    for alpha in (0.0, 0.3):
        forest = MARandomForestRegressor(12, max_depth=5, alpha=alpha, random_state=0).fit(X, y)
        cells = forest.missingness_reliance(X)
        rows = forest.missingness_reliance(X, reduce=True)
        assert_array_equal(rows, cells.any(axis=1))
        assert forest.missingness_reliance_ == pytest.approx(rows.mean())
        assert not rows[complete].any()


def test_training_reliance_is_weighted():
    X, _, y = random_problem(31, MARandomForestRegressor)
    weight = np.random.default_rng(1).uniform(0, 3, size=len(X))
    forest = MARandomForestRegressor(5, max_depth=3, random_state=0).fit(X, y, weight)
    assert forest.missingness_reliance_ == pytest.approx(
        missingness_reliance(forest, X, sample_weight=weight)
    )
    assert forest.missingness_reliance_ != pytest.approx(missingness_reliance(forest, X))


def test_class_weights_take_no_part_in_the_reliance_of_nodes():
    X, _, y = random_problem(32, MARandomForestClassifier)
    forest = MARandomForestClassifier(
        3, bootstrap=False, max_depth=3, class_weight={0: 1, 1: 5, 2: 0.2}, random_state=0
    ).fit(X, y)
    for member in forest.estimators_:
        rows = member.missingness_reliance(X, reduce=True)
        assert member.missingness_reliance_ == pytest.approx(rows.mean())


# ----- rows that stop ------------------------------------------------------------------------


@pytest.mark.parametrize("Forest", FORESTS)
def test_stop_policy_ends_each_tree_where_the_row_misses_its_feature(Forest):
    X, mask, y = random_problem(33, Forest, n=120)
    forest = Forest(4, max_depth=4, missing_policy="stop", random_state=0).fit(X, y)
    imputed = SimpleImputer().fit_transform(X)
    ends = np.zeros((len(X), 4), dtype=int)
    values = []
    for t, member in enumerate(forest.estimators_):
        tree = member.tree_
        for i, row in enumerate(imputed):
            ends[i, t] = walk(tree, row, stops_at=np.flatnonzero(mask[i]))[-1]
        values.append(tree.value[ends[:, t], 0, :])
    assert_array_equal(forest.apply(X), ends)
    expected = np.mean(values, axis=0)
    assert_allclose(outputs(forest, X), expected if is_classifier(Forest) else expected[:, 0])
    stopped = [
        np.mean(member.tree_.children_left[ends[:, t]] >= 0)
        for t, member in enumerate(forest.estimators_)
    ]
    assert_allclose(forest.stopped_fraction(X), stopped)
    assert max(stopped) > 0.2
    indicator, start = forest.decision_path(X)
    for t in range(4):
        visited = indicator[:, start[t] : start[t + 1]]
        assert_array_equal(visited.toarray()[np.arange(len(X)), ends[:, t]], 1)
        lengths = [
            len(walk(forest.estimators_[t].tree_, imputed[i], np.flatnonzero(mask[i])))
            for i in range(len(X))
        ]
        assert_array_equal(np.asarray(visited.sum(axis=1)).ravel(), lengths)
    assert forest.missingness_reliance_ == 0.0
    assert not forest.missingness_reliance(X).any()
    # Imputed rows stop in the same nodes if the mask comes along.
    assert forest.score(imputed, y, missing_mask=mask) == pytest.approx(forest.score(X, y))
    assert_allclose(forest.stopped_fraction(imputed, missing_mask=mask), stopped)
    assert forest.stopped_fraction(imputed).max() == 0.0


# ----- out of bag ----------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["impute", "stop"])
@pytest.mark.parametrize("Forest", FORESTS)
def test_out_of_bag_answers(Forest, policy):
    X, _, y = random_problem(40, Forest, n=200)
    weight = np.random.default_rng(0).uniform(0.1, 2, size=200)
    forest = Forest(60, oob_score=True, max_depth=4, missing_policy=policy, random_state=0)
    forest.fit(X, y, sample_weight=weight)
    n_values = 3 if is_classifier(Forest) else 1
    total, votes = np.zeros((200, n_values)), np.zeros(200)
    for member, sample in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        out = np.setdiff1d(np.arange(200), sample)
        total[out] += outputs(member, X[out]).reshape(len(out), n_values)
        votes[out] += 1
    expected = total / votes[:, None]
    if is_classifier(Forest):
        assert_allclose(forest.oob_decision_function_, expected)
        score = accuracy_score(y, forest.classes_[expected.argmax(1)], sample_weight=weight)
    else:
        assert_allclose(forest.oob_prediction_, expected[:, 0])
        score = r2_score(y, expected[:, 0], sample_weight=weight)
    assert forest.oob_score_ == pytest.approx(score)
    assert forest.oob_score_ < forest.score(X, y, sample_weight=weight)


def test_rows_without_an_out_of_bag_answer():
    X, _, y = random_problem(41, MARandomForestRegressor, n=100)
    forest = MARandomForestRegressor(2, oob_score=mean_absolute_error, random_state=0)
    with pytest.warns(UserWarning, match=r"\d+ rows .* n_estimators"):
        forest.fit(X, y)
    absent = np.isnan(forest.oob_prediction_)
    in_both = set(forest.estimators_samples_[0]) & set(forest.estimators_samples_[1])
    assert_array_equal(np.flatnonzero(absent), sorted(in_both))
    assert forest.oob_score_ == pytest.approx(
        mean_absolute_error(y[~absent], forest.oob_prediction_[~absent])
    )
    with pytest.warns(UserWarning, match="n_estimators"):
        alone = MARandomForestClassifier(1, oob_score=True).fit([[1.0]], [3])
    assert np.isnan(alone.oob_score_)


# ----- threads and warm starts ---------------------------------------------------------------


@pytest.mark.parametrize("Forest", FORESTS)
def test_number_of_jobs_changes_nothing(Forest):
    X, _, y = random_problem(50, Forest, n=2100)
    params = {"n_estimators": 30, "max_depth": 6, "oob_score": True, "random_state": 3}
    one = Forest(n_jobs=1, **params).fit(X, y)
    for n_jobs in (2, 3):
        more = Forest(n_jobs=n_jobs, **params).fit(X, y)
        assert_same_trees(one, more)
        assert_array_equal(outputs(one, X), outputs(more, X))
        assert_array_equal(one.apply(X), more.apply(X))
        assert_array_equal(one.missingness_reliance(X), more.missingness_reliance(X))
        assert one.missingness_reliance_ == more.missingness_reliance_
        assert one.oob_score_ == more.oob_score_


@pytest.mark.parametrize("Forest", FORESTS)
def test_warm_start_grows_the_trees_of_a_single_fit(Forest):
    X, _, y = random_problem(51, Forest)
    params = {"max_depth": 4, "oob_score": True, "max_samples": 0.5, "random_state": 0}
    whole = Forest(20, **params).fit(X, y)
    grown = Forest(12, warm_start=True, **params).fit(X, y)
    first = grown.estimators_[:]
    imputer = grown.imputer_
    grown.set_params(n_estimators=20).fit(X, y)
    assert all(a is b for a, b in zip(first, grown.estimators_[:12], strict=True))
    assert grown.imputer_ is imputer
    assert_same_trees(whole, grown)
    assert_array_equal(outputs(whole, X), outputs(grown, X))
    assert grown.missingness_reliance_ == whole.missingness_reliance_
    assert grown.oob_score_ == whole.oob_score_
    # New rows for new trees: all of them read what the first imputer fills in.
    grown.set_params(n_estimators=22).fit(X[:150], y[:150])
    assert len(grown.estimators_) == 22
    assert grown.imputer_ is imputer
    assert grown.estimators_[-1].imputer_ is imputer


def test_warm_start_that_cannot_go_on():
    X, _, y = random_problem(52, MARandomForestClassifier)
    forest = MARandomForestClassifier(5, warm_start=True, random_state=0).fit(X, y)
    before = outputs(forest, X)
    with pytest.raises(ValueError, match="n_estimators=3 must be at least 5"):
        forest.set_params(n_estimators=3).fit(X, y)
    with pytest.raises(ValueError, match="classes of the first fit"):
        forest.set_params(n_estimators=7).fit(X, y + 1)
    with pytest.warns(UserWarning, match="no new tree"):
        forest.set_params(n_estimators=5).fit(X, y)
    assert_array_equal(outputs(forest, X), before)
    # Without a warm start a second fit starts anew.
    forest.set_params(warm_start=False, n_estimators=3).fit(X, y + 1)
    assert len(forest.estimators_) == 3
    assert_array_equal(forest.classes_, [1, 2, 3])


@pytest.mark.parametrize("imputer", ["zero", "native"])
@pytest.mark.parametrize("n_columns", [2, 8])
@pytest.mark.parametrize("Forest", FORESTS)
def test_warm_start_refuses_other_columns(Forest, n_columns, imputer):
    # Trees that are kept would read beyond the columns, or never see the new ones.
    X, _, y = random_problem(53, Forest)
    X = np.nan_to_num(X)
    forest = Forest(2, warm_start=True, imputer=imputer, random_state=0).fit(X, y)
    before = outputs(forest, X)
    other = np.resize(X, (len(X), n_columns))
    with pytest.raises(ValueError, match=f"X has {n_columns} features"):
        forest.set_params(n_estimators=3).fit(other, y)
    assert_array_equal(outputs(forest, X), before)
    forest.set_params(warm_start=False).fit(other, y)
    assert forest.n_features_in_ == n_columns


@pytest.mark.parametrize("imputers", [("native", "mean"), ("mean", "native")])
@pytest.mark.parametrize("Forest", FORESTS)
def test_warm_start_keeps_the_treatment_of_missing_values(Forest, imputers):
    X, _, y = random_problem(54, Forest)
    first, second = imputers
    whole = Forest(4, imputer=first, alpha=0.0, random_state=0).fit(X, y)
    forest = Forest(1, imputer=first, alpha=0.0, random_state=0, warm_start=True).fit(X, y)
    forest.set_params(n_estimators=4, imputer=second).fit(X, y)
    assert_same_trees(forest, whole)


@pytest.mark.parametrize("Forest", FORESTS)
def test_every_tree_parameter_reaches_the_trees(Forest):
    X, _, y = random_problem(53, Forest)
    X = np.exp(X)  # skewed: mean and median fill in on different sides of a threshold
    base = {"n_estimators": 3, "random_state": 0, "max_depth": 5}
    plain = outputs(Forest(**base).fit(X, y), X)
    changes = [
        {"max_depth": 2},
        {"min_samples_split": 100},
        {"min_samples_leaf": 0.2},
        {"min_weight_fraction_leaf": 0.2},
        {"max_features": 1},
        {"max_leaf_nodes": 4},
        {"min_impurity_decrease": 0.05},
        {"ccp_alpha": 0.05},
        {"alpha": 2.0},
        {"penalty_scope": "row"},
        {"alpha_scale": "absolute" if not is_classifier(Forest) else "relative"},
        {"stop_on_net_loss": True, "alpha": 3.0},
        {"imputer": "zero"},
        {"imputer": "median"},
        {"imputer": "native"},
        {"imputer": SimpleImputer(strategy="constant", fill_value=-9.0)},
        {"missing_policy": "stop"},
        {"bootstrap": False},
        {"max_samples": 0.5},
        {"random_state": 1},
    ]
    if is_classifier(Forest):
        changes += [{"criterion": "entropy"}, {"class_weight": {0: 10}}]
    for change in changes:
        forest = Forest(**base).set_params(**change).fit(X, y)
        assert not np.array_equal(outputs(forest, X), plain), change


# ----- input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bootstrap": False, "max_samples": 5}, "max_samples must be None with bootstrap=False"),
        ({"bootstrap": False, "oob_score": True}, "oob_score must be False with bootstrap=False"),
        ({"monotonic_cst": [1, 0, 0, 0, 0]}, "monotonic_cst is not supported"),
        ({"alpha": -0.1}, "'alpha' parameter"),
        ({"n_estimators": 0}, "'n_estimators' parameter"),
        ({"max_samples": 0}, "'max_samples' parameter"),
        ({"penalty_scope": "tree"}, "'penalty_scope' parameter"),
        ({"missing_policy": "skip"}, "'missing_policy' parameter"),
        ({"criterion": "friedman_mse"}, "criterion"),
    ],
)
@pytest.mark.parametrize("Forest", FORESTS)
def test_bad_parameters(Forest, change, message):
    X, _, y = random_problem(60, Forest)
    with pytest.raises(ValueError, match=message):
        Forest().set_params(**change).fit(X, y)


@pytest.mark.parametrize("Forest", FORESTS)
def test_bad_data_leaves_the_earlier_model(Forest):
    X, mask, y = random_problem(61, Forest)
    forest = Forest(3, random_state=0).fit(X, y)
    before = outputs(forest, X)
    infinite = X.copy()
    infinite[0, 0] = np.inf
    for args, kwargs, message in [
        ((infinite, y), {}, "(?i)infinity"),
        ((X, y), {"missing_mask": mask[:, :2]}, "missing_mask must have the shape"),
        ((X, y), {"missing_mask": mask + 1}, "missing_mask must hold booleans"),
        ((X, y, np.zeros(len(X))), {}, "(?i)sample weights"),
        ((X, y, -np.ones(len(X))), {}, "sample_weight"),
        ((X, np.column_stack([y, y])), {}, "multi-output"),
        ((X, np.where(np.arange(len(y)) == 3, np.nan, y)), {}, "NaN"),
    ]:
        with pytest.raises(ValueError, match=message):
            forest.fit(*args, **kwargs)
        fresh = clone(forest)
        with pytest.raises(ValueError, match=message):
            fresh.fit(*args, **kwargs)
        with pytest.raises(NotFittedError):
            fresh.predict(X)
    assert_array_equal(outputs(forest, X), before)


@pytest.mark.parametrize("imputer", ["mean", "median", "zero", "native"])
@pytest.mark.parametrize("Forest", FORESTS)
def test_degenerate_data(Forest, imputer):
    one = Forest(3, imputer=imputer).fit([[1.0, np.nan]], [1])
    assert_array_equal(one.predict([[5.0, 5.0], [np.nan, np.nan]]), [1, 1])
    X, _, y = random_problem(62, Forest, n=50)
    empty = Forest(3, imputer=imputer).fit(np.full(X.shape, np.nan), y)
    assert empty.missingness_reliance_ == 0.0
    assert_array_equal(empty.feature_importances_, 0.0)
    same = Forest(3, imputer=imputer).fit(X, np.full(50, 4))
    assert_array_equal(same.predict(X), 4)
    assert same.missingness_reliance_ == 0.0


@pytest.mark.parametrize("Forest", FORESTS)
def test_what_expects_a_forest_of_scikit_learn_accepts_it(Forest):
    pandas = pytest.importorskip("pandas")
    X, _, y = random_problem(63, Forest)
    frame = pandas.DataFrame(X, columns=list("abcde"))
    forest = Forest(5, max_depth=3, random_state=0).fit(frame, y)
    assert isinstance(forest, PLAIN[Forest])
    assert len(forest) == 5
    assert forest[0] is forest.estimators_[0]
    assert "a <=" in forest[0].export_text() or "c <=" in forest[0].export_text()
    assert_array_equal(forest[0].predict(frame), forest[0].predict(frame))
    if not is_classifier(Forest):
        imputed = pandas.DataFrame(SimpleImputer().fit_transform(frame), columns=list("abcde"))
        by_trees = partial_dependence(forest, imputed, ["a"], method="recursion")
        by_rows = partial_dependence(forest, imputed, ["a"], method="brute")
        assert by_trees["average"].shape == by_rows["average"].shape
        shift = by_trees["average"] - by_rows["average"]
        assert np.ptp(shift) < 0.5 * np.ptp(by_rows["average"])


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 40),
    d=st.integers(1, 4),
    missing=st.sampled_from([0.0, 0.4, 1.0]),
    n_distinct=st.integers(1, 5),
    alpha=st.sampled_from([0.0, 0.3, 10.0]),
    imputer=st.sampled_from(["mean", "median", "zero", "native"]),
    policy=st.sampled_from(["impute", "stop"]),
    scope=st.sampled_from(SCOPES),
    seed=st.integers(0, 10**6),
)
def test_invariants_on_small_data_with_ties(
    n, d, missing, n_distinct, alpha, imputer, policy, scope, seed
):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, n_distinct, size=(n, d)).astype(float)
    mask = rng.random((n, d)) < missing
    X[mask] = np.nan
    y = rng.integers(0, 3, size=n)
    forest = MARandomForestClassifier(
        4,
        alpha=alpha,
        imputer=imputer,
        missing_policy=policy,
        penalty_scope=scope,
        random_state=seed,
    ).fit(X, y)
    proba = forest.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1.0)
    cells = forest.missingness_reliance(X)
    assert not (cells & ~mask).any()
    rows = forest.missingness_reliance(X, reduce=True)
    assert_array_equal(rows, cells.any(axis=1))
    assert forest.missingness_reliance_ == pytest.approx(rows.mean())
    by_tree = [member.missingness_reliance(X) for member in forest.estimators_]
    assert_array_equal(cells, np.any(by_tree, axis=0))
    if policy == "stop":
        assert not rows.any()
    # Every row ends in a leaf, or in a node whose feature it misses.
    for member, ends in zip(forest.estimators_, forest.apply(X).T, strict=True):
        feature = member.tree_.feature[ends]
        inner = np.flatnonzero(feature >= 0)
        assert mask[inner, feature[inner]].all()
