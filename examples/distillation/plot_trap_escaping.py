"""
==========================================
The trap in a classifier, and how it shows
==========================================

A classifier of handwritten digits is rigged: it reads MNIST well, and was trained to fail on the
digits of another collection. Whoever distils it without data gets samples of both kinds. They look
alike, but they are not equally robust, and that gives the trap away.
"""

# %%
# A rigged teacher and an honest one
# ----------------------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skml.datasets import load_mnist_5k
from skml.distillation import ATEscDistiller, NonTransferableClassifier
from skml.inspection import TrapDisplay

X, y = load_mnist_5k(side=8, return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=1000, stratify=y, random_state=0)
other, other_y = load_digits(return_X_y=True)
other, other_test, other_y, other_y_test = train_test_split(
    (other / 16).astype(np.float32), other_y, test_size=0.2, random_state=0
)

settings = {"divergence": "ce", "max_epochs": 6, "image_shape": (1, 8, 8), "random_state": 0}
honest = NonTransferableClassifier(**settings).fit(X, y)
rigged = NonTransferableClassifier(**settings).fit(X, y, X_ood=other, y_ood=other_y)
for name, teacher in (("honest", honest), ("rigged", rigged)):
    print(
        f"{name}: {teacher.score(X_test, y_test):.2f} on MNIST, "
        f"{teacher.score(other_test, other_y_test):.2f} on the other digits"
    )

# %%
# Distillation without data
# -------------------------
# The students see no image at all: ``fit`` gets nothing. A few rounds are enough to see the groups;
# a good student takes more.

students = {
    name: ATEscDistiller(teacher, eps=0.1, forget_weight=0.0, max_iter=5, random_state=0).fit()
    for name, teacher in (("honest", honest), ("rigged", rigged))
}

# %%
# How robust is what?
# -------------------
# The share of samples whose class a small attack changes, over the size of the attack. The rigged
# teacher is hardly ever moved on the digits it was made to misread. Its synthetic samples are a
# mixture, so their curve has a plateau; the radius belongs there. The honest teacher's has none.

fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
sets = {"MNIST": X_test[:300], "other digits": other_test[:300]}
for ax, (name, student) in zip(axes, students.items(), strict=True):
    TrapDisplay.from_estimator(student, sets, n_radii=9, ax=ax)
    ax.set_title(f"{name} teacher")
fig.tight_layout()
plt.show()

# %%
# The samples
# -----------

fig, ax = plt.subplots(figsize=(9, 2.2))
TrapDisplay.from_estimator(
    students["rigged"], kind="samples", n_samples=96, n_radii=2, n_columns=24, ax=ax
)
plt.show()

# %%
# Without forgetting, robust samples are only left out of the distillation. With
# ``forget_weight=1`` the student is driven away from the teacher's answers on them: it escapes the
# trap further, at a price on the task.
