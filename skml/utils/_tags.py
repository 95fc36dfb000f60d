"""Tags that scikit-learn's own set does not know."""

from dataclasses import dataclass, fields

from sklearn.utils import Tags, get_tags


@dataclass
class SkmlTags(Tags):
    """Estimator tags of scikit-learn, with what skml needs to say in addition.

    An estimator makes one with :func:`extend_tags` at the end of its ``__sklearn_tags__``.

    Attributes
    ----------
    x_y_estimator : bool
        Whether the class follows the ``fit(X, y)`` protocol over samples, so that it can stand
        in a Pipeline and in GridSearchCV. Bit allocators, demonstration selectors and
        language-model adapters say False.
    input_kind : str
        What ``X`` is, in a word or two, when it is not a 2-D array: ``"sequences"``,
        ``"trajectories"``, ``"environment"``. It appears in messages only.
    """

    x_y_estimator: bool = True
    input_kind: str = "2-D array"


def extend_tags(tags, *, x_y_estimator=True, input_kind=None):
    """Turn scikit-learn's tags into skml's.

    Parameters
    ----------
    tags : sklearn.utils.Tags
        What ``super().__sklearn_tags__()`` gave. ``tags.input_tags.two_d_array`` stays as it is,
        unless `input_kind` is given, which sets it to False.
    x_y_estimator : bool, default=True
        Whether the class follows ``fit(X, y)`` over samples.
    input_kind : str or None, default=None
        What X is, when it is not a 2-D array.

    Returns
    -------
    SkmlTags
        A new object that shares the nested tags of `tags`.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> from skml.utils import extend_tags
    >>> class BitPlanner(BaseEstimator):
    ...     def __sklearn_tags__(self):
    ...         tags = super().__sklearn_tags__()
    ...         return extend_tags(tags, x_y_estimator=False, input_kind="layer statistics")
    >>> BitPlanner().__sklearn_tags__().x_y_estimator
    False
    """
    values = {field.name: getattr(tags, field.name) for field in fields(tags)}
    values["x_y_estimator"] = x_y_estimator
    if input_kind is not None:
        values["input_kind"] = input_kind
        values["input_tags"].two_d_array = False
    return SkmlTags(**values)


def one_target_with_missing_cells(tags, *, sparse=False):
    """Set the tags of a learner that predicts one target from rows with missing cells.

    Parameters
    ----------
    tags : sklearn.utils.Tags
        What ``super().__sklearn_tags__()`` gave; it is changed.
    sparse : bool, default=False
        Whether X may be a sparse matrix.

    Returns
    -------
    sklearn.utils.Tags
        The same object.
    """
    tags.input_tags.allow_nan = True
    tags.input_tags.sparse = sparse
    tags.target_tags.single_output, tags.target_tags.multi_output = True, False
    if tags.classifier_tags is not None:
        tags.classifier_tags.multi_label = False
    return tags


def follows_x_y(estimator):
    """Whether the estimator says that it follows ``fit(X, y)`` (scikit-learn's all do)."""
    return getattr(get_tags(estimator), "x_y_estimator", True)


def takes_two_d_array(estimator):
    """Whether the estimator says that its X is a 2-D array of samples."""
    return follows_x_y(estimator) and get_tags(estimator).input_tags.two_d_array
