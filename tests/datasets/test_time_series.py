"""Loaders of series over time."""

from importlib import metadata

import numpy as np
import pytest

from skml.datasets import load_co2, load_elnino, load_sunspots

LOADERS = {
    "co2": (load_co2, 2225, ("1958-03-29", 316.1), ("2001-12-29", 371.5)),
    "elnino": (load_elnino, 732, ("1950-01-15", 23.11), ("2010-12-15", 22.07)),
    "sunspots": (load_sunspots, 309, ("1700-07-01", 5.0), ("2008-07-01", 2.9)),
}
loaders = pytest.mark.parametrize(("load", "n", "first", "last"), LOADERS.values(), ids=LOADERS)


@loaders
def test_series(load, n, first, last):
    X, y = load(return_X_y=True)
    assert X.shape == (n, 1)
    assert X.dtype == "datetime64[D]"
    assert y.shape == (n,)
    assert np.isfinite(y).all()
    assert (np.diff(X.ravel()) > np.timedelta64(0)).all()
    for row, (date, value) in ((0, first), (-1, last)):
        assert X[row, 0] == np.datetime64(date)
        assert y[row] == value


@loaders
def test_frame_and_array_agree(load, n, first, last):
    X, y = load(return_X_y=True)
    bunch = load(as_frame=True)
    assert list(bunch.frame.columns) == bunch.feature_names + bunch.target_names
    np.testing.assert_array_equal(bunch.data["date"].to_numpy(), X.ravel())
    np.testing.assert_array_equal(bunch.target.to_numpy(), y)
    assert load().frame is None
    assert "Source" in load().DESCR


@loaders
def test_missing_package_is_named(load, n, first, last, monkeypatch):
    def refuse(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", refuse)
    with pytest.raises(ImportError, match=f"{load.__name__} reads .*pip install statsmodels"):
        load()
