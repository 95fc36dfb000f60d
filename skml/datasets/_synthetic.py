"""Generators of data in which missing values have a known structure."""

import numpy as np
from sklearn.utils import check_random_state


def make_contextual_missingness(n_samples=4000, *, random_state=None):
    """Generate records in which a test is ordered only where it is called for.

    A patient's `age` is always known. The cognitive test `mmse` is taken by patients of 65 or
    more, the scan `mri` by nearly all with a positive test and by few others. The best
    predictor, `mri`, is thus missing for most rows, but known wherever it matters: a tree that
    asks for age first, then `mmse`, then `mri` never needs a missing value.

    Parameters
    ----------
    n_samples : int, default=4000
        Number of rows.
    random_state : int, RandomState instance or None, default=None
        Source of the draw. Pass an int for the same data at each call.

    Returns
    -------
    X : ndarray of shape (n_samples, 3)
        Columns `age` (years), `mmse` (1: positive) and `mri` (1: positive); NaN where the
        test was not taken.
    y : ndarray of shape (n_samples,)
        Class labels 0 and 1.

    See Also
    --------
    load_happiness : Survey data in which most rows miss some answer.

    Notes
    -----
    With Bern(p) a coin that shows 1 with probability p,

    - age is uniform on [50, 90); a row is old from 65 on;
    - mmse ~ Bern(.18) is observed if and only if the row is old;
    - mri is observed with probability .10 in the young, value Bern(.03); always in the old
      with mmse = 1, value Bern(.82); with probability .13 in the old with mmse = 0, value
      Bern(.38);
    - P(y = 1) is .95 or .05 for an observed mri of 1 or 0; otherwise .7 or .3 for an observed
      mmse of 1 or 0; otherwise .1 + .001 (age - 50).

    References
    ----------
    .. [1] L. Stempfle, A. Matsson, N. Mwai, F. D. Johansson. "Prediction models that learn to
       avoid missing values." ICML 2025. https://arxiv.org/abs/2505.03393

    Examples
    --------
    >>> import numpy as np
    >>> from skml.datasets import make_contextual_missingness
    >>> X, y = make_contextual_missingness(1000, random_state=0)
    >>> X.shape, y.shape
    ((1000, 3), (1000,))
    >>> age, mmse, mri = X.T
    >>> bool(np.isnan(mri[mmse == 1]).any()), bool(np.isnan(mri).mean() > 0.7)
    (False, True)
    """
    rng = check_random_state(random_state)
    age = rng.uniform(50, 90, size=n_samples)
    old = age >= 65
    positive = rng.uniform(size=n_samples) < 0.18
    mmse = np.where(old, positive, np.nan)

    # One entry per context: young, old with a positive test, old with a negative one.
    context = np.where(old, np.where(positive, 1, 2), 0)
    is_scanned = rng.uniform(size=n_samples) < np.array([0.10, 1.0, 0.13])[context]
    finding = rng.uniform(size=n_samples) < np.array([0.03, 0.82, 0.38])[context]
    mri = np.where(is_scanned, finding, np.nan)

    probability = 0.1 + 0.001 * (age - 50)
    probability = np.where(old, np.where(positive, 0.7, 0.3), probability)
    probability = np.where(is_scanned, np.where(finding, 0.95, 0.05), probability)
    y = (rng.uniform(size=n_samples) < probability).astype(np.intp)
    return np.column_stack([age, mmse, mri]), y
