"""Loaders of real series of one variable over time, which lie inside the statsmodels package."""

import numpy as np

from ._wheel_data import find_wheel_file, make_data_bunch, read_csv_columns

_CO2_DESCR = """\
Carbon dioxide over Mauna Loa, weekly, 1958-2001
------------------------------------------------
2225 weekly means of the concentration in the air, in parts per million; 59 weeks have none. A
trend, and a season with sharp spring maxima. Source: C. D. Keeling and T. P. Whorf, Carbon
Dioxide Research Group, in the statsmodels package.
"""
_ELNINO_DESCR = """\
Sea surface temperature of the eastern Pacific, monthly, 1950-2010
------------------------------------------------------------------
732 monthly means between 0 and 10 degrees south and 90 and 80 degrees west, in degrees Celsius.
A season, and warm years (El Nino) without a period. Source: National Oceanic and Atmospheric
Administration, ERSST.V3B, Nino 1+2, in the statsmodels package.
"""
_SUNSPOTS_DESCR = """\
Sunspots, yearly, 1700-2008
---------------------------
309 yearly mean numbers. Cycles of about eleven years with a steep rise and a slow fall, whose
heights differ. Source: National Geophysical Data Center, in the statsmodels package.
"""


def load_co2(*, as_frame=False, return_X_y=False):
    """Load carbon dioxide in the air over Mauna Loa, weekly (regression on time).

    =================   =============
    Samples                      2225
    Features            1 (date)
    Target              305 to 374 ppm
    =================   =============

    Parameters
    ----------
    as_frame : bool, default=False
        Whether `data` is a pandas DataFrame and `target` a Series.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes `data` (datetime64), `target`, `feature_names`, `target_names`,
        `frame` (both as a DataFrame if `as_frame`, else None), `DESCR` and `filename`.
    (data, target) : tuple if `return_X_y` is True
        Dates of shape (2225, 1) and concentrations of shape (2225,).

    Raises
    ------
    ImportError
        If the statsmodels package is not installed.

    Examples
    --------
    >>> from skml.datasets import load_co2
    >>> load_co2().data[0]
    array(['1958-03-29'], dtype='datetime64[D]')
    """
    path = _find("co2", "load_co2")
    columns = read_csv_columns(path)
    numbers = columns["date"].astype(np.int64)
    dates = [f"{n // 10000}-{n // 100 % 100:02d}-{n % 100:02d}" for n in numbers.tolist()]
    is_known = ~np.isnan(columns["co2"])
    dates = np.array(dates, dtype="datetime64[D]")[is_known]
    return _bunch(dates, columns["co2"][is_known], "co2", _CO2_DESCR, path, as_frame, return_X_y)


def load_elnino(*, as_frame=False, return_X_y=False):
    """Load the sea surface temperature of the eastern Pacific, monthly (regression on time).

    =================   =============
    Samples                       732
    Features            1 (date)
    Target              18.6 to 29.1 °C
    =================   =============

    Parameters
    ----------
    as_frame : bool, default=False
        Whether `data` is a pandas DataFrame and `target` a Series.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes `data` (datetime64, the middle of the month), `target`,
        `feature_names`, `target_names`, `frame` (both as a DataFrame if `as_frame`, else None),
        `DESCR` and `filename`.
    (data, target) : tuple if `return_X_y` is True
        Dates of shape (732, 1) and temperatures of shape (732,).

    Raises
    ------
    ImportError
        If the statsmodels package is not installed.

    Examples
    --------
    >>> from skml.datasets import load_elnino
    >>> load_elnino().data.shape
    (732, 1)
    """
    path = _find("elnino", "load_elnino")
    columns = read_csv_columns(path)
    years = columns.pop("YEAR").astype(np.int64)
    months = np.array([f"{year}-{month:02d}-15" for year in years for month in range(1, 13)])
    values = np.column_stack(list(columns.values())).ravel()
    dates = months.astype("datetime64[D]")
    return _bunch(dates, values, "temperature", _ELNINO_DESCR, path, as_frame, return_X_y)


def load_sunspots(*, as_frame=False, return_X_y=False):
    """Load the yearly number of sunspots (regression on time).

    =================   =============
    Samples                       309
    Features            1 (date)
    Target              0 to 190.2
    =================   =============

    Parameters
    ----------
    as_frame : bool, default=False
        Whether `data` is a pandas DataFrame and `target` a Series.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes `data` (datetime64, the middle of the year), `target`,
        `feature_names`, `target_names`, `frame` (both as a DataFrame if `as_frame`, else None),
        `DESCR` and `filename`.
    (data, target) : tuple if `return_X_y` is True
        Dates of shape (309, 1) and numbers of shape (309,).

    Raises
    ------
    ImportError
        If the statsmodels package is not installed.

    Examples
    --------
    >>> from skml.datasets import load_sunspots
    >>> X, y = load_sunspots(return_X_y=True)
    >>> X.shape, float(y.max())
    ((309, 1), 190.2)
    """
    path = _find("sunspots", "load_sunspots")
    columns = read_csv_columns(path)
    dates = np.array([f"{year}-07-01" for year in columns["YEAR"].astype(np.int64)])
    dates = dates.astype("datetime64[D]")
    values = columns["SUNACTIVITY"]
    return _bunch(dates, values, "sunspots", _SUNSPOTS_DESCR, path, as_frame, return_X_y)


def _find(name, needed_by):
    return find_wheel_file(
        "statsmodels", f"statsmodels/datasets/{name}/{name}.csv", needed_by=needed_by
    )


def _bunch(dates, values, target_name, descr, path, as_frame, return_X_y):
    return make_data_bunch(
        {"date": dates},
        feature_names=["date"],
        target=(target_name, values),
        target_names=[target_name],
        descr=descr,
        path=path,
        as_frame=as_frame,
        return_X_y=return_X_y,
    )
