"""Reading data files that lie inside installed distributions, without importing them.

A package that ships a data file often loads it with pandas or pulls in heavy modules. The
loaders here look the file up in the list of files that the installer recorded and parse it
with the standard library, numpy and scipy alone.
"""

import bz2
import csv
import gzip
from importlib import metadata
from pathlib import Path

import numpy as np
from scipy.io import arff
from sklearn.utils import Bunch

from skml.utils._optional import import_optional

_OPENERS = {".bz2": bz2.open, ".gz": gzip.open}


def find_wheel_file(distribution, filename, *, needed_by):
    """Find a data file of an installed distribution.

    Parameters
    ----------
    distribution : str
        Name of the distribution, as `pip install` takes it.
    filename : str
        Path of the file as the distribution records it, with forward slashes.
    needed_by : str
        What the caller was asked to do; it opens the error message.

    Returns
    -------
    pathlib.Path
        Where the file lies.

    Raises
    ------
    ImportError
        If the distribution is not installed or does not hold the file.
    """
    try:
        installed = metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        raise ImportError(
            f"{needed_by} reads a file of the package {distribution}: pip install {distribution}"
        ) from None
    for entry in installed.files or ():
        if entry.as_posix() == filename:
            return Path(entry.locate())
    # Some installers leave no list of files; the place is the same.
    path = Path(installed.locate_file(filename))
    if path.is_file():
        return path
    raise ImportError(
        f"{needed_by} reads {filename}, which {distribution} {installed.version} does not hold: "
        f"pip install --force-reinstall {distribution}"
    )


def read_csv_columns(path):
    """Read a comma-separated file, compressed or not, into columns.

    Parameters
    ----------
    path : pathlib.Path
        The file; its first line names the columns; an empty cell is a missing value.

    Returns
    -------
    dict of str to ndarray
        For each column a float64 array, or an object array of str where some cell is not a
        number. Missing cells are NaN in both.
    """
    opener = _OPENERS.get(path.suffix, open)
    with opener(path, "rt", encoding="utf-8", newline="") as stream:
        reader = csv.reader(stream)
        names = next(reader)
        cells = list(zip(*reader, strict=True))
    return {
        name: _parse_column(np.array(column)) for name, column in zip(names, cells, strict=True)
    }


def read_arff_columns(path):
    """Read an ARFF file into columns.

    Parameters
    ----------
    path : pathlib.Path
        The file; ``?`` is a missing value.

    Returns
    -------
    dict of str to ndarray
        As `read_csv_columns` returns it; nominal columns whose values are numbers are float64.
    """
    with open(path, encoding="utf-8") as stream:
        table, _ = arff.loadarff(stream)
    columns = {}
    for name in table.dtype.names:
        column = table[name]
        if column.dtype.kind == "S":
            text = np.char.decode(column, "utf-8")
            columns[name] = _parse_column(np.where(text == "?", "", text))
        else:
            columns[name] = column.astype(np.float64)
    return columns


def make_data_bunch(
    columns,
    *,
    feature_names,
    target,
    target_names,
    descr,
    path,
    as_frame,
    return_X_y,
    encode_strings=True,
):
    """Arrange columns in the way of scikit-learn's loaders.

    Parameters
    ----------
    columns : dict of str to ndarray
        Every column of the file, restricted to the rows to return.
    feature_names : list of str
        Names of the columns that make up the data.
    target : tuple of (str, ndarray)
        Name and values of the target.
    target_names : list of str
        Names of the classes, or of the target in a regression problem.
    descr : str
        Description of the data set.
    path : pathlib.Path
        The file that was read.
    as_frame : bool
        Whether to return pandas objects.
    return_X_y : bool
        Whether to return ``(data, target)`` alone.
    encode_strings : bool, default=True
        Whether string columns become codes 0, 1, ... in alphabetical order, NaN kept.

    Returns
    -------
    :class:`~sklearn.utils.Bunch` or tuple of (data, target)
        What a loader returns.
    """
    target_name, y = target
    categories = {
        name: _sorted_strings(columns[name]) for name in columns if _is_text(columns[name])
    }
    chosen = {name: columns[name] for name in feature_names}
    if encode_strings:
        chosen = {
            name: _encode(column, categories[name]) if name in categories else column
            for name, column in chosen.items()
        }
    frame = None
    if as_frame:
        pandas = import_optional("pandas", extra="pip install pandas", needed_by="as_frame=True")
        data = _to_frame(pandas, chosen, categories)
        y = pandas.Series(y, name=target_name)
        frame = _to_frame(pandas, columns, categories).assign(**{target_name: y})
    else:
        data = np.column_stack(list(chosen.values()))
    if return_X_y:
        return data, y
    return Bunch(
        data=data,
        target=y,
        frame=frame,
        feature_names=list(feature_names),
        target_names=list(target_names),
        categories={name: categories[name] for name in feature_names if name in categories},
        DESCR=descr,
        filename=str(path),
    )


def select_columns(columns, *, default, available):
    """Resolve the `columns` argument of a loader to a list of names.

    Parameters
    ----------
    columns : {"default", "all"} or list of str
        The argument.
    default : list of str
        What ``"default"`` stands for.
    available : list of str
        What ``"all"`` stands for: every column except the target.

    Returns
    -------
    list of str
        Names of the feature columns.

    Raises
    ------
    ValueError
        If a name is not a column of the file, or `columns` is another string.
    """
    if isinstance(columns, str):
        if columns not in ("default", "all"):
            raise ValueError(
                f"columns must be 'default', 'all' or a list of column names, got {columns!r}"
            )
        return list(default if columns == "default" else available)
    chosen = list(columns)
    unknown = [name for name in chosen if name not in available]
    if unknown or not chosen:
        raise ValueError(f"columns must name some of {list(available)}, got {chosen!r}")
    return chosen


def _parse_column(text):
    """Turn an array of str into float64, or into objects where some cell is not a number."""
    blank = text == ""
    try:
        numbers = np.full(len(text), np.nan)
        numbers[~blank] = text[~blank].astype(np.float64)
        return numbers
    except ValueError:
        strings = text.astype(object)
        strings[blank] = np.nan
        return strings


def _is_text(column):
    return column.dtype.kind == "O"


def _observed(column):
    # NaN is the only value that differs from itself.
    return column == column


def _sorted_strings(column):
    return sorted(set(column[_observed(column)]))


def _encode(column, categories):
    codes = np.full(len(column), np.nan)
    observed = _observed(column)
    codes[observed] = np.searchsorted(np.array(categories), column[observed].astype(str))
    return codes


def _to_frame(pandas, columns, categories):
    """Make a DataFrame in which string columns have a categorical dtype."""
    series = {}
    for name, column in columns.items():
        if _is_text(column):
            column = pandas.Categorical(column, categories=categories[name])
        elif column.dtype.kind == "M":
            # pandas knows no days; microseconds are its own unit.
            column = column.astype("datetime64[us]")
        series[name] = column
    return pandas.DataFrame(series)
