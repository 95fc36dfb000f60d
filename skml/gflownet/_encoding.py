"""Objects as the user writes them, and as integers."""

import numpy as np
from sklearn.preprocessing import OrdinalEncoder

from skml.utils._missing_cells import is_missing
from skml.utils._optional import import_optional

# float64 holds every integer up to it.
_LARGEST_INTEGER = 2**53


class ObjectEncoder:
    """Turns rows of X into integers, and integers into rows like those of X.

    Parameters
    ----------
    learn : bool
        Whether the values of the columns are learnt; else X holds integers.
    shared : bool
        Whether all columns have the same alphabet.
    may_end : bool
        Whether missing cells are allowed, at the end of a row: positions that do not exist.
    """

    def __init__(self, *, learn, shared, may_end):
        self.learn, self.shared, self.may_end = learn, shared, may_end

    def fit(self, X, frame):
        """Learn alphabets.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Validated.
        frame : object
            X as it was given, to return samples in the same form.

        Returns
        -------
        self : object
            The encoder itself.
        """
        self.dtype = X.dtype
        self.frame = _describe_frame(frame)
        self.blank = _blank_of(X) if self.may_end else None
        if not self.learn:
            self.categories = None
            return self
        blank = self._blanks(X)
        _refuse_gaps(blank)
        columns = [X[~gone, j] for j, gone in enumerate(blank.T)]
        if self.shared:
            columns = [np.concatenate(columns)] * X.shape[1]
        for j, column in enumerate(columns):
            if not len(column):
                raise ValueError(f"Column {j} of X holds no value in any row.")
        encoder = OrdinalEncoder()
        self.categories = [
            encoder.fit(column.reshape(-1, 1)).categories_[0]
            for column in (columns[:1] if self.shared else columns)
        ]
        if self.shared:
            self.categories *= X.shape[1]
        return self

    def encode(self, X):
        """Integers of rows, and which rows hold a value that is not known.

        Returns
        -------
        objects : ndarray of shape (n_samples, n_features)
            Integers from 0; -1 after the end.
        unknown : ndarray of shape (n_samples,), dtype bool
            Whether a row holds an unknown value.
        """
        blank = self._blanks(X)
        _refuse_gaps(blank)
        if self.categories is None:
            objects = _integers(X, blank)
        else:
            filled = np.array(X)
            for j, categories in enumerate(self.categories):
                filled[blank[:, j], j] = categories[0]
            encoder = OrdinalEncoder(
                categories=self.categories,
                handle_unknown="use_encoded_value",
                unknown_value=-2,
                dtype=np.int64,
            )
            objects = encoder.fit(filled[:1]) and encoder.transform(filled)
        objects[blank] = -1
        return objects, (objects < -1).any(axis=1) | ((objects == -1) & ~blank).any(axis=1)

    def decode(self, objects):
        """Rows like those of X: a DataFrame where X was one."""
        columns = []
        for j, codes in enumerate(np.asarray(objects).T):
            if self.categories is None:
                values = codes.astype(self.dtype, copy=False)
            else:
                values = self.categories[j][np.maximum(codes, 0)]
                if self.dtype.kind != "U":  # strings of several lengths keep their own type
                    values = values.astype(self.dtype)
            if self.may_end:
                values = _with_blanks(values, codes < 0, self.blank)
            columns.append(values)
        if self.frame is None:
            return np.column_stack(columns)
        return _make_frame(columns, self.frame)

    def _blanks(self, X):
        if not self.may_end:
            return np.zeros(X.shape, dtype=bool)
        if X.dtype.kind in "iu":
            return X == -1
        blank = is_missing(X)
        if X.dtype.kind in "OU":
            blank |= X == ""
        elif not self.learn:
            blank |= X == -1
        return blank


def _blank_of(X):
    """What stands where there is no value: as in X, or as usual for its type."""
    if X.dtype.kind in "iu":
        return -1
    if X.dtype.kind == "f":
        return np.nan
    if X.dtype.kind == "U":
        return ""
    return "" if (X == "").any() else None


def _with_blanks(values, blank, mark):
    if not blank.any():
        return values
    if mark is None and values.dtype.kind != "O":
        values = values.astype(object)
    values = np.array(values)
    values[blank] = mark
    return values


def _refuse_gaps(blank):
    gaps = blank[:, :-1] & ~blank[:, 1:]
    if gaps.any():
        row = int(np.argmax(gaps.any(axis=1)))
        raise ValueError(
            f"Row {row} of X has a value after a missing one; a sequence ends at the first."
        )


def _integers(X, blank):
    filled = np.array(X, dtype=X.dtype if X.dtype.kind in "iufb" else object)
    filled[blank] = 0
    try:
        numbers = filled.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must hold integers for this process; {error}.") from error
    is_wrong = (numbers != np.rint(numbers)) | (np.abs(numbers) > _LARGEST_INTEGER)
    if is_wrong.any():
        raise ValueError(f"X must hold integers for this process, got {numbers[is_wrong][0]}.")
    return numbers.astype(np.int64)


def _describe_frame(frame):
    """What is needed to make a dataframe like the given one; None for other types."""
    if not (hasattr(frame, "columns") and hasattr(frame, "dtypes")):
        return None
    dtypes = getattr(frame.dtypes, "tolist", lambda: frame.dtypes)()
    return {
        "library": type(frame).__module__.partition(".")[0],
        "columns": [str(name) for name in frame.columns],
        "dtypes": [
            str(dtype) for dtype in (dtypes.tolist() if hasattr(dtypes, "tolist") else dtypes)
        ],
    }


def _make_frame(columns, frame):
    library = import_optional(
        frame["library"],
        extra=f"pip install {frame['library']}",
        needed_by="A sampler fitted on a dataframe",
    )
    data = dict(zip(frame["columns"], columns, strict=True))
    if frame["library"] != "pandas":
        return library.DataFrame({name: values.tolist() for name, values in data.items()})
    made = library.DataFrame(data)
    for name, dtype in zip(frame["columns"], frame["dtypes"], strict=True):
        if str(made[name].dtype) != dtype and not (dtype[:3] == "int" and made[name].isna().any()):
            made[name] = made[name].astype(dtype)
    return made
