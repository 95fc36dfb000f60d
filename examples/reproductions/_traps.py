"""What the reproductions of trap escaping share: their data, their measures, finished fits."""

import json
import os
from pathlib import Path

import joblib
import numpy as np
import skorch
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skml.datasets import add_trigger, load_mnist_5k
from skml.metrics import attack_success_rate

TARGET = 0  # the class to which a backdoor leads


def load(domain, seed, quick, *, side=8):
    """Train and test parts of the task, and of the other domain, at side x side pixels."""
    X, y = load_mnist_5k(side=side, return_X_y=True)
    sizes = {"train_size": 1000, "test_size": 500} if quick else {"test_size": 1000}
    X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=seed, **sizes)
    if domain == "close":
        other, other_y = load_digits(return_X_y=True)
        other = enlarged((other / 16).astype(np.float32), side)
        parts = train_test_split(other, other_y, test_size=0.2, random_state=seed)
        other, other_test, other_y, other_y_test = parts
    elif domain == "inverted":
        other, other_test, other_y, other_y_test = 1 - X, 1 - X_test, y, y_test
    else:
        other, other_test = add_trigger(X), add_trigger(X_test)
        other_y, other_y_test = y, y_test
    return (X, y, X_test, y_test), (other, other_y, other_test, other_y_test)


def enlarged(X, side):
    """Rows of 8 x 8 pixels as rows of side x side pixels, by linear interpolation."""
    if side == 8:
        return X
    factors = (1, side / 8, side / 8)
    images = zoom(X.reshape(-1, 8, 8), factors, order=1, mode="nearest", grid_mode=True)
    return images.reshape(len(X), -1).clip(0, 1)


def measures(model, domain, task, other):
    """IAcc, and OAcc or ASR."""
    found = {"IAcc": model.score(task[2], task[3])}
    if domain == "backdoor":
        found["ASR"] = attack_success_rate(other[3], model.predict(other[2]), TARGET)
    elif domain != "none":
        found["OAcc"] = model.score(other[2], other[3])
    return found


class Ramp(skorch.callbacks.Callback):
    """Lets the weight of forgetting grow from 0 after half of the rounds to `weight` at the end."""

    def __init__(self, weight=1.0):
        self.weight = weight

    def on_epoch_begin(self, net, **kwargs):
        half = net.max_epochs / 2
        share = max(0.0, (len(net.history) - half) / half)
        net.criterion_.forget_weight = self.weight * share


def run_once(run, job):
    """What ``run(job)`` gives, from the folder ATESC_CACHE of finished jobs if it is there."""
    folder = os.environ.get("ATESC_CACHE")
    if not folder:
        return run(job)
    path = Path(folder) / f"{joblib.hash(repr(job))}.json"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    results = run(job)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results), encoding="utf-8")
    return results
