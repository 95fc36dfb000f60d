"""One-hot encoding in which a missing category stays missing."""

from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from skml.utils import restores_on_error
from skml.utils._missing_cells import is_missing

_INFREQUENT = "infrequent"
_MISSING, _UNKNOWN = -1, -2


class NaNOneHotEncoder(TransformerMixin, BaseEstimator):
    """Encode categories as one-hot columns, and a missing category as a row of NaN.

    `sklearn.preprocessing.OneHotEncoder` makes NaN one more category or a row of zeros. Either
    way the columns look observed, and a model behind it can rely on absent values unseen. Here
    all columns of a feature are NaN where the feature is missing, so that an imputer can fill
    them in and `skml.metrics.missingness_reliance` can count them.

    Parameters
    ----------
    categories : list of array-like or "auto", default="auto"
        The categories of each feature, in the order of the columns; 'auto': the observed
        values of the training data, sorted. A missing value is never a category.
    drop : {"first", "if_binary"}, array-like of shape (n_features,) or None, default=None
        Which column to leave out: the first of each feature, the first of features with two
        columns, or the column of the category given for each feature.
    handle_unknown : {"error", "ignore", "infrequent_if_exist", "missing"}, default="error"
        What `transform` does with a category that it does not know: raise an error; write a
        row of zeros; write the column of the merged rare categories, or zeros if the feature
        has none; treat it as missing, a row of NaN.
    min_frequency : int, float or None, default=None
        Categories that occur in fewer rows are merged into one column; a float is a share of
        all rows, missing ones included.
    sparse_output : bool, default=False
        Whether to return a CSR matrix, in which NaN are stored.
    dtype : dtype, default=numpy.float64
        Floating-point type of the output.

    Attributes
    ----------
    categories_ : list of ndarray of shape (n_categories,)
        Categories of each feature, the rare ones included.
    infrequent_categories_ : list of ndarray or None
        For each feature the categories that are merged, None where there are none.
    drop_idx_ : ndarray of shape (n_features,), dtype object, or None
        For each feature the index in `categories_` of the category whose column is left out,
        None where there is none; None if `drop` is None.
    source_indices_ : ndarray of shape (n_features_out,), dtype int
        For each output column the input feature that it comes from.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    See Also
    --------
    sklearn.preprocessing.OneHotEncoder : The encoder that makes NaN a category.
    sklearn.preprocessing.OrdinalEncoder : Integer codes, which keep NaN by default.

    Notes
    -----
    With the columns c = 1, ..., K of a feature x,

    .. math:: z_{ic} = 1[x_i = c] \\text{ if } x_i \\text{ is observed, else NaN.}

    All columns of one feature share one missingness pattern.

    References
    ----------
    L. Stempfle, A. Matsson, N. Mwai and F. D. Johansson, "Prediction models that learn to avoid
    missing values", ICML 2025, PMLR 267:56899-56919.

    Examples
    --------
    >>> import numpy as np
    >>> from skml.preprocessing import NaNOneHotEncoder
    >>> X = np.array([["red"], ["blue"], [None], ["red"]], dtype=object)
    >>> encoder = NaNOneHotEncoder().fit(X)
    >>> encoder.transform(X)
    array([[ 0.,  1.],
           [ 1.,  0.],
           [nan, nan],
           [ 0.,  1.]])
    >>> encoder.get_feature_names_out()
    array(['x0_blue', 'x0_red'], dtype=object)
    """

    _parameter_constraints: dict = {
        "categories": [StrOptions({"auto"}), list],
        "drop": [StrOptions({"first", "if_binary"}), "array-like", None],
        "handle_unknown": [StrOptions({"error", "ignore", "infrequent_if_exist", "missing"})],
        "min_frequency": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
            None,
        ],
        "sparse_output": ["boolean"],
        "dtype": "no_validation",  # checked in fit: it has to hold NaN
    }

    def __init__(
        self,
        *,
        categories="auto",
        drop=None,
        handle_unknown="error",
        min_frequency=None,
        sparse_output=False,
        dtype=np.float64,
    ):
        self.categories = categories
        self.drop = drop
        self.handle_unknown = handle_unknown
        self.min_frequency = min_frequency
        self.sparse_output = sparse_output
        self.dtype = dtype

    @_fit_context(prefer_skip_nested_validation=True)
    @restores_on_error
    def fit(self, X, y=None):
        """Find the categories of each feature.

        Parameters
        ----------
        X : {array-like, DataFrame} of shape (n_samples, n_features)
            Numbers or strings; None, NaN and `pandas.NA` are missing.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        if not np.issubdtype(np.dtype(self.dtype), np.floating):
            raise ValueError(f"dtype must be a floating-point type, to hold NaN, got {self.dtype}")
        columns = self._check_columns(X, reset=True)
        given = self._check_given(self.categories, "categories", len(columns))
        dropped = (
            None
            if isinstance(self.drop, str)
            else self._check_given(self.drop, "drop", len(columns))
        )

        categories, infrequent, drop_idx, column_of = [], [], [], []
        for j, column in enumerate(columns):
            values, counts = self._find_categories(j, column, given)
            rare = self._find_rare(counts, len(column))
            layout = _lay_out_columns(rare)
            index = self._find_dropped(j, values, rare, layout, dropped)
            if index is not None:
                layout = _drop_column(layout, layout[index])
            categories.append(values)
            infrequent.append(values[rare] if rare.any() else None)
            drop_idx.append(index)
            column_of.append(layout)

        self.categories_ = categories
        self.infrequent_categories_ = infrequent
        self.drop_idx_ = None if self.drop is None else _as_object_array(drop_idx)
        self._column_of_category = column_of
        widths = [layout.max(initial=-1) + 1 for layout in column_of]
        self.source_indices_ = np.repeat(np.arange(len(columns)), widths)
        return self

    def transform(self, X):
        """Encode the categories.

        Parameters
        ----------
        X : {array-like, DataFrame} of shape (n_samples, n_features)
            The features.

        Returns
        -------
        {ndarray, CSR matrix} of shape (n_samples, n_features_out)
            One-hot columns; NaN in all columns of a feature where it is missing.
        """
        check_is_fitted(self)
        columns = self._check_columns(X, reset=False)
        encode = self._encode_sparse if self.sparse_output else self._encode_dense
        blocks = [encode(j, column) for j, column in enumerate(columns)]
        if self.sparse_output:
            return sparse.hstack(blocks, format="csr", dtype=self.dtype)
        return np.hstack(blocks)

    def inverse_transform(self, X):
        """Turn one-hot columns back into categories.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features_out)
            Encoded data. The largest entry of a row decides, so imputed rows are accepted.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Categories: NaN where a row is NaN, "infrequent" for the merged rare categories,
            None for a row of zeros where no column was left out. The dtype is float64 if all
            entries are numbers, else object.
        """
        check_is_fitted(self)
        X = check_array(
            X, accept_sparse="csr", ensure_all_finite="allow-nan", ensure_min_features=0
        )
        if X.shape[1] != len(self.source_indices_):
            raise ValueError(
                f"X must have the {len(self.source_indices_)} columns that transform returns, "
                f"got {X.shape[1]}"
            )
        X = X.toarray() if sparse.issparse(X) else X
        decoded = np.empty((len(X), self.n_features_in_), dtype=object)
        for j in range(self.n_features_in_):
            decoded[:, j] = self._decode(j, X[:, self.source_indices_ == j])
        is_number = np.frompyfunc(lambda value: isinstance(value, Real), 1, 1)
        if is_number(decoded).all():
            return decoded.astype(np.float64)
        return decoded

    def get_feature_names_out(self, input_features=None):
        """Name the output columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the input features; None: `feature_names_in_`, or x0, x1, ...

        Returns
        -------
        ndarray of shape (n_features_out,), dtype object
            Names such as ``color_red``.
        """
        check_is_fitted(self)
        inputs = _check_feature_names_in(self, input_features)
        return _as_object_array(
            [f"{name}_{label}" for j, name in enumerate(inputs) for label in self._column_labels(j)]
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _check_columns(self, X, *, reset):
        """Validate X and return its columns as a list of 1-D arrays."""
        if hasattr(X, "columns") and hasattr(X, "shape"):
            # Column by column, so that numbers beside strings stay numbers.
            validate_data(self, X, reset=reset, skip_check_array=True)
            if min(X.shape) == 0:
                raise ValueError(
                    f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) while "
                    "a minimum of 1 is required."
                )
            columns = [_column_of_frame(X, j) for j in range(X.shape[1])]
        else:
            if not hasattr(X, "dtype") and not sparse.issparse(X):
                # numpy would write NaN in a list with strings as the string 'nan'.
                kind = np.asarray(X, dtype=object).ravel()
                dtype = object if any(isinstance(value, str) for value in kind) else None
            else:
                dtype = None
            X = validate_data(self, X, reset=reset, dtype=dtype, ensure_all_finite=False)
            columns = list(X.T)
        for column in columns:
            if column.dtype.kind == "f" and np.isinf(column).any():
                raise ValueError("Input X contains infinity, which is no category")
        return columns

    def _check_given(self, given, name, n_features):
        if given is None or isinstance(given, str):
            return None
        if len(given) != n_features:
            raise ValueError(
                f"{name} must have one entry for each of the {n_features} features, "
                f"got {len(given)}"
            )
        return given

    def _find_categories(self, j, column, given):
        """Return the categories of feature j and the number of rows of each."""
        observed, inverse = _unique(column[~is_missing(column)], j)
        occurrences = np.bincount(inverse, minlength=len(observed))
        if given is None:
            return observed, occurrences
        values = np.asarray(given[j])
        if is_missing(values).any() or len(set(values.tolist())) != len(values):
            raise ValueError(
                f"categories[{j}] must hold distinct values, none of them missing, got {given[j]!r}"
            )
        count_of = dict(zip(observed.tolist(), occurrences, strict=True))
        unknown = [value for value in count_of if value not in set(values.tolist())]
        if unknown and self.handle_unknown == "error":
            raise ValueError(f"Found unknown categories {unknown} in column {j} during fit")
        return values, np.array([count_of.get(value, 0) for value in values.tolist()], dtype=int)

    def _find_rare(self, counts, n_samples):
        if self.min_frequency is None:
            return np.zeros(len(counts), dtype=bool)
        least = self.min_frequency
        if not isinstance(least, Integral):
            least = least * n_samples
        return counts < least

    def _find_dropped(self, j, values, rare, layout, dropped):
        """Return the index of the category whose column is left out, or None."""
        n_columns = layout.max(initial=-1) + 1
        if self.drop is None or n_columns == 0:
            return None
        if dropped is None:
            if self.drop == "if_binary" and n_columns != 2:
                return None
            return int(np.flatnonzero(layout == 0)[0])
        if dropped[j] is None:
            return None
        index = np.flatnonzero(values == dropped[j])
        if len(index) == 0 or rare[index[0]]:
            raise ValueError(
                f"drop[{j}] must be None or one of the categories that are not merged, "
                f"{values[~rare].tolist()}, got {dropped[j]!r}"
            )
        return int(index[0])

    def _codes(self, j, column):
        """Return for each row the index of its category, `_MISSING` or `_UNKNOWN`."""
        codes = np.full(len(column), _MISSING)
        observed = ~is_missing(column)
        seen, inverse = _unique(column[observed], j)
        code_of = {value: code for code, value in enumerate(self.categories_[j].tolist())}
        seen_codes = np.array([code_of.get(value, _UNKNOWN) for value in seen.tolist()], dtype=int)
        unknown = seen[seen_codes == _UNKNOWN]
        if len(unknown) and self.handle_unknown == "error":
            raise ValueError(
                f"Found unknown categories {unknown.tolist()} in column {j} during transform; "
                "set handle_unknown to accept them"
            )
        codes[observed] = seen_codes[inverse]
        if self.handle_unknown == "missing":
            codes[codes == _UNKNOWN] = _MISSING
        elif self.handle_unknown == "infrequent_if_exist":
            rare = self.infrequent_categories_[j]
            if rare is not None:
                codes[codes == _UNKNOWN] = code_of[rare.tolist()[0]]
        return codes

    def _entries(self, j, column):
        """Return rows and columns of the ones, rows of NaN, and the width of the block."""
        codes = self._codes(j, column)
        known = np.flatnonzero(codes >= 0)
        position = self._column_of_category[j][codes[known]]
        kept = position >= 0
        width = int(np.count_nonzero(self.source_indices_ == j))
        return known[kept], position[kept], np.flatnonzero(codes == _MISSING), width

    def _encode_dense(self, j, column):
        rows, positions, missing, width = self._entries(j, column)
        block = np.zeros((len(column), width), dtype=self.dtype)
        block[rows, positions] = 1
        block[missing] = np.nan
        return block

    def _encode_sparse(self, j, column):
        rows, positions, missing, width = self._entries(j, column)
        row = np.concatenate([rows, np.repeat(missing, width)])
        col = np.concatenate([positions, np.tile(np.arange(width), len(missing))])
        data = np.concatenate([np.ones(len(rows)), np.full(len(missing) * width, np.nan)])
        return sparse.coo_array((data, (row, col)), shape=(len(column), width), dtype=self.dtype)

    def _column_labels(self, j):
        """Return the category of each output column of feature j."""
        layout = self._column_of_category[j]
        rare = self.infrequent_categories_[j]
        labels = []
        for position in range(layout.max(initial=-1) + 1):
            label = self.categories_[j].tolist()[np.flatnonzero(layout == position)[0]]
            is_rare = rare is not None and label in rare.tolist()
            labels.append(_INFREQUENT if is_rare else label)
        return labels

    def _decode(self, j, block):
        """Return the categories that one-hot columns of feature j stand for."""
        index = None if self.drop_idx_ is None else self.drop_idx_[j]
        if len(self.categories_[j]) == 0:
            zeros = np.nan
        elif index is None:
            zeros = None
        else:
            zeros = self.categories_[j].tolist()[index]
            rare = self.infrequent_categories_[j]
            if rare is not None and zeros in rare.tolist():
                zeros = _INFREQUENT
        choices = _as_object_array([*self._column_labels(j), zeros, np.nan])
        width = block.shape[1]
        chosen = np.full(len(block), width)
        if width:
            positive = block.max(axis=1) > 0
            chosen[positive] = block[positive].argmax(axis=1)
            chosen[np.isnan(block).any(axis=1)] = width + 1
        return choices[chosen]


def _column_of_frame(frame, j):
    if not hasattr(frame, "iloc"):
        return np.asarray(frame[:, j].to_numpy())
    column = frame.iloc[:, j]
    # As objects, since pandas makes floats of nullable integers otherwise.
    return column.to_numpy(dtype=None if isinstance(column.dtype, np.dtype) else object)


def _unique(values, j):
    try:
        return np.unique(values, return_inverse=True)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values.tolist()})
        raise TypeError(
            f"Encoders require their input argument must be uniformly strings or numbers; "
            f"column {j} holds {kinds}"
        ) from None


def _lay_out_columns(rare):
    """Number the columns: one for each frequent category in order, then one for the rare."""
    layout = np.cumsum(~rare) - 1
    layout[rare] = np.count_nonzero(~rare)
    return layout


def _drop_column(layout, position):
    return np.where(layout == position, -1, layout - (layout > position))


def _as_object_array(items):
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array
