"""What the common tests need to build a `QuantizedEstimator`."""

from sklearn.linear_model import LogisticRegression

from skml.quantization import QuantizedEstimator
from skml.utils.estimator_checks import register_instance


@register_instance(QuantizedEstimator)
def make_quantized_estimator():
    return QuantizedEstimator(LogisticRegression())
