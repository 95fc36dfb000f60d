"""Loader of the data set in the scikit-survival package whose inputs have missing values."""

import numpy as np

from ._wheel_data import find_wheel_file, make_data_bunch, read_arff_columns, select_columns

_FLCHAIN_DESCR = """\
Free light chain in serum and death within a number of years
------------------------------------------------------------
7874 residents of Olmsted County, Minnesota, 50 years or older, in whom the free light chains
of immunoglobulins were measured. Read from the scikit-survival package.

The target is 1 if the person died within `horizon` days of the sample. People who were alive
when observation ended before that are left out, for their target is unknown.

Features: age (years), sex, kappa and lambda (free light chain portions), flc.grp (decile of
their sum), creatinine (mg/dl; missing in a sixth of the rows), mgus (diagnosed or not).

Left out of the features by default, and in `frame` and `columns="all"`:
- death, futime: what the target is computed from (leak);
- chapter: the cause of death, known for the dead only (leak);
- sample.yr: the year of the sample, which fixes how long a person could be followed (leak).

Reference: A. Dispenzieri et al. "Use of monoclonal serum immunoglobulin free light chains to
predict overall survival in the general population." Mayo Clinic Proceedings 87 (2012) 512-523.
"""
_FLCHAIN_FEATURES = ["age", "sex", "kappa", "lambda", "flc.grp", "creatinine", "mgus"]


def load_flchain(
    *, horizon=5 * 365, columns="default", encode_strings=True, as_frame=False, return_X_y=False
):
    """Load the serum free light chain data with death within a horizon as the target.

    =================   ==============
    Classes                          2
    Samples             7679 by default
    Features                         7
    Missing             creatinine, 17 %
    =================   ==============

    Parameters
    ----------
    horizon : int or float, default=1825
        Number of days. The target is 1 for death at or before it. Rows that are censored
        before it are removed.
    columns : {"default", "all"} or list of str, default="default"
        Feature columns. "all" includes columns that leak the target; `DESCR` names them.
    encode_strings : bool, default=True
        Whether string columns become codes in alphabetical order, with NaN kept. If False
        they stay strings: an array of objects, or categorical columns of a DataFrame.
    as_frame : bool, default=False
        Whether `data` is a pandas DataFrame and `target` a Series.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes `data`, `target`, `feature_names`, `target_names`, `categories`
        (the strings behind the codes), `frame` (every column of the file and the target as a
        DataFrame if `as_frame`, else None), `DESCR` and `filename`.
    (data, target) : tuple if `return_X_y` is True
        Features of shape (n_samples, n_features) and target of shape (n_samples,).

    Raises
    ------
    ImportError
        If scikit-survival is not installed.

    See Also
    --------
    load_happiness : Survey data in which most rows miss some answer.

    Examples
    --------
    >>> from skml.datasets import load_flchain
    >>> X, y = load_flchain(return_X_y=True)
    >>> X.shape, int(y.sum())
    ((7679, 7), 935)
    """
    if not np.isscalar(horizon) or not horizon > 0:
        raise ValueError(f"horizon must be a positive number of days, got {horizon!r}")
    path = find_wheel_file(
        "scikit-survival", "sksurv/datasets/data/flchain.arff", needed_by="load_flchain"
    )
    table = read_arff_columns(path)
    dead = table["death"] == "dead"
    known = dead | (table["futime"] >= horizon)
    table = {name: column[known] for name, column in table.items()}
    y = (dead[known] & (table["futime"] <= horizon)).astype(np.intp)
    return make_data_bunch(
        table,
        feature_names=select_columns(columns, default=_FLCHAIN_FEATURES, available=list(table)),
        target=("death_within_horizon", y),
        target_names=["alive", "dead"],
        descr=_FLCHAIN_DESCR,
        path=path,
        as_frame=as_frame,
        return_X_y=return_X_y,
        encode_strings=encode_strings,
    )
