"""Constraints of the parameters that the estimators share."""

from numbers import Integral, Real

from sklearn.utils._param_validation import Interval, StrOptions

TRAINING_CONSTRAINTS = {
    "learning_rate": [Interval(Real, 0, None, closed="neither")],
    "batch_size": [Interval(Integral, 2, None, closed="left")],
    "image_shape": [tuple, list, None],
    "callbacks": [list, StrOptions({"disable"}), None],
    "device": [str],
    "verbose": ["verbose"],
    "random_state": ["random_state"],
}
