"""LeTETimeEncoder and FunctionalTimeEncoder: what they learn, from what, and what they refuse."""

import datetime
import pickle
import warnings
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline

from skml.preprocessing import FunctionalTimeEncoder, LeTETimeEncoder

BOTH = [LeTETimeEncoder, FunctionalTimeEncoder]


def quick(cls=LeTETimeEncoder, **kwargs):
    """An encoder that trains in a blink."""
    return cls(**{"n_components": 4, "max_iter": 8, "random_state": 0, **kwargs})


@pytest.fixture(scope="module")
def series():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 50, size=60)).round(3).reshape(-1, 1)
    return t, np.sin(t.ravel()) + 0.02 * t.ravel()


def wiggly(n=400, seed=0):
    """A trend, a pulse train and noise at irregular times: neither periodic nor smooth alone."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 10, size=n)).reshape(-1, 1)
    phase = t.ravel() % 1
    y = 0.5 * t.ravel() + np.exp(-(((phase - 0.3) / 0.1) ** 2)) * 3
    return t, y + 0.05 * rng.normal(size=n)


# What is learnt.


def test_learns_what_sines_of_the_same_number_cannot():
    t, y = wiggly()
    X_train, X_test, y_train, y_test = train_test_split(t, y, random_state=0)
    scores = {}
    for cls in BOTH:
        encoder = cls(16, max_iter=400, random_state=0)
        model = make_pipeline(encoder, Ridge(1e-4)).fit(X_train, y_train)
        scores[cls] = 1 - model.score(X_test, y_test)
    assert scores[LeTETimeEncoder] < 0.5 * scores[FunctionalTimeEncoder]
    assert scores[LeTETimeEncoder] < 0.02


def test_training_is_what_makes_the_features_good():
    """Random functions with a ridge on top are not the method."""
    t, y = wiggly()
    X_train, X_test, y_train, y_test = train_test_split(t, y, random_state=0)
    residuals = []
    for max_iter in (1, 400):
        encoder = LeTETimeEncoder(16, max_iter=max_iter, random_state=0).fit(X_train, y_train)
        ridge = Ridge(1e-4).fit(encoder.transform(X_train), y_train)
        residuals.append(1 - ridge.score(encoder.transform(X_test), y_test))
    assert residuals[1] < 0.25 * residuals[0]


def test_every_parameter_of_the_layer_is_trained(series):
    t, y = series
    before = quick(max_iter=1, learning_rate=1e-12).fit(t, y)
    after = quick(max_iter=5, learning_rate=0.1).fit(t, y)
    names = dict(before.modules_.named_parameters())
    assert len(names) == 2 + 3 + 2 + 2 + 2 + 1
    for name, value in after.modules_.named_parameters():
        assert not torch.allclose(value, names[name], atol=1e-6), name
    assert not np.allclose(after.omega_, after.omega_init_)


def test_the_head_predicts_the_target(series):
    t, y = series
    encoder = LeTETimeEncoder(8, max_iter=500, random_state=0).fit(t, y)
    outputs = encoder.head_(torch.from_numpy(encoder.transform(t)).float()).detach().numpy()
    prediction = outputs[:, 0] * encoder.target_scale_ + encoder.target_mean_
    assert np.mean((prediction - y) ** 2) < 0.05 * y.var()
    assert encoder.loss_curve_[0] > 10 * min(encoder.loss_curve_)
    assert len(encoder.loss_curve_) == encoder.n_iter_


def test_best_weights_are_kept(series):
    t, y = series
    encoder = quick(max_iter=60, learning_rate=0.3, n_iter_no_change=None).fit(t, y)
    outputs = encoder.head_(torch.from_numpy(encoder.transform(t)).float()).detach().numpy()
    standardised = (y - encoder.target_mean_) / encoder.target_scale_
    loss = np.mean((outputs[:, 0] - standardised) ** 2)
    assert loss == pytest.approx(min(encoder.loss_curve_), rel=1e-4)


def test_early_stopping_and_its_switch(series):
    t, y = series
    stopped = quick(max_iter=200, tol=10.0, n_iter_no_change=3).fit(t, y)
    assert stopped.n_iter_ == 4
    assert quick(max_iter=20, tol=10.0, n_iter_no_change=None).fit(t, y).n_iter_ == 20
    # Small batches without held-out rows make all steps.
    assert quick(max_iter=20, tol=10.0, n_iter_no_change=3, batch_size=10).fit(t, y).n_iter_ == 20
    held_out = quick(
        max_iter=50, tol=10.0, n_iter_no_change=3, batch_size=10, validation_fraction=0.2
    ).fit(t, y)
    assert held_out.n_iter_ == len(held_out.validation_curve_) == 4
    assert not hasattr(stopped, "validation_curve_")


def test_batches_as_large_as_the_data_are_full_batches(series):
    t, y = series
    expected = quick().fit_transform(t, y)
    np.testing.assert_array_equal(quick(batch_size=60).fit_transform(t, y), expected)
    np.testing.assert_array_equal(quick(batch_size=10**6).fit_transform(t, y), expected)
    assert not np.array_equal(quick(batch_size=59).fit_transform(t, y), expected)


@pytest.mark.parametrize("cls", BOTH)
def test_weights_act_as_repetitions(cls, series):
    """Where scale and frequencies are fixed, weight 2 is the row twice."""
    t, y = series
    weights = np.random.default_rng(0).integers(0, 3, size=60)
    weights[[0, -1]] = 1  # the range stays
    fixed = {"omega_range": (20.0, 1.0), "dtype": "float64", "max_iter": 30}
    weighted = quick(cls, **fixed).fit(t, y, sample_weight=weights)
    rows = np.repeat(np.arange(60), weights)
    repeated = quick(cls, **fixed).fit(t[rows], y[rows])
    np.testing.assert_allclose(weighted.transform(t), repeated.transform(t), atol=1e-8)
    np.testing.assert_allclose(weighted.target_mean_, repeated.target_mean_)
    scaled = quick(cls, **fixed).fit(t, y, sample_weight=1e-3 * weights)
    np.testing.assert_allclose(weighted.transform(t), scaled.transform(t), atol=1e-8)
    assert not np.allclose(weighted.transform(t), quick(cls, **fixed).fit(t, y).transform(t))


def test_rows_of_weight_zero_count_for_the_range_alone(series):
    t, y = series
    y_spoiled = y.copy()
    y_spoiled[-1] = 1e6
    weights = np.ones(60)
    weights[-1] = 0
    encoder = quick().fit(t, y_spoiled, sample_weight=weights)
    np.testing.assert_allclose(encoder.time_range_, [[t.min(), t.max()]])
    expected = quick().fit(t, y, sample_weight=weights)
    np.testing.assert_allclose(encoder.transform(t), expected.transform(t), atol=1e-6)


# Targets.


def test_two_outputs_are_learnt_together(series):
    t, y = series
    Y = np.column_stack([y, 1000 * np.cos(t.ravel())])
    encoder = LeTETimeEncoder(12, max_iter=400, random_state=0).fit(t, Y)
    assert encoder.head_.weight.shape == (2, 12)
    assert encoder.target_scale_[1] > 100 * encoder.target_scale_[0]
    # Standardised, both count alike.
    features = encoder.transform(t)
    for k in range(2):
        assert Ridge(1e-4).fit(features, Y[:, k]).score(features, Y[:, k]) > 0.95


def test_classes(series):
    t, _ = series
    labels = np.array(["day", "night", "dusk"])[(t.ravel() % 3).astype(int)]
    encoder = LeTETimeEncoder(12, max_iter=400, random_state=0).fit(t, labels)
    np.testing.assert_array_equal(encoder.classes_, ["day", "dusk", "night"])
    logits = encoder.head_(torch.from_numpy(encoder.transform(t)).float())
    assert np.mean(encoder.classes_[logits.argmax(dim=1).numpy()] == labels) > 0.9
    assert not hasattr(encoder, "target_mean_")
    # Fitted again to numbers it forgets the classes.
    assert not hasattr(encoder.fit(t, t.ravel()), "classes_")


@pytest.mark.parametrize("kind", ["several classes", "indicators"])
def test_several_class_outputs(series, kind):
    t, _ = series
    step = (t.ravel() % 3).astype(int)
    last = (t.ravel() > 20).astype(int)
    Y = np.column_stack([step, last] if kind == "several classes" else [step > 1, last]).astype(int)
    encoder = LeTETimeEncoder(12, max_iter=300, random_state=0).fit(t, Y)
    sizes = [len(classes) for classes in encoder.classes_]
    assert sizes == ([3, 2] if kind == "several classes" else [2, 2])
    logits = encoder.head_(torch.from_numpy(encoder.transform(t)).float()).split(sizes, dim=1)
    for k, part in enumerate(logits):
        assert np.mean(part.argmax(dim=1).numpy() == Y[:, k]) > 0.85


def test_task_decides_what_whole_numbers_are(series):
    t, _ = series
    counts = np.arange(60) % 7
    assert quick().fit(t, counts).head_.out_features == 7
    regression = quick(task="regression").fit(t, counts)
    assert regression.head_.out_features == 1
    np.testing.assert_allclose(regression.target_mean_, counts.mean())
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        quick(task="classification").fit(t, counts + 0.5)


@pytest.mark.parametrize(
    "y", [np.full(60, 0.1), np.full(60, -3e8 / 7), np.linspace(-1e300, 1e300, 60)]
)
def test_constant_and_huge_targets(series, y):
    t, _ = series
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder = quick(task="regression").fit(t, y)
    assert np.isfinite(encoder.transform(t)).all()
    assert np.isfinite(encoder.loss_curve_).all()
    assert encoder.loss_curve_[0] < 10


# Times.


def as_days(t):
    return np.datetime64("2021-03-27T23:30") + (t * 86400e6).round().astype("timedelta64[us]")


@pytest.mark.parametrize("cls", BOTH)
def test_all_ways_to_write_a_date_are_one(cls, series):
    t, y = series
    dates = as_days(t)
    utc = pd.Series(dates.ravel()).dt.tz_localize("UTC")
    encoder = quick(cls).fit(dates, y)
    expected = encoder.transform(dates)
    frame = pd.DataFrame({"time": dates.ravel()})
    naive = {
        "numpy ns": dates.astype("datetime64[ns]"),
        "pandas": frame,
        "pandas ms": frame.astype("datetime64[ms]"),
        "pyarrow": frame.astype("timestamp[us][pyarrow]"),
        "polars": pl.from_pandas(frame),
        "objects": dates.astype(object),
        "list": dates.astype(object).tolist(),
    }
    zoned = {
        "pandas UTC": utc.to_frame("time"),
        "pandas Berlin": utc.dt.tz_convert("Europe/Berlin").to_frame("time"),
        "pyarrow": utc.astype("timestamp[us, tz=America/New_York][pyarrow]").to_frame("time"),
        "polars": pl.DataFrame({"time": dates.ravel()}).with_columns(
            pl.col("time").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
        ),
        "objects": utc.dt.tz_convert("Europe/Berlin").dt.to_pydatetime().to_numpy().reshape(-1, 1),
    }
    for group in (naive, zoned):
        for name, X in group.items():
            found = quick(cls).fit(X, y).transform(X)
            np.testing.assert_array_equal(found, expected, err_msg=name)
    # Instants do not depend on the zone in which they are written.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X .* feature names")
        model = quick(cls).fit(zoned["pandas UTC"], y)
        for name in ("pandas Berlin", "polars"):
            np.testing.assert_array_equal(model.transform(zoned[name]), expected)


def test_dates_are_seconds_since_the_first():
    y = np.arange(4) / 7
    dates = np.array(["2020-01-02", "2020-01-01", "2020-01-03", "2020-02-01"], "M8[D]")
    encoder = quick().fit(dates.reshape(-1, 1), y)
    day = 86400.0
    np.testing.assert_array_equal(encoder.time_range_, [[-day, 30 * day]])
    np.testing.assert_array_equal(encoder.time_origin_, [14.5 * day])
    np.testing.assert_array_equal(encoder.time_unit_, [15.5 * day])
    seconds = (dates - dates[0]) / np.timedelta64(1, "s")
    expected = encoder.modules_[0](torch.from_numpy(seconds)).detach().numpy()
    np.testing.assert_allclose(encoder.transform(dates.reshape(-1, 1)), expected, atol=1e-6)
    expected = quick().fit(seconds.reshape(-1, 1), y).transform(seconds.reshape(-1, 1))
    np.testing.assert_array_equal(encoder.transform(dates.reshape(-1, 1)), expected)


@pytest.mark.parametrize(
    "start", ["1677-09-22", "1969-12-31T23:59:59.999", "2262-04-01", "9000-01-01"]
)
def test_nanoseconds_and_far_dates_keep_their_digits(start):
    steps = np.array([0, 1, 2, 5, 9])
    y = steps / 7.0
    unit = "ms" if start.startswith("9") else "ns"
    dates = np.datetime64(start, unit) + steps.astype(f"m8[{unit}]")
    expected = quick().fit(steps.reshape(-1, 1), y).transform(steps.reshape(-1, 1))
    found = quick().fit(dates.reshape(-1, 1), y).transform(dates.reshape(-1, 1))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_durations():
    minutes = np.arange(20.0)
    y = np.sin(minutes)
    X = (minutes * 60).astype("m8[s]").reshape(-1, 1)
    expected = quick().fit(60 * minutes.reshape(-1, 1), y)
    for durations in (
        X,
        pd.DataFrame(X),
        pl.DataFrame({"wait": X.ravel().astype("m8[ms]")}),
        X.astype("m8[us]").astype(object),
    ):
        encoder = quick().fit(durations, y)
        np.testing.assert_array_equal(encoder.time_range_, expected.time_range_)
        np.testing.assert_array_equal(
            encoder.transform(durations), expected.transform(60 * minutes.reshape(-1, 1))
        )
    assert encoder.time_kinds_ == ["durations"]


def test_columns_of_several_kinds(series):
    t, y = series
    frame = pd.DataFrame(
        {
            "age": pd.array(t.ravel(), dtype="Float64"),
            "sent": as_days(t).ravel(),
            "seen": pd.Series(as_days(2 * t).ravel()).dt.tz_localize("Europe/Rome"),
            "wait": (t.ravel() * 60).astype("m8[s]"),
        }
    )
    encoder = quick(n_components=3).fit(frame, y)
    assert encoder.time_kinds_ == ["numbers", "dates", "dates with a time zone", "durations"]
    encoded = encoder.set_output(transform="pandas").transform(frame)
    assert encoded.shape == (60, 12)
    assert list(encoded.columns[:4]) == ["lete_age_0", "lete_age_1", "lete_age_2", "lete_sent_0"]
    assert encoder.omega_.shape == (4, 3)
    assert len(encoder.modules_) == 4
    assert encoder.head_.in_features == 12
    # Each block depends on its own column alone.
    changed = frame.assign(sent=frame["sent"].to_numpy()[::-1])
    differs = (encoder.transform(changed) != encoded).any()
    assert differs.tolist() == [False] * 3 + [True] * 3 + [False] * 6
    polars = pl.from_pandas(frame)
    np.testing.assert_array_equal(
        encoder.set_output(transform="default").transform(polars), encoded
    )


def test_type_of_the_output_follows_the_input(series):
    t, y = series
    for dtype in ("float32", "float64"):
        encoder = quick(dtype=dtype).fit(t, y)
        assert encoder.transform(t).dtype == np.float64
        assert encoder.transform(t.astype(np.float32)).dtype == np.float32
        assert encoder.transform(t.round().astype(int)).dtype == np.float64
        assert quick(dtype=dtype).fit(as_days(t), y).transform(as_days(t)).dtype == dtype


def test_unit_of_time(series):
    t, y = series
    automatic = quick(dtype="float64").fit(t, y)
    half_range = (t.max() - t.min()) / 2
    np.testing.assert_allclose(automatic.time_origin_, [(t.max() + t.min()) / 2])
    np.testing.assert_allclose(automatic.time_unit_, [half_range])
    # With a unit of one's own the automatic frequencies adapt.
    given = quick(dtype="float64", time_unit=3.0).fit(t, y)
    assert given.time_unit_ == [3.0]
    np.testing.assert_allclose(given.omega_init_, automatic.omega_init_)
    raw = quick(time_unit=None, omega_range=(1, 1e-9)).fit(t, y)
    assert (raw.time_origin_, raw.time_unit_) == (0, 1)
    np.testing.assert_allclose(raw.omega_init_, [[1, 1e-9, 1, 1e-9]], rtol=1e-6)


def test_automatic_frequencies_come_from_the_gaps():
    t = np.array([0, 0, 0, 1, 2, 3, 10, 10, 20.0]).reshape(-1, 1)  # gaps 1 1 1 7 10
    encoder = quick().fit(t, np.arange(9) / 7)
    np.testing.assert_allclose(
        encoder.omega_init_, [[np.pi / 8, 1 / 10, np.pi / 8, 1 / 10]], rtol=1e-6
    )
    dense = np.r_[np.linspace(0, 1e-9, 100), 1.0].reshape(-1, 1)
    encoder = quick().fit(dense, np.arange(101) / 7)
    np.testing.assert_allclose(encoder.omega_init_[0, 0] * encoder.time_unit_, 1e6, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("value", [0.0, -1e300, 1.7e9])
def test_one_time_only(n, value):
    t, y = np.full((n, 1), value), np.arange(n) / 7
    encoder = quick().fit(t, y)
    np.testing.assert_array_equal(encoder.time_origin_, [value])
    np.testing.assert_array_equal(encoder.time_unit_, [1])
    np.testing.assert_array_equal(encoder.omega_init_, 1)
    assert np.isfinite(encoder.transform(t)).all()


def test_range_of_all_floats():
    t = np.linspace(-1, 1, 11) * 1.7e308
    encoder = quick().fit(t.reshape(-1, 1), np.arange(11) / 7)
    assert np.isfinite(encoder.transform(t.reshape(-1, 1))).all()


def test_warns_outside_the_range_of_training(series):
    t, y = series
    encoder = quick().fit(t, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.transform(t)
        encoder.transform(np.r_[np.repeat(t, 5, axis=0), [[1e3]]])  # one row of 301
    with pytest.warns(UserWarning, match=r"50.0% of the times in column 0 lie outside the range"):
        encoder.transform(np.r_[t, t + 100])
    frame = pd.DataFrame({"when": as_days(t).ravel()})
    encoder = quick().fit(frame, y)
    with pytest.warns(UserWarning, match="100.0% of the times in column 'when'"):
        encoder.transform(frame - pd.Timedelta("1000D"))


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_encoding_of_a_time_does_not_depend_on_the_others(cls, dtype, monkeypatch):
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 1, size=(301, 1))
    encoder = quick(cls, n_components=7, dtype=dtype).fit(t, np.sin(9 * t.ravel()))
    expected = encoder.transform(t)
    for rows in (rng.permutation(301), np.arange(17), np.array([300]), np.arange(99, 230)):
        np.testing.assert_allclose(encoder.transform(t[rows]), expected[rows], rtol=0, atol=1e-9)
    monkeypatch.setattr("skml.preprocessing._base_time_encoder._CHUNK", 64)
    np.testing.assert_allclose(encoder.transform(t), expected, rtol=0, atol=1e-9)


# What is refused.


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1.0], [np.nan]], "NaN in column 0 at row 1"),
        ([[np.inf], [1.0]], "infinity in column 0 at row 0"),
        (np.array([["2020-01-01"], ["NaT"]], dtype="M8[D]"), "NaT in column 0 at row 1"),
        (np.array([[5], ["NaT"]], dtype="m8[s]"), "NaT in column 0 at row 1"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01", None])}), "NaT in column 'a' at row 1"),
        (pl.DataFrame({"a": [datetime.date(2020, 1, 1), None]}), "NaT in column 'a' at row 1"),
        (
            np.array([[datetime.datetime(2020, 1, 1)], [None]], dtype=object),
            "NaT in column 0 at row 1",
        ),
        (
            pd.DataFrame(
                {"a": pd.to_datetime(["2020-01-01", "2020-01-02"]), "b": pd.array([1, None])}
            ),
            "NaN in column 'b' at row 1",
        ),
    ],
)
def test_missing_times_are_named_by_column_and_row(X, message):
    y = [0.5, 1.5]
    with pytest.raises(ValueError, match=message):
        quick().fit(X, y)
    good = X[:1] if not isinstance(X, list) else [[0.0]]
    if "row 1" in message:
        good = pd.concat([good, good]) if isinstance(good, pd.DataFrame) else good
        n = len(good)
        encoder = quick().fit(good, np.arange(n) / 7)
        with pytest.raises(ValueError, match=message):
            encoder.transform(X)


def test_mixed_zones_are_refused(series):
    berlin, tokyo = (
        datetime.datetime(2020, 1, 1, tzinfo=ZoneInfo(zone))
        for zone in ("Europe/Berlin", "Asia/Tokyo")
    )
    naive = datetime.datetime(2020, 1, 1)
    for pair in ([berlin, tokyo], [berlin, naive], [naive, datetime.timedelta(1)], [naive, 3.0]):
        X = np.array(pair, dtype=object).reshape(-1, 1)
        with pytest.raises(ValueError, match=r"Column 0 of X mixes .* and .*one zone"):
            quick().fit(X, [0.5, 1.5])
    t, y = series
    dates = pd.DataFrame({"time": as_days(t).ravel()})
    zoned = dates.assign(time=dates["time"].dt.tz_localize("UTC"))
    encoder = quick().fit(dates, y)
    with pytest.raises(ValueError, match="'time' of X held dates in fit and holds dates with a t"):
        encoder.transform(zoned)
    encoder = quick().fit(zoned, y)
    with pytest.raises(ValueError, match="held dates with a time zone in fit and holds dates now"):
        encoder.transform(dates)
    with pytest.raises(ValueError, match="held dates with a time zone in fit and holds numbers"):
        encoder.transform(pd.DataFrame({"time": t.ravel()}))


def test_bad_data_are_named(series):
    t, y = series
    with pytest.raises(ValueError, match="Reshape your data"):
        quick().fit(as_days(t).ravel(), y)
    with pytest.raises(ValueError, match="Reshape your data"):
        quick().fit(pd.Series(as_days(t).ravel()), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        quick().fit(t, y[:-1])
    with pytest.raises(ValueError, match="0 sample"):
        quick().fit(pd.DataFrame({"a": as_days(t).ravel()})[:0], y[:0])
    frame = pd.DataFrame({"a": as_days(t).ravel(), "b": "noon"})
    with pytest.raises(ValueError, match="Column 'b' of X holds str values that are neither"):
        quick().fit(frame, y)
    with pytest.raises(ValueError, match="[Ss]ample.weights? must .*zero"):
        quick().fit(t, y, sample_weight=np.zeros(60))
    with pytest.raises(ValueError, match="Negative values .* `sample_weight`.* got -1.0"):
        quick().fit(t, y, sample_weight=-np.ones(60))
    with pytest.raises(ValueError, match=r"validation_fraction=0.999 leaves no row .* 60 samples"):
        quick(validation_fraction=0.999).fit(t, y)
    with pytest.raises(ValueError, match="requires y to be passed"):
        quick().fit(t, None)


@pytest.mark.parametrize("omega_range", [(1.0,), (1.0, -1.0), (0.0, 1.0), (np.inf, 1.0), [1, 2, 3]])
def test_bad_frequencies_are_named(series, omega_range):
    with pytest.raises(ValueError, match="omega_range must be 'auto' or two positive numbers"):
        quick(omega_range=omega_range).fit(*series)


def test_diverging_training_says_so(series):
    t, y = series
    with pytest.raises(ValueError, match="loss became .*learning_rate"):
        quick(learning_rate=1e30, max_iter=50).fit(t, y)


# scikit-learn.


@pytest.mark.parametrize("cls", BOTH)
def test_in_a_grid_search_with_routed_weights(cls, series):
    t, y = series
    with config_context(enable_metadata_routing=True):
        encoder = quick(cls).set_fit_request(sample_weight=True)
        ridge = Ridge().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        search = GridSearchCV(
            make_pipeline(encoder, ridge), {f"{cls.__name__.lower()}__n_components": [2, 5]}, cv=3
        )
        rows = np.random.default_rng(0).permutation(60)
        weights = np.linspace(0.1, 1, 60)
        search.fit(t[rows], y[rows], sample_weight=weights)
    best = search.best_estimator_[0]
    expected = clone(best).fit(t[rows], y[rows], sample_weight=weights)
    np.testing.assert_array_equal(best.transform(t), expected.transform(t))
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_in_a_column_transformer(series):
    t, y = series
    frame = pd.DataFrame({"time": as_days(t).ravel(), "size": y})
    model = make_pipeline(
        ColumnTransformer([("time", quick(), ["time"])], remainder="passthrough"),
        LogisticRegression(),
    ).fit(frame, y > 0.5)
    assert model[:-1].get_feature_names_out()[0] == "time__lete_time_0"
    assert model.score(frame, y > 0.5) > 0.9


@pytest.mark.parametrize("cls", BOTH)
def test_state_is_numbers(cls, series):
    t, y = series
    encoder = quick(cls).fit(as_days(t), y)
    restored = pickle.loads(pickle.dumps(encoder))
    np.testing.assert_array_equal(restored.transform(as_days(t)), encoder.transform(as_days(t)))
    np.testing.assert_array_equal(restored.omega_, encoder.omega_)
    state = encoder.__getstate__()
    assert isinstance(state["modules_"]["weights"], np.ndarray)
    assert isinstance(state["head_"]["weights"], np.ndarray)


def test_random_state(series):
    t, y = series
    first = quick(random_state=1).fit_transform(t, y)
    np.testing.assert_array_equal(quick(random_state=1).fit_transform(t, y), first)
    assert not np.allclose(quick(random_state=2).fit_transform(t, y), first)


@pytest.mark.parametrize(
    "options",
    [
        {"fourier_fraction": 0.0},
        {"fourier_fraction": 1.0},
        {"n_harmonics": 2},
        {"n_grid_intervals": 8},
        {"spline_degree": 0},
        {"spline_degree": 10},
        {"grid_range": (-3.0, 3.0)},
        {"mixing": "diagonal"},
        {"layer_norm": False},
        {"learn_scale": False},
        {"omega_range": (30.0, 2.0)},
        {"time_unit": 10.0, "omega_range": (3.0, 1.0)},
        {"max_iter": 4},
        {"learning_rate": 0.1},
        {"batch_size": 16},
        {"validation_fraction": 0.3},
        {"dtype": "float64"},
        {"n_components": 1},
        {"n_components": 33},
    ],
    ids=str,
)
def test_every_option_changes_the_encoding(series, options):
    t, y = series
    found = quick(**options).fit_transform(t, y)
    assert np.isfinite(found).all()
    expected = quick().fit_transform(t, y)
    assert found.shape != expected.shape or not np.array_equal(found, expected)


def test_kinds_of_fixed_functions(series):
    t, y = series
    for kind, first in (("time2vec", lambda x: x), ("sin", np.sin), ("tgat", np.cos)):
        encoder = quick(FunctionalTimeEncoder, kind=kind, dtype="float64").fit(t, y)
        layer = encoder.modules_[0]
        tau = (t - encoder.time_origin_) / encoder.time_unit_
        x = layer.omega.detach().numpy() * tau + layer.phase.detach().numpy()
        expected = np.cos(x) if kind == "tgat" else np.sin(x)
        expected[:, 0] = first(x[:, 0])
        np.testing.assert_allclose(encoder.transform(t), expected, atol=1e-12)
        assert encoder.get_feature_names_out()[0] == f"{kind}_x0_0"


def test_functions_of_a_fitted_encoder(series):
    t, y = series
    encoder = quick(layer_norm=False, learn_scale=False, dtype="float64").fit(t, y)
    tau = ((t - encoder.time_origin_) / encoder.time_unit_).ravel()
    branch = encoder.modules_[0].spline
    parts = [
        encoder.transformation(2, 2 + i, branch.omega[i].item() * tau + branch.phase[i].item())
        for i in range(2)
    ]
    np.testing.assert_allclose(encoder.transform(t)[:, 2], sum(parts), atol=1e-12)
    assert encoder.transformation(0, 1, np.zeros((2, 3))).shape == (2, 3)
    with pytest.raises(ValueError, match="column must be from 0 to 0, got 1"):
        encoder.transformation(0, 0, [0.0], column=1)
