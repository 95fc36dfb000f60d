"""Fits that either succeed or leave no trace."""

import functools


def restores_on_error(method):
    """Decorate ``fit`` so that an error leaves the estimator as it was before the call.

    Validation sets ``n_features_in_`` before the last data error can be found, and
    ``check_is_fitted`` takes any attribute that ends in an underscore for a fitted model. With
    this decorator a failed ``fit`` of a fresh estimator leaves it not fitted, and a failed
    ``fit`` of a fitted estimator leaves the earlier model in place.

    Parameters
    ----------
    method : callable
        ``fit``, ``partial_fit`` or another method that changes fitted state. Fitted objects are
        expected to be replaced, not changed in place.

    Returns
    -------
    callable
        The method with the same signature.
    """

    @functools.wraps(method)
    def atomic(self, *args, **kwargs):
        before = vars(self).copy()
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return atomic
