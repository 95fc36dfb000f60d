"""Missingness-avoiding trees where scikit-learn's trees were: same tree, same manners."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.tree import DecisionTreeClassifier, export_text, plot_tree

from skml.tree import MADecisionTreeClassifier
from tests.tree._problems import GOOD_X, GOOD_Y, PAIRS, TREES, is_classifier, random_problem

SHAPES = [
    {"max_depth": 1},
    {"max_depth": 4, "min_samples_leaf": 5},
    {"max_depth": 8, "min_samples_leaf": 7},
    {"min_samples_leaf": 15},
    {"min_samples_leaf": 0.04},
    {"min_samples_split": 60, "min_samples_leaf": 5},
    {"min_samples_split": 0.2, "min_samples_leaf": 5},
    {"min_weight_fraction_leaf": 0.05},
    {"min_impurity_decrease": 0.01, "min_samples_leaf": 5},
    {"max_leaf_nodes": 2},
    {"max_leaf_nodes": 13, "min_samples_leaf": 5},
    {"max_leaf_nodes": 20, "max_depth": 5, "min_samples_leaf": 5},
    {"ccp_alpha": 0.01, "min_samples_leaf": 5},
    {"ccp_alpha": 0.004, "max_leaf_nodes": 15, "min_samples_leaf": 5},
]


def assert_same_tree(ours, theirs):
    for name in ("feature", "children_left", "children_right", "n_node_samples"):
        assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    for name in ("threshold", "impurity", "weighted_n_node_samples", "value"):
        assert_allclose(
            getattr(ours, name), getattr(theirs, name), rtol=1e-7, atol=1e-9, err_msg=name
        )
    assert ours.max_depth == theirs.max_depth
    assert ours.n_leaves == theirs.n_leaves


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "-".join(f"{k}={v}" for k, v in s.items()))
@pytest.mark.parametrize(
    ("Ours", "Theirs", "criterion"),
    [
        (*PAIRS[0], "gini"),
        (*PAIRS[0], "entropy"),
        (*PAIRS[0], "log_loss"),
        (*PAIRS[1], "squared_error"),
    ],
)
def test_alpha_zero_is_scikit_learns_tree(Ours, Theirs, criterion, shape):
    X, _, y, w = random_problem(80, Ours, n=500, d=6)
    params = {**shape, "criterion": criterion, "random_state": 0}
    ours = Ours(alpha=0, **params).fit(X, y, sample_weight=w)
    theirs = Theirs(**params).fit(X, y, sample_weight=w)
    assert_same_tree(ours.tree_, theirs.tree_)
    Z = np.random.default_rng(1).normal(size=(400, 6))
    assert_array_equal(ours.apply(Z), theirs.apply(Z))
    assert (ours.decision_path(Z) != theirs.decision_path(Z)).nnz == 0
    assert_allclose(ours.predict(Z), theirs.predict(Z))
    assert_allclose(ours.feature_importances_, theirs.feature_importances_, atol=1e-9)
    assert ours.get_depth() == theirs.get_depth()
    assert ours.get_n_leaves() == theirs.get_n_leaves()
    ours_path = ours.cost_complexity_pruning_path(X, y, sample_weight=w)
    theirs_path = theirs.cost_complexity_pruning_path(X, y, sample_weight=w)
    # A split without gain is pruned at 0, or at 1e-17 where rounding says so.
    kept = [path.ccp_alphas > 1e-12 for path in (ours_path, theirs_path)]
    for name in ("ccp_alphas", "impurities"):
        assert_allclose(ours_path[name][kept[0]], theirs_path[name][kept[1]], atol=1e-9)
    if criterion != "squared_error":
        assert_allclose(ours.predict_proba(Z), theirs.predict_proba(Z))
        with np.errstate(divide="ignore"):
            assert_allclose(ours.predict_log_proba(Z), theirs.predict_log_proba(Z))
    assert ours.score(X, y, sample_weight=w) == pytest.approx(theirs.score(X, y, sample_weight=w))


@pytest.mark.parametrize("Pair", PAIRS)
@pytest.mark.parametrize(
    ("n", "d"), [(1, 1), (2, 1), (3, 1), (17, 1), (64, 3), (257, 31), (1009, 7)]
)
def test_alpha_zero_over_many_sizes(Pair, n, d):
    Ours, Theirs = Pair
    X, _, y, w = random_problem(n + d, Ours, n=n, d=d, n_classes=2)
    # Two columns may cut few rows alike, a tie: leaves are kept large where there are several.
    params = {"min_samples_leaf": 1 if d == 1 else max(5, n // 25), "random_state": 0}
    ours = Ours(alpha=0, **params).fit(X, y, sample_weight=w)
    theirs = Theirs(**params).fit(X, y, sample_weight=w)
    assert_same_tree(ours.tree_, theirs.tree_)


@pytest.mark.parametrize("Pair", PAIRS)
def test_close_values_count_as_equal_as_in_scikit_learn(Pair):
    Ours, Theirs = Pair
    X = np.array([[1.0], [1.0 + 6e-8], [2.0], [np.nextafter(np.float32(2), np.float32(3))]])
    y = np.array([0, 1, 0, 1])
    ours, theirs = Ours(alpha=0).fit(X, y), Theirs().fit(X, y)
    assert_same_tree(ours.tree_, theirs.tree_)
    large = X * 1e30
    assert_same_tree(Ours(alpha=0).fit(large, y).tree_, Theirs().fit(large, y).tree_)


@pytest.mark.parametrize("Pair", PAIRS)
def test_full_depth_fits_as_well_as_scikit_learn(Pair):
    Ours, Theirs = Pair
    X, _, y, _ = random_problem(90, Ours, n=400)
    ours, theirs = Ours(alpha=0).fit(X, y), Theirs().fit(X, y)
    assert ours.score(X, y) == theirs.score(X, y) == 1.0
    assert abs(ours.get_n_leaves() - theirs.get_n_leaves()) <= 0.1 * theirs.get_n_leaves()


def test_max_features_draws_candidates():
    X, mask, y, _ = random_problem(91, MADecisionTreeClassifier, n=300, d=8)
    fitted = {}
    for max_features in ["sqrt", "log2", 3, 0.5, 1.0, None]:
        trees = [
            MADecisionTreeClassifier(max_features=max_features, max_depth=1, random_state=seed)
            .fit(X, y, missing_mask=mask)
            .tree_.feature[0]
            for seed in range(25)
        ]
        fitted[max_features] = len(set(trees))
        peer = DecisionTreeClassifier(max_features=max_features, max_depth=1).fit(X, y)
        ours = MADecisionTreeClassifier(max_features=max_features, max_depth=1).fit(X, y)
        assert ours.max_features_ == peer.max_features_
    assert fitted[1.0] == fitted[None] == 1
    assert all(fitted[m] > 1 for m in ("sqrt", "log2", 3, 0.5))


@pytest.mark.parametrize("Tree", TREES)
def test_max_features_keeps_looking_past_constant_columns(Tree):
    X, _, y, _ = random_problem(92, Tree, n=100, d=1)
    X = np.hstack([np.ones((100, 6)), X])
    for seed in range(8):
        tree = Tree(max_features=1, max_depth=1, random_state=seed).fit(X, y)
        assert tree.tree_.node_count == 3


@pytest.mark.parametrize("Tree", TREES)
def test_ties_are_broken_by_random_state_alone(Tree):
    X, mask, y, _ = random_problem(93, Tree, n=120, d=1)
    X, mask = np.repeat(X, 6, axis=1), np.repeat(mask, 6, axis=1)
    roots = []
    for seed in range(30):
        one = Tree(max_depth=3, random_state=seed).fit(X, y, missing_mask=mask)
        two = Tree(max_depth=3, random_state=seed).fit(X, y, missing_mask=mask)
        assert_array_equal(one.tree_.feature, two.tree_.feature)
        roots.append(one.tree_.feature[0])
    assert len(set(roots)) >= 4


@pytest.mark.parametrize("Tree", TREES)
def test_ties_do_not_flip_with_rounding(Tree):
    """Copies of a column tie exactly; scaling all weights must not change who wins."""
    X, mask, y, w = random_problem(94, Tree, n=150, d=2)
    X, mask = np.repeat(X, 3, axis=1), np.repeat(mask, 3, axis=1)
    base = Tree(max_depth=5, random_state=0).fit(X, y, sample_weight=w, missing_mask=mask)
    for scale in (3.0, 0.1, 1e5):
        other = Tree(max_depth=5, random_state=0)
        other.fit(X, y, sample_weight=w * scale, missing_mask=mask)
        assert_array_equal(other.tree_.feature, base.tree_.feature)


# --------------------------------------------------------------------------------------
# Swapping the class name in existing code
# --------------------------------------------------------------------------------------


BAD_FITS = {
    "no rows": (lambda: (np.empty((0, 3)), np.empty(0)), {}),
    "no columns": (lambda: (np.empty((30, 0)), GOOD_Y), {}),
    "one-dimensional X": (lambda: (GOOD_X[:, 0], GOOD_Y), {}),
    "three-dimensional X": (lambda: (GOOD_X[None], GOOD_Y), {}),
    "other length": (lambda: (GOOD_X, GOOD_Y[:-1]), {}),
    "no y": (lambda: (GOOD_X, None), {}),
    "NaN in y": (lambda: (GOOD_X, np.where(GOOD_Y == 0, np.nan, 1.0)), {}),
    "inf in y": (lambda: (GOOD_X, np.where(GOOD_Y == 0, np.inf, 1.0)), {}),
    "inf in X": (lambda: (np.where(GOOD_X > 1, np.inf, GOOD_X), GOOD_Y), {}),
    "too large for float32": (lambda: (np.where(GOOD_X > 1, 1e300, GOOD_X), GOOD_Y), {}),
    "complex X": (lambda: (GOOD_X * 1j, GOOD_Y), {}),
    "text in X": (lambda: (np.full((30, 3), "a"), GOOD_Y), {}),
    "max_depth": (lambda: (GOOD_X, GOOD_Y), {"max_depth": 0}),
    "min_samples_leaf": (lambda: (GOOD_X, GOOD_Y), {"min_samples_leaf": 0}),
    "min_samples_leaf share": (lambda: (GOOD_X, GOOD_Y), {"min_samples_leaf": 1.5}),
    "min_samples_split": (lambda: (GOOD_X, GOOD_Y), {"min_samples_split": 1}),
    "min_weight_fraction_leaf": (lambda: (GOOD_X, GOOD_Y), {"min_weight_fraction_leaf": 0.6}),
    "max_features": (lambda: (GOOD_X, GOOD_Y), {"max_features": "all"}),
    "max_features zero": (lambda: (GOOD_X, GOOD_Y), {"max_features": 0}),
    "max_leaf_nodes": (lambda: (GOOD_X, GOOD_Y), {"max_leaf_nodes": 1}),
    "criterion": (lambda: (GOOD_X, GOOD_Y), {"criterion": "tetris"}),
    "ccp_alpha": (lambda: (GOOD_X, GOOD_Y), {"ccp_alpha": -1.0}),
    "min_impurity_decrease": (lambda: (GOOD_X, GOOD_Y), {"min_impurity_decrease": -1.0}),
    "random_state": (lambda: (GOOD_X, GOOD_Y), {"random_state": "seed"}),
    "splitter": (lambda: (GOOD_X, GOOD_Y), {"splitter": "worst"}),
}


def raised(function):
    """Type of the error and categories of the warnings; a cast's overflow is nobody's promise."""
    error = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            function()
        except Exception as exception:
            error = type(exception)
    return error, [w.category for w in caught if w.category is not RuntimeWarning]


@pytest.mark.parametrize("case", BAD_FITS)
@pytest.mark.parametrize("Pair", PAIRS)
def test_bad_fits_fail_as_in_scikit_learn(Pair, case):
    make, params = BAD_FITS[case]
    ours, theirs = (raised(lambda Tree=Tree: Tree(**params).fit(*make())) for Tree in Pair)
    assert theirs[0] is not None
    assert issubclass(ours[0], theirs[0]) or issubclass(theirs[0], ours[0])
    assert ours[1] == theirs[1]


@pytest.mark.parametrize("Pair", PAIRS)
def test_unusual_but_good_fits_warn_as_in_scikit_learn(Pair):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(GOOD_X, columns=list("abc"))
    cases = {
        "lists": lambda Tree: Tree().fit(GOOD_X.tolist(), GOOD_Y.tolist()),
        "names at fit only": lambda Tree: Tree().fit(frame, GOOD_Y).predict(GOOD_X),
        "names at predict only": lambda Tree: Tree().fit(GOOD_X, GOOD_Y).predict(frame),
        "mixed column names": lambda Tree: Tree().fit(frame.rename(columns={"a": 0}), GOOD_Y),
        "other names": lambda Tree: (
            Tree().fit(frame, GOOD_Y).predict(frame.rename(columns={"a": "z"}))
        ),
        "fewer columns": lambda Tree: Tree().fit(GOOD_X, GOOD_Y).predict(GOOD_X[:, :2]),
        "inf at predict": lambda Tree: Tree().fit(GOOD_X, GOOD_Y).predict(GOOD_X * np.inf),
        "weights of another length": lambda Tree: Tree().fit(GOOD_X, GOOD_Y, np.ones(3)),
        "weights of two dimensions": lambda Tree: Tree().fit(GOOD_X, GOOD_Y, np.ones((30, 2))),
        "NaN in the weights": lambda Tree: Tree().fit(GOOD_X, GOOD_Y, np.full(30, np.nan)),
        "positional weights": lambda Tree: Tree().fit(GOOD_X, GOOD_Y, np.ones(30)),
    }
    for name, run in cases.items():
        ours, theirs = (raised(lambda Tree=Tree, run=run: run(Tree)) for Tree in Pair)
        assert ours[0] == theirs[0], name
        assert ours[1] == theirs[1], name
    # One output only, so a column is ravelled as scikit-learn's single-output estimators do.
    with pytest.warns(DataConversionWarning):
        column = Pair[0](random_state=0).fit(GOOD_X, GOOD_Y.reshape(-1, 1))
    flat = Pair[0](random_state=0).fit(GOOD_X, GOOD_Y)
    assert_array_equal(column.predict(GOOD_X), flat.predict(GOOD_X))
    for method in ("predict", "apply", "decision_path", "get_depth", "get_n_leaves"):
        arguments = () if method.startswith("get") else (GOOD_X,)
        with pytest.raises(NotFittedError):
            getattr(Pair[0](), method)(*arguments)
    with pytest.raises(NotFittedError):
        Pair[0]().missingness_reliance(GOOD_X)


def test_classifier_bad_targets_fail_as_in_scikit_learn():
    for y in (np.linspace(0, 1, 30), GOOD_Y * 1.5 + 0.1):
        with pytest.raises(ValueError, match="Unknown label type"):
            MADecisionTreeClassifier().fit(GOOD_X, y)
    for bad in ("balance", {"class": 1}, {0: 1.0, 7: 2.0}):
        ours, theirs = (
            raised(lambda Tree=Tree, bad=bad: Tree(class_weight=bad).fit(GOOD_X, GOOD_Y))
            for Tree in PAIRS[0]
        )
        assert ours[0] == theirs[0]


@pytest.mark.parametrize("Tree", TREES)
def test_what_is_not_offered_is_refused_with_a_reason(Tree):
    with pytest.raises(ValueError, match=r"(?i)multi-?output"):
        Tree().fit(GOOD_X, np.column_stack([GOOD_Y, GOOD_Y]))
    with pytest.raises(ValueError, match="monotonic_cst"):
        Tree(monotonic_cst=[1, 0, 0]).fit(GOOD_X, GOOD_Y)
    with pytest.raises(ValueError, match="splitter"):
        Tree(splitter="random").fit(GOOD_X, GOOD_Y)
    for make in (sparse.csr_matrix, sparse.csc_array):
        with pytest.raises(TypeError, match=r"(?i)sparse"):
            Tree().fit(make(GOOD_X), GOOD_Y)
    fitted = Tree(splitter="best", monotonic_cst=None).fit(GOOD_X, GOOD_Y)
    with pytest.raises(TypeError, match=r"(?i)sparse"):
        fitted.predict(sparse.csr_matrix(GOOD_X))
    if not is_classifier(Tree):
        for criterion in ("friedman_mse", "absolute_error", "poisson"):
            with pytest.raises(ValueError, match="criterion"):
                Tree(criterion=criterion).fit(GOOD_X, GOOD_Y)


@pytest.mark.parametrize("Pair", PAIRS)
def test_every_parameter_of_scikit_learns_tree_is_known(Pair):
    Ours, Theirs = Pair
    theirs = Theirs().get_params()
    ours = Ours().get_params()
    assert set(theirs) <= set(ours)
    changed = {name for name in theirs if ours[name] != theirs[name]}
    assert changed <= {"max_features"}
    # Positional construction works where scikit-learn's does, and nowhere else.
    with pytest.raises(TypeError):
        Ours("gini", "best", 3)


@pytest.mark.parametrize("Pair", PAIRS)
def test_labels_of_any_kind(Pair):
    Ours, Theirs = Pair
    targets = [GOOD_Y.astype(np.int8), GOOD_Y > 0, GOOD_Y.astype(float), list(GOOD_Y)]
    if is_classifier(Ours):
        words = np.array(["no", "yes", "maybe"])[GOOD_Y]
        targets += [words, words.astype(object), GOOD_Y * 1000 - 7]
    for y in targets:
        ours = Ours(alpha=0, max_depth=2, random_state=0).fit(GOOD_X, y)
        theirs = Theirs(max_depth=2, random_state=0).fit(GOOD_X, y)
        assert ours.predict(GOOD_X).dtype == theirs.predict(GOOD_X).dtype
        if is_classifier(Ours):
            assert_array_equal(ours.classes_, theirs.classes_)
            assert ours.n_classes_ == theirs.n_classes_


@pytest.mark.parametrize("Pair", PAIRS)
def test_export_and_plot(Pair):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    Ours, Theirs = Pair
    X, _, y, w = random_problem(95, Ours)
    params = {"max_depth": 3, "min_samples_leaf": 5, "random_state": 0}
    ours = Ours(alpha=0, **params).fit(X, y, sample_weight=w)
    theirs = Theirs(**params).fit(X, y, sample_weight=w)
    names = list("abcde")
    assert export_text(ours, feature_names=names) == export_text(theirs, feature_names=names)
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure, ax = pyplot.subplots()
    boxes = plot_tree(ours, ax=ax, feature_names=names, impurity=True)
    assert len(boxes) >= ours.tree_.node_count
    pyplot.close(figure)


@pytest.mark.parametrize("Tree", TREES)
def test_node_label_carries_reliance(Tree):
    X, mask, y, _ = random_problem(96, Tree)
    tree = Tree(max_depth=2, alpha=0.0).fit(X, y, missing_mask=mask)
    for node in range(tree.tree_.node_count):
        label = tree.node_label(node)
        rho = tree.node_missingness_reliance_[node]
        assert any(f"{rho:.{digits}f}" in label for digits in (2, 3, 4)) or f"{rho:.1%}" in label
