"""Columns of times as float64 numbers: from arrays, pandas and polars; dates and durations too.

Dates become seconds since the first date seen in `fit`. The difference is formed from whole
seconds and a remainder, so that no digit is lost that float64 can hold.
"""

import datetime
from dataclasses import dataclass

import numpy as np
from sklearn.utils.validation import validate_data

NUMBER, DURATION, DATE, ZONED_DATE = "numbers", "durations", "dates", "dates with a time zone"
_NUMERIC_KINDS = ("b", "i", "u", "f")


@dataclass
class TimeColumn:
    """One column of times.

    Attributes
    ----------
    kind : str
        What its values are: numbers, durations, dates, or dates with a time zone.
    seconds : ndarray of shape (n_samples,), dtype int64
        Whole seconds since 1970; not for numbers.
    values : ndarray of shape (n_samples,), dtype float64
        The numbers, the durations in seconds, or what the dates have beyond whole seconds.
    """

    kind: str
    values: np.ndarray
    seconds: np.ndarray | None = None

    def since(self, reference):
        """The times as float64; for dates, the seconds since ``reference``."""
        if self.seconds is None:
            return self.values
        seconds, rest = reference
        return (self.seconds - seconds) + (self.values - rest)

    def first(self):
        """The reference that makes the first date 0; for other kinds (0, 0.0)."""
        if self.seconds is None:
            return (0, 0.0)
        return (int(self.seconds[0]), float(self.values[0]))


def read_times(estimator, X, *, reset):
    """Validate X and return its columns.

    Parameters
    ----------
    estimator : estimator
        Its `n_features_in_` and `feature_names_in_` are set or compared.
    X : {array-like, DataFrame} of shape (n_samples, n_columns)
        Numbers, dates or durations.
    reset : bool
        True in `fit`.

    Returns
    -------
    columns : list of TimeColumn
        The columns.
    dtype : numpy dtype or None
        float32 or float64 as the numbers of X have it; None if X holds no numbers.
    """
    raw = _raw_columns(X)
    if raw is None:
        # scikit-learn's messages for what is no table of numbers are the ones users know.
        X = validate_data(
            estimator, X, dtype=[np.float64, np.float32], ensure_all_finite=False, reset=reset
        )
        names = _names_of(estimator, X.shape[1])
        columns = [_number_column(column, name) for column, name in zip(X.T, names, strict=True)]
        return columns, X.dtype
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    if not len(raw[0][0]):
        raise ValueError(
            f"Found array with 0 sample(s) (shape=(0, {len(raw)})) while a minimum of 1 is "
            f"required by {type(estimator).__name__}."
        )
    names = _names_of(estimator, len(raw))
    columns = [_parse_column(*column, name) for column, name in zip(raw, names, strict=True)]
    has_numbers = any(column.kind == NUMBER for column in columns)
    return columns, np.dtype(np.float64) if has_numbers else None


def _names_of(estimator, n_columns):
    names = getattr(estimator, "feature_names_in_", None)
    return list(range(n_columns)) if names is None else [repr(str(name)) for name in names]


def _raw_columns(X):
    """The columns of X, as (array, whether a time zone was taken off), or None without dates."""
    if hasattr(X, "columns") and hasattr(X, "shape"):
        columns = [_column_to_numpy(column) for column in _columns_of_frame(X)]
        return columns if any(_holds_dates(array) for array, _ in columns) else None
    if hasattr(X, "tocsr") or getattr(getattr(X, "dtype", None), "kind", None) in _NUMERIC_KINDS:
        return None
    try:
        array = np.asarray(X)
    except ValueError:  # ragged: validation has the message for it
        return None
    if not (array.size and _holds_dates(array)):
        return None
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead: {array.ravel()[:3]!r}...\n"
            "Reshape your data using array.reshape(-1, 1) or, for a Series, series.to_frame()."
        )
    return [(column, False) for column in array.T]


def _columns_of_frame(X):
    if hasattr(X, "iloc"):
        return [X.iloc[:, j] for j in range(X.shape[1])]
    return [X[:, j] for j in range(X.shape[1])]


def _column_to_numpy(column):
    dtype = column.dtype
    zone = getattr(dtype, "tz", None) or getattr(dtype, "time_zone", None)
    if hasattr(dtype, "pyarrow_dtype"):
        zone = getattr(dtype.pyarrow_dtype, "tz", None)
    if zone is not None and hasattr(column.dt, "tz_convert"):
        return column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(), True
    if zone is not None:
        return column.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy(), True
    if getattr(dtype, "kind", None) in _NUMERIC_KINDS and not isinstance(dtype, np.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan), False
    return column.to_numpy(), False


def _holds_dates(array):
    if array.dtype.kind in "Mm":
        return True
    if array.dtype.kind != "O":
        return False
    return any(
        isinstance(value, (datetime.date, datetime.timedelta, np.datetime64, np.timedelta64))
        for value in array.flat
    )


def _parse_column(array, is_zoned, name):
    if array.dtype.kind == "O" and _holds_dates(array):
        array, is_zoned = _from_objects(array, name)
    if array.dtype.kind == "M":
        _refuse(np.isnat(array), "NaT", name)
        whole = array.astype("datetime64[s]")
        kind = ZONED_DATE if is_zoned else DATE
        return TimeColumn(kind, _seconds_beyond(whole, array), whole.astype(np.int64))
    if array.dtype.kind == "m":
        _refuse(np.isnat(array), "NaT", name)
        whole = array.astype("timedelta64[s]")
        return TimeColumn(DURATION, whole.astype(np.int64) + _seconds_beyond(whole, array))
    return _number_column(array, name)


def _seconds_beyond(whole, array):
    """What times have beyond whole seconds."""
    return (array - whole.astype(array.dtype)) / np.timedelta64(1, "s")


def _number_column(array, name):
    try:
        values = np.asarray(array).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Column {name} of X holds {type(array[0]).__name__} values that are neither numbers "
            f"nor dates: {error}"
        ) from error
    _refuse(np.isnan(values), "NaN", name)
    _refuse(np.isinf(values), "infinity", name)
    return TimeColumn(NUMBER, values)


def _from_objects(array, name):
    """Turn datetime objects into datetime64 (UTC if they have a zone), timedeltas into numbers."""
    is_missing = np.array([value is None or value != value for value in array])
    _refuse(is_missing, "NaT", name)
    kinds = {_kind_of_object(value) for value in array}
    if len(kinds) > 1:
        raise ValueError(
            f"Column {name} of X mixes {' and '.join(sorted(kinds))}; all times of a column must "
            "be of one kind and, if they have a time zone, of one zone. With pandas, "
            "to_datetime(column, utc=True) brings them to one."
        )
    (kind,) = kinds
    if kind.startswith(ZONED_DATE):
        utc = [value.astimezone(datetime.UTC).replace(tzinfo=None) for value in array]
        return np.array(utc, dtype="datetime64[us]"), True
    unit = "timedelta64[us]" if kind == DURATION else "datetime64[us]"
    return np.array([np.asarray(value, dtype=unit) for value in array.tolist()], dtype=unit), False


def _kind_of_object(value):
    if isinstance(value, datetime.datetime):
        return DATE if value.tzinfo is None else f"{ZONED_DATE} {value.tzinfo}"
    if isinstance(value, (datetime.date, np.datetime64)):
        return DATE
    if isinstance(value, (datetime.timedelta, np.timedelta64)):
        return DURATION
    return type(value).__name__


def _refuse(is_bad, what, name):
    if is_bad.any():
        row = int(np.argmax(is_bad))
        raise ValueError(
            f"Input X contains {what} in column {name} at row {row} ({int(is_bad.sum())} in all); "
            "times must be known: impute or drop these rows first."
        )
