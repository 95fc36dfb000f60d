"""Missingness reliance against plain recursion, row by row, on every kind of model."""

import pickle
import warnings

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.impute._iterative import IterativeImputer
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skml.metrics import missingness_reliance, missingness_reliance_scorer
from skml.preprocessing import NaNOneHotEncoder


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = (X[:, 0] + X[:, 1] * (X[:, 2] > 0) > 0).astype(int) + (X[:, 3] > 1)
    X[rng.uniform(size=X.shape) < 0.15] = np.nan
    return X, y


# ------------------------------------------------------------------ plain recursion


def tree_path(tree, row, node=0):
    """Features that a scikit-learn Tree tests for one row."""
    if tree.children_left[node] < 0:
        return set()
    j = tree.feature[node]
    value = np.float32(row[j])
    if np.isnan(value):
        goes_left = tree.missing_go_to_left[node]
    else:
        goes_left = value <= tree.threshold[node]
    child = tree.children_left[node] if goes_left else tree.children_right[node]
    return {int(j)} | tree_path(tree, row, child)


def hist_path(predictor, row, node=0):
    record = predictor.nodes[node]
    if record["is_leaf"]:
        return set()
    j = int(record["feature_idx"])
    if np.isnan(row[j]):
        goes_left = record["missing_go_to_left"]
    elif record["is_categorical"]:
        word, bit = divmod(int(row[j]), 32)
        goes_left = int(predictor.raw_left_cat_bitsets[record["bitset_idx"]][word]) >> bit & 1
    else:
        goes_left = row[j] <= record["num_threshold"]
    return {j} | hist_path(predictor, row, int(record["left" if goes_left else "right"]))


def lightgbm_path(node, row):
    if "split_feature" not in node:
        return set()
    j = node["split_feature"]
    value = row[j]
    if node["decision_type"] == "==":
        goes_left = not np.isnan(value) and str(int(value)) in node["threshold"].split("||")
    elif np.isnan(value) and node["missing_type"] == "NaN":
        goes_left = node["default_left"]
    else:
        goes_left = np.nan_to_num(value) <= node["threshold"]
    child = node["left_child" if goes_left else "right_child"]
    return {j} | lightgbm_path(child, row)


def reliant_rows(read_by_row, mask):
    return np.array(
        [any(mask[i, j] for j in read) for i, read in enumerate(read_by_row)], dtype=bool
    )


def union_of_trees(trees, X, path):
    return [set().union(*(path(tree, row) for tree in trees)) for row in X]


def assert_rows_equal(model, X, expected, mask=None):
    rows = missingness_reliance(model, X, missing_mask=mask, reduce=False)
    assert rows.dtype == bool
    np.testing.assert_array_equal(rows, expected)
    assert 0 < expected.mean() < 1  # else the comparison shows nothing
    assert missingness_reliance(model, X, missing_mask=mask) == pytest.approx(expected.mean())


# ------------------------------------------------------------------ kinds of models


@pytest.mark.parametrize(
    "tree",
    [
        DecisionTreeClassifier(max_depth=3, random_state=0),
        DecisionTreeClassifier(max_leaf_nodes=6, random_state=0),
        DecisionTreeRegressor(max_depth=2, random_state=0),
    ],
    ids=["depth-first", "best-first", "regressor"],
)
def test_tree_with_native_nan(tree, data):
    X, y = data
    tree.fit(X, y)
    expected = reliant_rows(union_of_trees([tree.tree_], X, tree_path), np.isnan(X))
    assert_rows_equal(tree, X, expected)


def test_a_tree_reads_only_what_is_on_the_path_of_the_row():
    # Root: feature 0; feature 1 is tested on the right side only.
    X = np.array([[0, np.nan], [0, np.nan], [1, 0], [1, 1], [1, np.nan]])
    tree = DecisionTreeClassifier(random_state=0).fit(np.nan_to_num(X), [0, 0, 1, 2, 1])
    mask = np.isnan(X)
    rows = missingness_reliance(tree, np.nan_to_num(X), missing_mask=mask, reduce=False)
    np.testing.assert_array_equal(rows, [False, False, False, False, True])


def test_single_leaf_reads_nothing(data):
    X, y = data
    tree = DecisionTreeClassifier(max_depth=1, min_samples_leaf=200).fit(X, y)
    assert tree.get_depth() == 0
    assert missingness_reliance(tree, X) == 0.0


@pytest.mark.parametrize(
    "forest",
    [
        RandomForestClassifier(3, max_depth=2, max_features=2, random_state=0),
        ExtraTreesRegressor(3, max_depth=2, random_state=0),
    ],
    ids=["random-forest", "extra-trees"],
)
def test_forest(forest, data):
    X, y = data
    forest.fit(X, y)
    trees = [tree.tree_ for tree in forest.estimators_]
    expected = reliant_rows(union_of_trees(trees, X, tree_path), np.isnan(X))
    assert_rows_equal(forest, X, expected)
    # Bounds of the union: at least every tree's share, at most their sum.
    shares = [missingness_reliance(tree, X) for tree in forest.estimators_]
    assert max(shares) <= expected.mean() <= sum(shares)


@pytest.mark.parametrize("kind", [GradientBoostingClassifier, GradientBoostingRegressor])
@pytest.mark.parametrize("init", [None, "zero"])
def test_gradient_boosting(kind, init, data):
    X, y = data
    X0, mask = np.nan_to_num(X), np.isnan(X)
    model = kind(n_estimators=3, max_depth=2, init=init, random_state=0).fit(X0, y)
    trees = [tree.tree_ for tree in model.estimators_.ravel()]
    expected = reliant_rows(union_of_trees(trees, X0, tree_path), mask)
    assert_rows_equal(model, X0, expected, mask)


def test_gradient_boosting_counts_its_initial_model(data):
    X, y = data
    X0, mask = np.nan_to_num(X), np.isnan(X)
    model = GradientBoostingRegressor(
        init=Lasso(alpha=0.05), n_estimators=1, max_depth=1, random_state=0
    ).fit(X0, y)
    read_by_init = set(np.flatnonzero(model.init_.coef_).tolist())
    paths = union_of_trees([model.estimators_[0, 0].tree_], X0, tree_path)
    assert not read_by_init <= paths[0]
    assert_rows_equal(model, X0, reliant_rows([path | read_by_init for path in paths], mask), mask)


@pytest.mark.parametrize("kind", [HistGradientBoostingClassifier, HistGradientBoostingRegressor])
def test_hist_gradient_boosting(kind, data):
    X, y = data
    model = kind(max_iter=2, max_leaf_nodes=4, random_state=0).fit(X, y)
    trees = [tree for stage in model._predictors for tree in stage]
    expected = reliant_rows(union_of_trees(trees, X, hist_path), np.isnan(X))
    before = model.predict(X)
    assert_rows_equal(model, X, expected)
    np.testing.assert_array_equal(model.predict(X), before)


def test_hist_gradient_boosting_with_categories_keeps_the_columns_apart(data):
    X, _ = data
    rng = np.random.default_rng(1)
    X = X.copy()
    category = rng.integers(0, 10, size=len(X)).astype(float)
    X[:, 3] = np.where(rng.uniform(size=len(X)) < 0.3, np.nan, category)
    y = (category % 3 == 0) & (np.nan_to_num(X[:, 4]) > -0.5)
    model = HistGradientBoostingClassifier(
        max_iter=2, max_leaf_nodes=4, categorical_features=[3], min_samples_leaf=5
    ).fit(X, y)
    encoded = model._preprocess_X(X, reset=False)  # the category comes first there
    order = [3, 0, 1, 2, 4, 5]
    trees = [stage[0] for stage in model._predictors]
    assert any(tree.nodes["is_categorical"].any() for tree in trees)
    read = [{order[j] for j in path} for path in union_of_trees(trees, encoded, hist_path)]
    assert_rows_equal(model, X, reliant_rows(read, np.isnan(X)))


def test_lightgbm(data):
    X, y = data
    model = lightgbm.LGBMClassifier(n_estimators=2, num_leaves=4, verbose=-1, n_jobs=1).fit(X, y)
    trees = [tree["tree_structure"] for tree in model.booster_.dump_model()["tree_info"]]
    expected = reliant_rows(union_of_trees(trees, X, lightgbm_path), np.isnan(X))
    assert_rows_equal(model, X, expected)
    assert_rows_equal(model.booster_, X, expected)


def test_lightgbm_with_categories(data):
    X, _ = data
    X = np.nan_to_num(X)
    rng = np.random.default_rng(2)
    X[:, 0] = rng.integers(0, 8, size=len(X))
    y = (X[:, 0] % 3 == 0) * 1.0 + (X[:, 0] % 2 == 0) * X[:, 1]
    X[rng.uniform(size=X.shape) < 0.2] = np.nan
    model = lightgbm.LGBMRegressor(
        n_estimators=2, num_leaves=4, verbose=-1, n_jobs=1, min_data_per_group=5
    ).fit(X, y, categorical_feature=[0])
    trees = [tree["tree_structure"] for tree in model.booster_.dump_model()["tree_info"]]
    assert "==" in str(trees)
    assert_rows_equal(model, X, reliant_rows(union_of_trees(trees, X, lightgbm_path), np.isnan(X)))


def test_lightgbm_linear_trees_read_features_in_the_leaf(data):
    X, y = data
    X0 = np.nan_to_num(X)
    y = y + X0[:, 5] * (X0[:, 0] > 0)
    model = lightgbm.LGBMRegressor(
        n_estimators=2, num_leaves=3, linear_tree=True, verbose=-1, n_jobs=1
    ).fit(X0, y)
    in_splits, in_leaves = set(), set()
    stack = [tree["tree_structure"] for tree in model.booster_.dump_model()["tree_info"]]
    while stack:
        node = stack.pop()
        if "split_feature" in node:
            in_splits.add(node["split_feature"])
            stack += [node["left_child"], node["right_child"]]
        else:
            in_leaves |= set(node["leaf_features"])
    assert in_leaves
    for j in range(X.shape[1]):
        mask = np.zeros(X.shape, dtype=bool)
        mask[:, j] = True
        is_read = missingness_reliance(model, X0, missing_mask=mask) > 0
        assert is_read == (j in in_leaves | in_splits)


@pytest.mark.parametrize(
    "model", [Lasso(alpha=0.05), LogisticRegression(l1_ratio=1.0, solver="saga", C=0.05)]
)
def test_linear_model_reads_features_with_a_coefficient(model, data):
    X, y = data
    X0, mask = np.nan_to_num(X), np.isnan(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X0, y)
    used = (np.atleast_2d(model.coef_) != 0).any(axis=0)
    assert 0 < used.sum() < X.shape[1]
    assert_rows_equal(model, X0, mask[:, used].any(axis=1), mask)


def test_linear_model_on_sparse_input_and_with_sparse_coefficients(data):
    X, y = data
    X0, mask = np.nan_to_num(X), np.isnan(X)
    model = SGDClassifier(penalty="l1", alpha=0.02, random_state=0).fit(sparse.csr_matrix(X0), y)
    expected = missingness_reliance(model, X0, missing_mask=mask, reduce=False)
    with_nan = sparse.csr_matrix(X)
    rows = missingness_reliance(model.sparsify(), with_nan, reduce=False)
    np.testing.assert_array_equal(rows, expected)


# ------------------------------------------------------------------ everything else


def test_unknown_model_counts_as_reading_everything_and_says_so(data):
    X, y = data
    X0, mask = np.nan_to_num(X), np.isnan(X)
    model = KNeighborsClassifier().fit(X0, y)
    with pytest.warns(UserWarning, match="which features KNeighborsClassifier reads"):
        rows = missingness_reliance(model, X0, missing_mask=mask, reduce=False)
    np.testing.assert_array_equal(rows, mask.any(axis=1))


class OwnMethod(ClassifierMixin, BaseEstimator):
    """Says that it relies on missing values of the first feature."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])

    def missingness_reliance(self, X, missing_mask=None, reduce=False):
        cells = np.isnan(X)
        if missing_mask is not None:
            cells = cells | missing_mask
        cells[:, 1:] = False
        return cells.any(axis=1) if reduce else cells


def test_own_method_decides_alone_and_behind_a_pipeline(data):
    X, y = data
    expected = np.isnan(X[:, 0])
    np.testing.assert_array_equal(
        missingness_reliance(OwnMethod().fit(X, y), X, reduce=False), expected
    )
    pipeline = make_pipeline(SimpleImputer(), OwnMethod()).fit(X, y)
    np.testing.assert_array_equal(missingness_reliance(pipeline, X, reduce=False), expected)
    extra = np.zeros_like(X, dtype=bool)
    extra[:7, 0] = True
    np.testing.assert_array_equal(
        missingness_reliance(pipeline, X, missing_mask=extra, reduce=False), expected | extra[:, 0]
    )


def test_not_fitted():
    with pytest.raises(NotFittedError):
        missingness_reliance(DecisionTreeClassifier(), [[1.0]])


# ------------------------------------------------------------------ pipelines


@pytest.mark.parametrize(
    "steps",
    [
        [SimpleImputer()],
        [StandardScaler(), KNNImputer()],
        ["passthrough", IterativeImputer(max_iter=1)],
        [make_pipeline(StandardScaler(), SimpleImputer())],
        [None, FunctionTransformer(), SimpleImputer(strategy="median")],
    ],
    ids=["mean", "scaler-knn", "iterative", "nested", "identity"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pipeline_takes_the_mask_from_its_input(steps, data):
    X, y = data
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    pipeline = make_pipeline(*steps, tree).fit(X, y)
    imputed = pipeline[:-1].transform(X)
    expected = reliant_rows(union_of_trees([pipeline[-1].tree_], imputed, tree_path), np.isnan(X))
    assert_rows_equal(pipeline, X, expected)


def test_imputer_that_drops_columns_and_adds_indicators(data):
    X, y = data
    X = np.column_stack([np.full(len(X), np.nan), X])  # column 0 is dropped
    y = np.isnan(X[:, 5]).astype(int)  # only the indicator of column 5 tells
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = make_pipeline(
            SimpleImputer(add_indicator=True), DecisionTreeClassifier(max_depth=1)
        ).fit(X, y)
        assert pipeline.predict(X).tolist() == y.tolist()
        rows = missingness_reliance(pipeline, X, reduce=False)
    np.testing.assert_array_equal(rows, y == 1)


def test_feature_selector_maps_back(data):
    X, y = data
    pipeline = make_pipeline(SimpleImputer(), SelectKBest(k=2), LinearRegression()).fit(X, y)
    chosen = pipeline[1].get_support()
    np.testing.assert_array_equal(
        missingness_reliance(pipeline, X, reduce=False), np.isnan(X)[:, chosen].any(axis=1)
    )


def categorical_frame():
    rng = np.random.default_rng(4)
    color = rng.choice(["red", "green", "blue"], size=200)
    size = rng.normal(size=200)
    y = (color == "red").astype(int)
    return (
        pd.DataFrame(
            {
                "size": np.where(rng.uniform(size=200) < 0.3, np.nan, size),
                "color": pd.Series(color, dtype=object).mask(rng.uniform(size=200) < 0.2),
            }
        ),
        y,
    )


def test_one_hot_columns_count_for_their_feature():
    X, y = categorical_frame()
    tree = DecisionTreeClassifier(max_depth=1, random_state=0)
    encoder = NaNOneHotEncoder()
    pipeline = make_pipeline(encoder, SimpleImputer(), tree).fit(X[["color"]], y)
    np.testing.assert_array_equal(
        missingness_reliance(pipeline, X[["color"]], reduce=False), X["color"].isna()
    )


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_column_transformer(kind):
    X, y = categorical_frame()
    missing = X["color"].isna().to_numpy()
    if kind == "polars":
        X = pl.DataFrame(
            {
                "size": X["size"].to_numpy(),
                "color": X["color"].astype(object).where(X["color"].notna(), None).tolist(),
            }
        )
        X = X.with_columns(pl.col("size").fill_nan(None))
    columns = ColumnTransformer(
        [
            ("color", make_pipeline(NaNOneHotEncoder(), SimpleImputer()), ["color"]),
            ("size", SimpleImputer(), ["size"]),
        ]
    )
    pipeline = make_pipeline(columns, DecisionTreeClassifier(max_depth=1)).fit(X, y)
    rows = missingness_reliance(pipeline, X, reduce=False)
    np.testing.assert_array_equal(rows, missing)


@pytest.mark.parametrize("step", [Normalizer(), FunctionTransformer(np.flip)])
def test_steps_that_mix_columns_count_as_reading_everything(step, data):
    X, y = data
    tree = DecisionTreeClassifier(max_depth=1)
    pipeline = make_pipeline(SimpleImputer(), step, tree).fit(X, y)
    with pytest.warns(UserWarning, match=f"because of its step {type(step).__name__}"):
        rho = missingness_reliance(pipeline, X)
    assert rho == np.isnan(X).any(axis=1).mean()


def test_one_hot_encoder_of_scikit_learn_is_not_trusted():
    X, y = categorical_frame()
    pipeline = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(X[["color"]], y)
    with pytest.warns(UserWarning, match="step OneHotEncoder"):
        assert missingness_reliance(pipeline, X[["color"]]) == X["color"].isna().mean()


def test_search_counts_as_its_best_estimator(data):
    X, y = data
    search = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2]}, cv=2)
    search.fit(X, y)
    assert missingness_reliance(search, X) == missingness_reliance(search.best_estimator_, X)


# ------------------------------------------------------------------ masks, weights, errors


def test_weights_are_repeated_rows(data):
    X, y = data
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    weight = np.random.default_rng(5).integers(0, 4, size=len(X))
    repeated = missingness_reliance(tree, np.repeat(X, weight, axis=0))
    weighted = missingness_reliance(tree, X, sample_weight=weight)
    assert weighted == pytest.approx(repeated, abs=1e-12)
    assert weighted != missingness_reliance(tree, X)


def test_mask_adds_to_nan_and_may_be_zeros_and_ones(data):
    X, y = data
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    extra = np.zeros(X.shape, dtype=int)
    extra[:, tree.tree_.feature[0]] = 1
    assert missingness_reliance(tree, X, missing_mask=extra) == 1.0
    assert missingness_reliance(tree, X, missing_mask=extra * 0) == missingness_reliance(tree, X)


def test_errors_name_the_argument(data):
    X, y = data
    tree = DecisionTreeClassifier(max_depth=2).fit(X, y)
    with pytest.raises(ValueError, match=r"missing_mask must have the shape of X, \(300, 6\)"):
        missingness_reliance(tree, X, missing_mask=np.zeros((3, 6)))
    with pytest.raises(ValueError, match="missing_mask must hold booleans, or 0 and 1"):
        missingness_reliance(tree, X, missing_mask=np.full(X.shape, 2))
    with pytest.raises(ValueError, match="missing_mask must hold booleans"):
        missingness_reliance(tree, X, missing_mask=np.full(X.shape, np.nan))
    with pytest.raises(ValueError, match="positive sum|at least one non-zero"):
        missingness_reliance(tree, X, sample_weight=np.zeros(len(X)))
    with pytest.raises(ValueError, match="Negative values in data passed to"):
        missingness_reliance(tree, X, sample_weight=-np.ones(len(X)))
    with pytest.raises(ValueError, match="X must have the 6 features that LinearRegression"):
        missingness_reliance(LinearRegression().fit(np.nan_to_num(X), y), X[:, :2])


# ------------------------------------------------------------------ scorer


def test_scorer_is_negated_and_pickles(data):
    X, y = data
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    assert missingness_reliance_scorer(tree, X, y) == -missingness_reliance(tree, X)
    scorer = pickle.loads(pickle.dumps(missingness_reliance_scorer))
    assert scorer(tree, X) == -missingness_reliance(tree, X)
    assert repr(scorer) == "missingness_reliance_scorer"


def test_scorer_in_cross_validation(data):
    X, y = data
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    scoring = {"accuracy": "accuracy", "reliance": missingness_reliance_scorer}
    scores = cross_validate(tree, X, y, scoring=scoring, cv=3, return_estimator=True)
    alone = cross_validate(tree, X, y, scoring=missingness_reliance_scorer, cv=3)
    np.testing.assert_array_equal(scores["test_reliance"], alone["test_score"])
    assert np.all(scores["test_reliance"] < 0)


def test_scorer_receives_routed_metadata(data):
    X, y = data
    mask = np.ones(X.shape, dtype=bool)
    weight = np.random.default_rng(6).uniform(size=len(X))
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = missingness_reliance_scorer.set_score_request(
            missing_mask=True, sample_weight="row_weight"
        )
        for scoring in (scorer, {"score": scorer, "accuracy": "accuracy"}):
            search = GridSearchCV(tree, {"max_depth": [1]}, scoring=scoring, cv=2, refit=False)
            search.fit(X, y, missing_mask=mask)
            np.testing.assert_array_equal(search.cv_results_["mean_test_score"], [-1.0])
        search = GridSearchCV(tree, {"max_depth": [2]}, scoring=scorer, cv=2)
        with_weights = search.fit(X, y, row_weight=weight).cv_results_["mean_test_score"][0]
        without = search.fit(X, y).cv_results_["mean_test_score"][0]
        assert with_weights != without
        # The shared scorer has kept its requests.
        with pytest.raises(TypeError, match="unexpected keyword|unexpected argument"):
            GridSearchCV(tree, {"max_depth": [1]}, scoring="accuracy", cv=2).fit(
                X, y, missing_mask=mask
            )
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="missing_mask"):
            GridSearchCV(tree, {"max_depth": [1]}, scoring=missingness_reliance_scorer, cv=2).fit(
                X, y, missing_mask=mask
            )


def test_scorer_refuses_unknown_requests():
    with pytest.raises(
        TypeError, match=r"accepts \['missing_mask', 'sample_weight'\], got \['m'\]"
    ):
        missingness_reliance_scorer.set_score_request(m=True)
