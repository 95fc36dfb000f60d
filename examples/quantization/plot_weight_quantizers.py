"""
==========================================
Weights of a few bits: GANQ and its rivals
==========================================

A neural network is trained on digits, and its weights are then stored in one to four bits. At one
bit rounding to evenly spaced levels leaves nothing of it. With tables that are fitted to the
outputs of each layer, as :class:`~skml.quantization.GANQQuantizer` finds them, it still reads.
"""

# %%
# A network to quantise
# ---------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from skml.inspection import QuantizationErrorDisplay
from skml.quantization import (
    GANQQuantizer,
    GPTQQuantizer,
    KMeansQuantizer,
    QuantizedEstimator,
    RTNQuantizer,
)

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)
network = MLPClassifier((128, 128), tol=1e-3, random_state=0).fit(X_train, y_train)
print(f"accuracy with float weights: {network.score(X_test, y_test):.3f}")

# %%
# The error of one layer
# ----------------------
# A quantizer is fitted on the inputs of a layer. Here it is the second one, whose inputs are the
# activations of the first. The error is measured on inputs that were not used for the fit.

quantizers = {
    "RTN": RTNQuantizer(),
    "k-means": KMeansQuantizer(),
    "GPTQ": GPTQQuantizer(act_order=True),
    "GANQ": GANQQuantizer(),
}


def hidden(X):
    return np.maximum(X @ network.coefs_[0] + network.intercepts_[0], 0)


display = QuantizationErrorDisplay.from_estimators(
    quantizers,
    hidden(X_train),
    network.coefs_[1].T,
    bits=(1, 2, 3, 4, 5),
    X_test=hidden(X_test),
)
display.ax_.set_title("Second layer, on test inputs")

# %%
# Where the levels lie
# --------------------
# The table of a row follows the density of its weights, but not blindly: it is what the
# back-substitution makes best use of.

row = 5
W = network.coefs_[1].T
ganq = GANQQuantizer(bits=3).fit(hidden(X_train)).quantize(W)
rtn = RTNQuantizer(bits=3).fit(hidden(X_train)).quantize(W)
fig, ax = plt.subplots(figsize=(6, 2.5))
ax.hist(W[row], bins=40, color="lightgrey")
ax.vlines(ganq.codebook[row], 0, 6, color="C3", label="GANQ")
ax.vlines(np.unique(rtn.dequantize()[row]), -6, 0, color="C0", label="RTN")
ax.set(xlabel="Weight", ylabel="Count", title=f"Levels of row {row} at 3 bits")
ax.legend()

# %%
# The whole network
# -----------------
# :class:`~skml.quantization.QuantizedEstimator` quantises all layers, one after the other.

bits = (1, 2, 3, 4)
fig, ax = plt.subplots()
for label, quantizer in quantizers.items():
    scores = [
        QuantizedEstimator(network, quantizer.set_params(bits=n), prefit=True)
        .fit(X_train)
        .score(X_test, y_test)
        for n in bits
    ]
    ax.plot(bits, scores, marker="o", label=label)
    print(label, np.round(scores, 3))
ax.axhline(network.score(X_test, y_test), color="k", linestyle=":", label="float weights")
ax.set(xlabel="Bits per weight", ylabel="Accuracy on test data", xticks=bits)
ax.legend()
