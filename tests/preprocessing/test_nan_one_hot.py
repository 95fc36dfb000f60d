"""NaNOneHotEncoder: missing categories stay missing."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from skml.preprocessing import NaNOneHotEncoder

COLORS = np.array([["red"], ["blue"], [None], ["red"], ["green"]], dtype=object)
NAN = np.nan


@parametrize_with_checks([NaNOneHotEncoder(handle_unknown="missing"), NaNOneHotEncoder()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def random_table(seed, n=200, missing=0.2):
    rng = np.random.default_rng(seed)
    X = np.empty((n, 3), dtype=object)
    X[:, 0] = rng.choice(["a", "b", "c", "d"], size=n, p=[0.6, 0.3, 0.07, 0.03])
    X[:, 1] = rng.integers(0, 3, size=n)
    X[:, 2] = rng.choice(["yes", "no"], size=n)
    mask = rng.uniform(size=X.shape) < missing
    with_missing = X.copy()
    with_missing[mask] = None
    return X, with_missing, mask


@pytest.mark.parametrize("drop", [None, "first", "if_binary", ["b", 1, "no"]])
@pytest.mark.parametrize("min_frequency", [None, 20, 0.1])
def test_observed_cells_equal_scikit_learn_and_missing_ones_are_nan(drop, min_frequency):
    X, with_missing, mask = random_table(0)
    # Both encoders learn the categories of the complete table.
    expected_encoder = OneHotEncoder(drop=drop, min_frequency=min_frequency, sparse_output=False)
    expected = expected_encoder.fit_transform(X)
    encoder = NaNOneHotEncoder(drop=drop, min_frequency=min_frequency).fit(X)
    np.testing.assert_array_equal(encoder.transform(X), expected)
    np.testing.assert_array_equal(
        encoder.get_feature_names_out(),
        np.char.replace(
            expected_encoder.get_feature_names_out().astype(str), "infrequent_sklearn", "infrequent"
        ),
    )
    expected[mask[:, encoder.source_indices_]] = np.nan
    np.testing.assert_array_equal(encoder.transform(with_missing), expected)


def test_missing_is_no_category():
    encoder = NaNOneHotEncoder().fit(COLORS)
    assert encoder.categories_[0].tolist() == ["blue", "green", "red"]
    assert np.isnan(encoder.transform(COLORS)[2]).all()


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"c": ["u", None, "v"]}),
        pd.DataFrame({"c": pd.Categorical(["u", None, "v"], categories=["v", "u", "w"])}),
        pd.DataFrame({"c": pd.array(["u", pd.NA, "v"], dtype="string")}),
        pl.DataFrame({"c": ["u", None, "v"]}),
        pl.DataFrame({"c": pl.Series(["u", None, "v"], dtype=pl.Categorical)}),
    ],
    ids=["object", "category", "string", "polars", "polars-categorical"],
)
def test_dataframes_of_every_kind(X):
    encoder = NaNOneHotEncoder()
    np.testing.assert_array_equal(encoder.fit_transform(X), [[1, 0], [NAN, NAN], [0, 1]])
    assert encoder.get_feature_names_out().tolist() == ["c_u", "c_v"]


def test_nullable_and_boolean_columns():
    X = pd.DataFrame(
        {"i": pd.array([1, pd.NA, 2], dtype="Int64"), "b": pd.array([True, False, pd.NA])}
    )
    expected = [[1, 0, 0, 1], [NAN, NAN, 1, 0], [0, 1, NAN, NAN]]
    encoder = NaNOneHotEncoder().fit(X)
    np.testing.assert_array_equal(encoder.transform(X), expected)
    assert encoder.get_feature_names_out().tolist() == ["i_1", "i_2", "b_False", "b_True"]


def test_lists_keep_nan_beside_strings():
    np.testing.assert_array_equal(
        NaNOneHotEncoder().fit_transform([["u"], [NAN], ["v"]]), [[1, 0], [NAN, NAN], [0, 1]]
    )


def test_unknown_categories():
    new = np.array([["violet"]], dtype=object)
    fit = NaNOneHotEncoder().fit
    with pytest.raises(ValueError, match=r"unknown categories \['violet'\] in column 0"):
        fit(COLORS).transform(new)

    def encode(**params):
        return NaNOneHotEncoder(**params).fit(COLORS).transform(new)

    np.testing.assert_array_equal(encode(handle_unknown="ignore"), [[0, 0, 0]])
    np.testing.assert_array_equal(encode(handle_unknown="missing"), [[NAN] * 3])
    np.testing.assert_array_equal(encode(handle_unknown="infrequent_if_exist"), [[0, 0, 0]])
    rare = {"handle_unknown": "infrequent_if_exist", "min_frequency": 2}
    np.testing.assert_array_equal(encode(**rare), [[0, 1]])


def test_rare_categories_are_merged_and_counted_over_all_rows():
    encoder = NaNOneHotEncoder(min_frequency=0.3).fit(COLORS)  # 1.5 of 5 rows
    assert encoder.infrequent_categories_[0].tolist() == ["blue", "green"]
    assert encoder.get_feature_names_out().tolist() == ["x0_red", "x0_infrequent"]
    np.testing.assert_array_equal(
        encoder.transform(COLORS), [[1, 0], [0, 1], [NAN, NAN], [1, 0], [0, 1]]
    )
    assert NaNOneHotEncoder(min_frequency=1).fit(COLORS).infrequent_categories_ == [None]


@pytest.mark.parametrize("drop", [None, "first", "if_binary"])
def test_inverse_transform_restores_the_table(drop):
    _, X, mask = random_table(1)
    encoder = NaNOneHotEncoder(drop=drop).fit(X)
    restored = encoder.inverse_transform(encoder.transform(X))
    np.testing.assert_array_equal(restored[~mask], X[~mask])
    assert all(np.isnan(value) for value in restored[mask])


def test_inverse_transform_of_numbers_zeros_rare_and_wrong_width():
    X = np.array([[1.0], [NAN], [3.0]])
    encoder = NaNOneHotEncoder(handle_unknown="ignore").fit(X)
    restored = encoder.inverse_transform(encoder.transform(X))
    assert restored.dtype == np.float64
    np.testing.assert_array_equal(restored, X)
    assert encoder.inverse_transform([[0, 0]])[0, 0] is None
    with pytest.raises(ValueError, match="the 2 columns that transform returns, got 3"):
        encoder.inverse_transform([[0, 0, 1]])
    rare = NaNOneHotEncoder(min_frequency=2).fit(COLORS)
    assert rare.inverse_transform(rare.transform(COLORS))[:, 0].tolist()[:2] == [
        "red",
        "infrequent",
    ]
    sparse_rows = sparse.csr_matrix([[0.0, 1.0]])
    assert encoder.inverse_transform(sparse_rows)[0, 0] == 3


def test_sparse_output_equals_dense():
    _, X, _ = random_table(2)
    dense = NaNOneHotEncoder(drop="if_binary", dtype=np.float32).fit_transform(X)
    output = clone(NaNOneHotEncoder(drop="if_binary", dtype=np.float32, sparse_output=True))
    output = output.fit_transform(X)
    assert sparse.issparse(output)
    assert output.format == "csr"
    assert output.dtype == dense.dtype == np.float32
    np.testing.assert_array_equal(output.toarray(), dense)
    assert output.nnz < dense.size


@pytest.mark.parametrize(("output", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_set_output(output, kind):
    X = pd.DataFrame({"c": ["u", None, "v"]})
    result = NaNOneHotEncoder().set_output(transform=output).fit_transform(X)
    assert isinstance(result, kind)
    assert list(result.columns) == ["c_u", "c_v"]


def test_given_categories_fix_order_and_are_checked():
    encoder = NaNOneHotEncoder(categories=[["red", "green", "blue", "pink"]]).fit(COLORS)
    np.testing.assert_array_equal(encoder.transform(COLORS)[0], [1, 0, 0, 0])
    with pytest.raises(ValueError, match=r"unknown categories \['blue'.*during fit"):
        NaNOneHotEncoder(categories=[["red"]]).fit(COLORS)
    with pytest.raises(ValueError, match=r"categories\[0\] must hold distinct values"):
        NaNOneHotEncoder(categories=[["red", None]]).fit(COLORS)
    with pytest.raises(ValueError, match="one entry for each of the 1 features, got 2"):
        NaNOneHotEncoder(categories=[["red"], ["blue"]]).fit(COLORS)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="floating-point type"):
        NaNOneHotEncoder(dtype=int).fit(COLORS)
    with pytest.raises(ValueError, match=r"drop\[0\] must be None or one of"):
        NaNOneHotEncoder(drop=["pink"]).fit(COLORS)
    with pytest.raises(ValueError, match="infinity"):
        NaNOneHotEncoder().fit([[1.0], [np.inf]])
    with pytest.raises(TypeError, match=r"column 0 holds \['int', 'str'\]"):
        NaNOneHotEncoder().fit(np.array([["a"], [1]], dtype=object))
    with pytest.raises(ValueError, match="min_frequency"):
        NaNOneHotEncoder(min_frequency=0).fit(COLORS)


def test_drop_of_none_keeps_the_columns_of_a_feature():
    X = np.array([["u", "x"], ["v", "y"]], dtype=object)
    encoder = NaNOneHotEncoder(drop=["u", None]).fit(X)
    assert encoder.drop_idx_.tolist() == [0, None]
    assert encoder.get_feature_names_out().tolist() == ["x0_v", "x1_x", "x1_y"]


def test_feature_that_is_missing_throughout_has_no_columns():
    X = np.array([[None, "a"], [None, "b"]], dtype=object)
    encoder = NaNOneHotEncoder().fit(X)
    assert encoder.source_indices_.tolist() == [1, 1]
    encoded = encoder.transform(X)
    np.testing.assert_array_equal(encoded, np.eye(2))
    assert np.isnan(encoder.inverse_transform(encoded)[0, 0])


def test_in_pipeline_and_grid_search_and_pickle():
    _, X, _ = random_table(3)
    y = np.arange(len(X)) % 2
    model = make_pipeline(
        NaNOneHotEncoder(handle_unknown="missing"), SimpleImputer(), LogisticRegression()
    )
    search = GridSearchCV(model, {"nanonehotencoder__min_frequency": [None, 0.1]}, cv=2).fit(X, y)
    restored = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(restored.predict_proba(X), search.predict_proba(X))
