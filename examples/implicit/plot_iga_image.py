"""
========================================
Fine detail of a photograph, learnt soon
========================================

A network from pixel coordinates to colours is fitted to one photograph, twice: by the plain
gradient, and with the residuals balanced by the network's neural tangent kernel (IGA). After the
same number of steps the plain network is still blurred.
"""

# %%
# One photograph, one network
# ---------------------------
# The photograph is averaged down to 42 x 64 pixels. Both networks start from the same weights.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from skml.implicit import INRRegressor
from skml.inspection import SpectrumDisplay
from skml.metrics import peak_signal_noise_ratio

pixels = load_sample_image("china.jpg")[:420] / 255
image = pixels.reshape(42, 10, 64, 10, 3).mean(axis=(1, 3))

models = {}
for name, training in {"plain gradient": "standard", "IGA": "iga"}.items():
    model = INRRegressor(
        "relu_pe", hidden_width=64, max_iter=200, training=training, random_state=0
    )
    models[name] = model.fit_image(image)

fig, axes = plt.subplots(1, 3, figsize=(10, 2.8), layout="constrained")
axes[0].imshow(image)
axes[0].set_title("Photograph")
for ax, (name, model) in zip(axes[1:], models.items(), strict=True):
    fitted = model.predict_image().clip(0, 1)
    psnr = peak_signal_noise_ratio(image, fitted, data_range=1.0)
    ax.imshow(fitted)
    ax.set_title(f"{name}: {psnr:.1f} dB")
for ax in axes:
    ax.set_axis_off()
plt.show()

# %%
# What balancing does
# -------------------
# The eigenvalues of the kernel are the rates at which the network learns. They fall over orders of
# magnitude, and fine detail belongs to the small ones. The leading twenty are made equal, at each
# update of the matrix. Adam then takes steps that serve all of these directions.

fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
SpectrumDisplay.from_estimator(models["IGA"], ax=axes[0])
for name, model in models.items():
    axes[1].plot(model.psnr_curve_, label=name)
axes[1].set_xlabel("Step")
axes[1].set_ylabel("PSNR (dB)")
axes[1].legend()
plt.show()

# %%
# Between the pixels
# ------------------
# The network is a function: it can be evaluated on a finer grid over the same extent, and
# differentiated anywhere. SIREN is the architecture to choose for derivatives.

siren = INRRegressor(hidden_width=64, first_omega_0=15, max_iter=200, random_state=0)
siren.fit_image(image.mean(axis=2))
finer = siren.predict_image((167, 256))
rows, columns = np.meshgrid(np.linspace(0, 41, 167), np.linspace(0, 63, 256), indexing="ij")
slope = np.linalg.norm(siren.gradient(np.column_stack([rows.ravel(), columns.ravel()])), axis=1)

fig, axes = plt.subplots(1, 3, figsize=(10, 2.8), layout="constrained")
axes[0].imshow(image.mean(axis=2), cmap="gray", vmin=0, vmax=1)
axes[0].set_title("42 x 64 pixels, grey")
axes[1].imshow(finer, cmap="gray", vmin=0, vmax=1)
axes[1].set_title("The network on 167 x 256 points")
axes[2].imshow(slope.reshape(finer.shape), cmap="magma", vmax=np.quantile(slope, 0.99))
axes[2].set_title("Length of its gradient")
for ax in axes:
    ax.set_axis_off()
plt.show()
