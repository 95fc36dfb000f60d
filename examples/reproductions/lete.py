"""LeTE: learnt functions of time where sines of learnt frequencies fall short.

The claim (Chen et al., ICML 2025): an encoding of time by learnt Fourier series and splines
serves a model better than sines and cosines of learnt frequencies (Time2Vec, TGAT), and does so
with fewer dimensions.

A  event sequences: the ink of a digit as the sorted positions of its dark pixels, one event at a
   time through an LSTM; test accuracy after 25 epochs (the paper's event-based MNIST, in small)
B  carbon dioxide by week: a quarter of the weeks is held out at random; test RMSE in ppm
C  sea surface temperature by month, likewise, in degrees Celsius
D  sunspots by year, likewise

Fixed encodings stand beside the learnt ones: SplineTransformer, and sines and cosines of known
periods. A dense spline interpolates one series as well as anything learnt; the tables show it.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from _report import Measurement, at_least, at_most, mean_and_spread, reproduce
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, SplineTransformer, StandardScaler
from torch import nn

from skml.datasets import load_co2, load_elnino, load_sunspots
from skml.preprocessing import FunctionalTimeEncoder, LeTEEncoding, LeTETimeEncoder
from skml.utils._progress import progress
from skml.utils._torch import local_seed

SEEDS = [0, 1, 2]
N_PIXELS = 64
DARK = 8
YEAR = 365.2425


# A: events of digits through an LSTM.


class FixedTable(nn.Module):
    """An encoding without weights: a row of a table for each of the 64 times."""

    def __init__(self, table):
        super().__init__()
        self.register_buffer("table", torch.tensor(table, dtype=torch.float32))

    def forward(self, t):
        return self.table[t.long()]


def spline_table(d):
    times = np.arange(N_PIXELS).reshape(-1, 1)
    return SplineTransformer(n_knots=d - 2, degree=3).fit_transform(times)


def sine_table(d):
    angles = np.arange(N_PIXELS)[:, None] * 2 * np.pi / N_PIXELS * 2.0 ** np.linspace(0, 5, d // 2)
    return np.hstack([np.sin(angles), np.cos(angles)])


def time2vec(d):
    """The layer of FunctionalTimeEncoder with the paper's initial frequencies."""
    encoder = FunctionalTimeEncoder(d)
    return encoder._make_module((1.0, 1e-9), 0.0, 1.0)


ENCODINGS = {
    "raw time": (1, lambda: FixedTable(np.arange(N_PIXELS)[:, None] / (N_PIXELS - 1))),
    "SplineTransformer, d=32": (32, lambda: FixedTable(spline_table(32))),
    "sin/cos, d=32": (32, lambda: FixedTable(sine_table(32))),
    "Time2Vec, d=8": (8, lambda: time2vec(8)),
    "Time2Vec, d=32": (32, lambda: time2vec(32)),
    "LeTE, d=8": (8, lambda: LeTEEncoding(8)),
    "LeTE, d=32": (32, lambda: LeTEEncoding(32)),
    "LeTE diagonal, d=32": (32, lambda: LeTEEncoding(32, mixing="diagonal")),
}


class EventClassifier(nn.Module):
    """Encoding, LSTM, linear layer on the state after the last event."""

    def __init__(self, encoding, d):
        super().__init__()
        self.encoding = encoding
        self.lstm = nn.LSTM(d, 64, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, times, lengths):
        states, _ = self.lstm(self.encoding(times[:, : lengths.max()]))
        return self.head(states[torch.arange(len(times)), lengths - 1])


def digit_events():
    """Padded event times (n, longest), their numbers (n,), the digits (n,)."""
    X, y = load_digits(return_X_y=True)
    events = [torch.from_numpy(np.flatnonzero(row > DARK)).float() for row in X]
    lengths = torch.tensor([len(times) for times in events])
    return nn.utils.rnn.pad_sequence(events, batch_first=True), lengths, torch.from_numpy(y)


def accuracy_on_events(name, seed, n_epochs):
    times, lengths, y = digit_events()
    train, test = train_test_split(np.arange(len(y)), stratify=y.numpy(), random_state=0)
    train, test = torch.from_numpy(train), torch.from_numpy(test)
    d, make = ENCODINGS[name]
    with local_seed(seed):
        model = EventClassifier(make(), d)
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(n_epochs):
            for rows in train[torch.randperm(len(train))].split(128):
                optimizer.zero_grad()
                outputs = model(times[rows], lengths[rows])
                nn.functional.cross_entropy(outputs, y[rows]).backward()
                optimizer.step()
    with torch.no_grad():
        return (model(times[test], lengths[test]).argmax(dim=1) == y[test]).double().mean().item()


# B, C, D: series with held-out times.


@dataclass(frozen=True)
class Series:
    """A series, and the periods in days that somebody who knows it would give."""

    name: str
    load: Callable
    periods: tuple


SERIES = (
    Series("B co2", load_co2, (YEAR, YEAR / 2)),
    Series("C sea temperature", load_elnino, (YEAR, YEAR / 2)),
    Series("D sunspots", load_sunspots, (11 * YEAR, 11 * YEAR / 2)),
)


def as_days(dates):
    return (dates - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")


def polynomial_and_known_periods(periods):
    def features(dates):
        days = as_days(dates)
        angles = days * 2 * np.pi / np.array(periods)
        scaled = days / (50 * YEAR)
        return np.hstack([scaled, scaled**2, np.sin(angles), np.cos(angles)])

    return make_pipeline(FunctionTransformer(features), LinearRegression())


def splines(n_knots):
    return make_pipeline(
        FunctionTransformer(as_days), SplineTransformer(n_knots=n_knots), Ridge(1e-3)
    )


def learnt(encoder):
    # The last layer is solved exactly, for all encoders alike.
    return make_pipeline(encoder, StandardScaler(), LinearRegression())


def models_for(periods, max_iter):
    """Name, dimension and maker (by seed) of each row of a series' table."""

    def lete(d=16, **options):
        return lambda seed: learnt(
            LeTETimeEncoder(
                d,
                task="regression",
                max_iter=max_iter,
                n_iter_no_change=None,
                random_state=seed,
                **options,
            )
        )

    def functional(kind, d=16):
        return lambda seed: learnt(
            FunctionalTimeEncoder(
                d,
                kind=kind,
                task="regression",
                max_iter=max_iter,
                n_iter_no_change=None,
                random_state=seed,
            )
        )

    yield "LeTE", 16, lete()
    yield "LeTE diagonal", 16, lete(mixing="diagonal")
    yield "LeTE, Fourier only", 16, lete(fourier_fraction=1.0)
    yield "LeTE, splines only", 16, lete(fourier_fraction=0.0)
    yield "Time2Vec", 16, functional("time2vec")
    yield "TGAT", 16, functional("tgat")
    yield "Time2Vec", 64, functional("time2vec", 64)
    for n_knots in (14, 60, 200):
        yield "SplineTransformer", n_knots + 2, lambda seed, k=n_knots: splines(k)
    n_features = 2 + 2 * len(periods)
    known = polynomial_and_known_periods(periods)
    yield "trend, sin/cos of known periods", n_features, lambda seed: known


def rmse(make, seed, X, y):
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    residuals = y_test - make(seed).fit(X_train, y_train).predict(X_test)
    return float(np.sqrt(np.mean(residuals**2)))


# Both.


def measure(quick):
    # One thread: the networks are small, and the sums do not depend on the machine's cores.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seeds = SEEDS[:1] if quick else SEEDS
        table = [*event_rows(seeds, quick), *series_rows(seeds, quick)]
    finally:
        torch.set_num_threads(threads)
    return Measurement(table, gates_of(table), seeds, packages=("torch", "statsmodels"))


def event_rows(seeds, quick):
    names = ["Time2Vec, d=32", "LeTE, d=8", "LeTE, d=32"] if quick else list(ENCODINGS)
    n_epochs = 2 if quick else 25
    jobs = [(name, seed) for name in names for seed in seeds]
    accuracies = {name: [] for name in names}
    for name, seed in progress(jobs, desc="A digit events"):
        accuracies[name].append(accuracy_on_events(name, seed, n_epochs))
    for name, values in accuracies.items():
        yield {
            "experiment": "A digit events",
            "model": name.partition(",")[0],
            "d": ENCODINGS[name][0],
            **mean_and_spread("accuracy", values),
        }


def series_rows(seeds, quick):
    for series in SERIES[:1] if quick else SERIES:
        X, y = series.load(return_X_y=True)
        if quick:
            X, y = X[:300], y[:300]
        models = list(models_for(series.periods, 30 if quick else 1000))
        jobs = [(k, seed) for k in range(len(models)) for seed in seeds]
        errors = [[] for _ in models]
        for k, seed in progress(jobs, desc=series.name):
            errors[k].append(rmse(models[k][2], seed, X, y))
        for (name, d, _), values in zip(models, errors, strict=True):
            yield {
                "experiment": series.name,
                "model": name,
                "d": d,
                **mean_and_spread("rmse", values),
            }


def gates_of(table):
    def value(experiment, model, d, score):
        (row,) = (
            row
            for row in table
            if row["experiment"].startswith(experiment) and (row["model"], row["d"]) == (model, d)
        )
        return row[score]

    time2vec_32 = value("A", "Time2Vec", 32, "accuracy")
    return [
        at_least(
            "A: accuracy of LeTE, d=32, over Time2Vec, d=32",
            value("A", "LeTE", 32, "accuracy") - time2vec_32,
            0.12,
        ),
        at_least(
            "A: accuracy of LeTE, d=8, over Time2Vec, d=32",
            value("A", "LeTE", 8, "accuracy") - time2vec_32,
            0.08,
        ),
        at_most(
            "B: RMSE of LeTE over that of Time2Vec, d=16",
            value("B", "LeTE", 16, "rmse") / value("B", "Time2Vec", 16, "rmse"),
            0.5,
        ),
    ]


if __name__ == "__main__":
    sys.exit(reproduce("lete", measure, description=__doc__))
