"""Missingness-avoiding trees on hostile input, under metadata routing and after pickling."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skml.metrics import missingness_reliance, missingness_reliance_scorer
from skml.model_selection import TradeoffRefit
from skml.tree import MADecisionTreeClassifier
from tests.tree._problems import GOOD_X, GOOD_Y, TREES, is_classifier, random_problem


@pytest.mark.parametrize("imputer", ["mean", "median", "zero", "native"])
@pytest.mark.parametrize("Tree", TREES)
def test_constant_columns(Tree, imputer):
    tree = Tree(imputer=imputer).fit(np.ones((20, 3)), GOOD_Y[:20])
    assert tree.tree_.node_count == 1
    assert_array_equal(tree.feature_importances_, 0)
    assert tree.missingness_reliance_ == 0.0
    X = np.hstack([np.full((30, 2), 7.0), GOOD_X])
    used = Tree(imputer=imputer).fit(X, GOOD_Y).tree_.feature
    assert set(used[used >= 0]) <= {2, 3, 4}


@pytest.mark.parametrize("imputer", ["mean", "median", "zero", "native"])
@pytest.mark.parametrize("Tree", TREES)
def test_columns_and_rows_with_nothing_in_them(Tree, imputer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        empty = Tree(imputer=imputer).fit(np.full((30, 3), np.nan), GOOD_Y)
        assert empty.tree_.node_count == 1
        assert empty.missingness_reliance_ == 0.0
        assert_array_equal(empty.feature_missing_rate_, 1.0)
        assert np.isfinite(empty.tree_.value).all()

        X = GOOD_X.copy()
        X[:, 1] = np.nan
        X[4] = np.nan
        tree = Tree(imputer=imputer, max_depth=3).fit(X, GOOD_Y)
        assert 1 not in tree.tree_.feature
        assert_allclose(tree.feature_missing_rate_, [1 / 30, 1.0, 1 / 30])
        # The root must read something, and row 4 has nothing.
        assert tree.missingness_reliance(X, reduce=True)[4]
        assert tree.missingness_reliance_ >= 1 / 30
        # A column that was empty in training may come filled; it is not read.
        assert_array_equal(tree.apply(GOOD_X * [1, 100, 1]), tree.apply(GOOD_X * [1, -100, 1]))


@pytest.mark.parametrize("imputer", ["mean", "median", "native"])
@pytest.mark.parametrize("Tree", TREES)
def test_one_row_and_one_class(Tree, imputer):
    one = Tree(imputer=imputer).fit([[1.0, np.nan]], [1])
    assert one.tree_.node_count == 1
    assert_array_equal(one.predict([[5.0, 5.0], [np.nan, np.nan]]), [1, 1])
    same = Tree(imputer=imputer).fit(GOOD_X, np.full(30, 4))
    assert same.tree_.node_count == 1
    assert_array_equal(same.predict(GOOD_X), 4)
    if is_classifier(Tree):
        assert_array_equal(same.predict_proba(GOOD_X), 1.0)


@pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")
def test_a_hundred_thousand_classes():
    n = 100_000
    X = np.random.default_rng(0).normal(size=(n, 2))
    y = np.arange(n)
    tree = MADecisionTreeClassifier(max_depth=2, alpha=0).fit(X, y)
    assert tree.tree_.value.shape == (tree.tree_.node_count, 1, n)
    assert tree.tree_.node_count <= 7
    assert tree.predict(X[:3]).shape == (3,)
    with pytest.raises(MemoryError, match=r"\d"):
        MADecisionTreeClassifier().fit(X, y)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
@pytest.mark.parametrize("Tree", TREES)
def test_infinity_is_refused(Tree, bad):
    X = GOOD_X.copy()
    X[3, 1] = bad
    with pytest.raises(ValueError, match=r"(?i)infinity"):
        Tree().fit(X, GOOD_Y)
    with pytest.raises(ValueError, match=r"(?i)infinity"):
        Tree().fit(GOOD_X, GOOD_Y).missingness_reliance(X)


@pytest.mark.parametrize(
    "mask",
    [
        np.zeros((30, 2), dtype=bool),
        np.zeros((29, 3), dtype=bool),
        np.zeros(30, dtype=bool),
        np.zeros((30, 3, 1), dtype=bool),
        np.full((30, 3), 2),
        np.full((30, 3), 0.5),
        np.full((30, 3), np.nan),
        np.full((30, 3), -1),
        np.full((30, 3), "yes"),
        "mask",
        True,
        sparse.csr_matrix((30, 3), dtype=bool),
    ],
    ids=lambda m: f"{type(m).__name__}-{getattr(m, 'shape', '')}-{getattr(m, 'dtype', '')}",
)
@pytest.mark.parametrize("Tree", TREES)
def test_masks_of_the_wrong_shape_or_kind(Tree, mask):
    with pytest.raises((ValueError, TypeError), match="missing_mask"):
        Tree().fit(GOOD_X, GOOD_Y, missing_mask=mask)
    tree = Tree().fit(GOOD_X, GOOD_Y)
    with pytest.raises((ValueError, TypeError), match="missing_mask"):
        tree.missingness_reliance(GOOD_X, missing_mask=mask)
    with pytest.raises((ValueError, TypeError), match="missing_mask"):
        missingness_reliance(tree, GOOD_X, missing_mask=mask)


@pytest.mark.parametrize("Tree", TREES)
def test_masks_of_every_good_kind_agree(Tree):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    X, mask, y, _ = random_problem(97, Tree)
    expected = Tree(max_depth=4, random_state=0).fit(X, y, missing_mask=mask)
    assert expected.missingness_reliance_ > 0
    read_only = np.asfortranarray(mask)
    read_only.setflags(write=False)
    kinds = [
        mask.tolist(),
        mask.astype(int),
        mask.astype(float),
        mask.astype(np.uint8),
        read_only,
        pandas.DataFrame(mask),
        pandas.DataFrame(mask).astype("boolean"),
        polars.DataFrame(mask),
    ]
    for kind in kinds:
        tree = Tree(max_depth=4, random_state=0).fit(X, y, missing_mask=kind)
        assert_array_equal(tree.tree_.threshold, expected.tree_.threshold)
        assert tree.missingness_reliance_ == expected.missingness_reliance_


@pytest.mark.parametrize("imputer", ["mean", "native"])
@pytest.mark.parametrize("Tree", TREES)
def test_frames_integers_booleans_and_nullable_columns(Tree, imputer):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    rng = np.random.default_rng(98)
    integers = rng.integers(0, 9, size=60)
    booleans = rng.random(60) < 0.5
    floats = rng.normal(size=60)
    gaps = rng.random((60, 3)) < 0.25
    y = (integers + 5 * booleans + floats > 6).astype(int)
    plain = np.column_stack([integers, booleans, floats]).astype(float)
    plain[gaps] = np.nan
    params = {"max_depth": 4, "alpha": 0.02, "imputer": imputer, "random_state": 0}
    expected = Tree(**params).fit(plain, y)
    assert expected.missingness_reliance_ > 0

    nullable = pandas.DataFrame(
        {
            "i": pandas.array(integers, dtype="Int64"),
            "b": pandas.array(booleans, dtype="boolean"),
            "f": pandas.array(floats, dtype="Float64"),
        }
    )
    for k, name in enumerate("ibf"):
        nullable.loc[gaps[:, k], name] = pandas.NA
    columns = {
        name: [None if g else v for g, v in zip(gaps[:, k], values.tolist(), strict=True)]
        for k, (name, values) in enumerate(
            [("i", integers), ("b", booleans.astype(int)), ("f", floats)]
        )
    }
    frames = [
        nullable,
        pandas.DataFrame(plain, columns=list("ibf")),
        polars.DataFrame(columns),
        pandas.DataFrame(columns).astype(object),
    ]
    for frame in frames:
        tree = Tree(**params).fit(frame, y)
        assert_array_equal(tree.tree_.feature, expected.tree_.feature)
        assert_array_equal(tree.predict(frame), expected.predict(plain))
        assert_array_equal(tree.missingness_reliance(frame), expected.missingness_reliance(plain))
        assert list(tree.feature_names_in_) == list("ibf")
    whole = np.column_stack([integers, booleans])
    for dtype in (np.int8, np.int64, np.uint16, bool, np.float16):
        block = whole.astype(dtype)
        assert_array_equal(
            Tree(**params).fit(block, y).predict(block),
            Tree(**params).fit(block.astype(float), y).predict(block.astype(float)),
        )


@pytest.mark.parametrize("Tree", TREES)
def test_memory_layouts_and_read_only_input(Tree, tmp_path):
    X, mask, y, w = random_problem(99, Tree)
    X[mask] = np.nan
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    frozen = [a.copy() for a in (X, y, w)]
    for array in frozen:
        array.setflags(write=False)
    params = {"max_depth": 4, "alpha": 0.05, "random_state": 0}
    expected = Tree(**params).fit(X, y, sample_weight=w)
    layouts = [
        (mapped, y, w),
        (np.asfortranarray(X), y, w),
        tuple(frozen),
        (np.repeat(X, 2, axis=1)[:, ::2], np.repeat(y, 2)[::2], np.repeat(w, 3)[::3]),
        (X[::-1][::-1], y, w),
    ]
    for A, b, c in layouts:
        tree = Tree(**params).fit(A, b, sample_weight=c)
        assert_array_equal(tree.tree_.threshold, expected.tree_.threshold)
        assert_array_equal(tree.predict(A), expected.predict(X))
        assert_array_equal(tree.missingness_reliance(A), expected.missingness_reliance(X))
    single = X.astype(np.float32)
    assert_array_equal(
        Tree(**params).fit(single, y, sample_weight=w).predict(single), expected.predict(X)
    )


@pytest.mark.parametrize("Tree", TREES)
def test_weights_that_are_zero_or_negative(Tree):
    w = np.ones(30)
    w[::3] = 0
    weighted = Tree(max_depth=3, random_state=0).fit(GOOD_X, GOOD_Y, sample_weight=w)
    reduced = Tree(max_depth=3, random_state=0).fit(GOOD_X[w > 0], GOOD_Y[w > 0])
    assert_array_equal(weighted.tree_.feature, reduced.tree_.feature)
    assert_array_equal(weighted.predict(GOOD_X), reduced.predict(GOOD_X))
    with pytest.raises(ValueError, match=r"sample_weight|weight"):
        Tree().fit(GOOD_X, GOOD_Y, sample_weight=np.zeros(30))
    w[1] = -1
    with pytest.raises(ValueError, match=r"(?i)negative"):
        Tree().fit(GOOD_X, GOOD_Y, sample_weight=w)


@pytest.mark.parametrize("Tree", TREES)
@pytest.mark.parametrize(
    "params",
    [
        {"alpha": -0.1},
        {"alpha": np.nan},
        {"alpha": "auto"},
        {"penalty_scope": "global"},
        {"alpha_scale": "sqrt"},
        {"missing_policy": "drop"},
        {"stop_on_net_loss": "yes"},
    ],
)
def test_bad_parameters_are_named(Tree, params):
    (name,) = params
    with pytest.raises(ValueError, match=name):
        Tree(**params).fit(GOOD_X, GOOD_Y)


@pytest.mark.parametrize("Tree", TREES)
def test_a_failed_fit_leaves_nothing_half_fitted(Tree):
    tree = Tree()
    with pytest.raises(ValueError, match="missing_mask"):
        tree.fit(GOOD_X, GOOD_Y, missing_mask=np.zeros((2, 2)))
    with pytest.raises(NotFittedError):
        tree.predict(GOOD_X)


@pytest.mark.parametrize("Tree", TREES)
def test_input_is_left_alone(Tree):
    X, mask, y, w = random_problem(100, Tree)
    X[mask] = np.nan
    before = [a.copy() for a in (X, mask, y, w)]
    tree = Tree(max_depth=3).fit(X, y, sample_weight=w, missing_mask=mask)
    tree.predict(X)
    tree.missingness_reliance(X, missing_mask=mask)
    for old, new in zip(before, (X, mask, y, w), strict=True):
        assert_array_equal(old, new)


# --------------------------------------------------------------------------------------
# Routing and persistence
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize("Tree", TREES)
def test_mask_is_routed_through_pipeline_and_grid_search(Tree):
    X, mask, y, w = random_problem(101, Tree)
    by_nan = np.where(mask, np.nan, X)
    imputed = SimpleImputer().fit_transform(by_nan)
    name = "accuracy" if is_classifier(Tree) else "r2"
    with config_context(enable_metadata_routing=True):
        tree = Tree(max_depth=3, random_state=0)
        tree.set_fit_request(missing_mask=True, sample_weight=True)
        tree.set_score_request(missing_mask=True, sample_weight=True)
        pipeline = make_pipeline(StandardScaler(), tree)
        grid = {f"{Tree.__name__.lower()}__alpha": [0.0, 1.0]}
        search = GridSearchCV(pipeline, grid, cv=2)
        # StandardScaler asks for nothing, so the weights reach the tree alone.
        pipeline.named_steps["standardscaler"].set_fit_request(sample_weight=False)
        search.fit(imputed, y, missing_mask=mask, sample_weight=w)
        fitted = [
            clone(search.estimator)
            .set_params(**candidate)
            .fit(imputed, y, missing_mask=mask, sample_weight=w)[-1]
            for candidate in search.cv_results_["params"]
        ]
        assert fitted[0].missingness_reliance_ > fitted[1].missingness_reliance_ > 0
        assert search.best_estimator_[-1].missingness_reliance_ in {
            f.missingness_reliance_ for f in fitted
        }
        # The scorer takes the mask too, beside the score.
        reliance = missingness_reliance_scorer.set_score_request(missing_mask=True)
        both = GridSearchCV(
            pipeline,
            grid,
            cv=2,
            scoring={"score": name, "reliance": reliance},
            refit=TradeoffRefit("score", "reliance", gamma=0.0),
        ).fit(imputed, y, missing_mask=mask)
        rhos = -both.cv_results_["mean_test_reliance"]
        assert rhos[0] > rhos[1] > 0
        assert both.best_index_ == 1
        # Without the mask nothing is missing: the same call without it must say so.
        search.fit(imputed, y, sample_weight=w)
        assert search.best_estimator_[-1].missingness_reliance_ == 0.0
        # Not requested, yet passed: scikit-learn's routing refuses to guess.
        silent = make_pipeline(StandardScaler(), Tree())
        with pytest.raises((TypeError, ValueError), match="missing_mask"):
            silent.fit(imputed, y, missing_mask=mask)
    assert cross_val_score(Tree(max_depth=3), by_nan, y, cv=3, scoring=name).shape == (3,)


@pytest.mark.parametrize("Tree", TREES)
def test_scorer_ranks_by_reliance_alone(Tree):
    X, mask, y, _ = random_problem(102, Tree)
    X[mask] = np.nan
    tree = Tree(max_depth=3, alpha=0.0).fit(X, y)
    assert missingness_reliance_scorer(tree, X, y) == -missingness_reliance(tree, X)
    metric = "accuracy" if is_classifier(Tree) else "r2"
    search = GridSearchCV(
        Pipeline([("tree", Tree(max_depth=3))]),
        {"tree__alpha": [0.0, 0.05, 5.0]},
        scoring={"score": metric, "reliance": missingness_reliance_scorer},
        refit=TradeoffRefit("score", "reliance", gamma=0.0),
        cv=2,
    ).fit(X, y)
    assert search.best_index_ == np.argmax(search.cv_results_["mean_test_reliance"])


@pytest.mark.parametrize("params", [{}, {"imputer": "native"}, {"missing_policy": "stop"}])
@pytest.mark.parametrize("Tree", TREES)
def test_pickle_and_deepcopy(Tree, params):
    X, mask, y, _ = random_problem(103, Tree)
    X[mask] = np.nan
    tree = Tree(max_depth=5, alpha=0.05, **params).fit(X, y)
    for other in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree)):
        assert_array_equal(other.predict(X), tree.predict(X))
        assert_array_equal(other.apply(X), tree.apply(X))
        assert_array_equal(other.missingness_reliance(X), tree.missingness_reliance(X))
        assert_array_equal(other.node_missingness_reliance_, tree.node_missingness_reliance_)
    assert type(tree.tree_) is type(DecisionTreeClassifier().fit(GOOD_X, GOOD_Y).tree_)
