"""Prediction by a torch module that gives logits."""

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from ._samples import flat_samples

_ROWS_PER_PASS = 4096


class LogitPredictionMixin:
    """Methods of a classifier that has a module in `_predictor`, and `input_shape_`."""

    def predict(self, X):
        """Predict the class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_channels, height, width)
            Samples.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Class labels.
        """
        columns = self._logits(X).argmax(axis=1)
        return self.classes_[columns]

    def predict_proba(self, X):
        """Predict the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_channels, height, width)
            Samples.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Softmax of the logits, columns in the order of `classes_`.
        """
        logits = self._logits(X).astype(np.float64)
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        return exponentials / exponentials.sum(axis=1, keepdims=True)

    def decision_function(self, X):
        """Compute the logits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_channels, height, width)
            Samples.

        Returns
        -------
        decision : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            Logits; for two classes that of the second minus that of the first.
        """
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def _logits(self, X):
        check_is_fitted(self)
        X, shape = flat_samples(self, X, image_shape=self.input_shape_, reset=False)
        module = self._predictor
        device = next((p.device for p in module.parameters()), torch.device("cpu"))
        with torch.inference_mode():
            parts = [
                module(torch.tensor(part.reshape(-1, *shape), device=device)).cpu()
                for part in np.split(X, range(_ROWS_PER_PASS, len(X), _ROWS_PER_PASS))
            ]
        return torch.cat(parts).numpy()
