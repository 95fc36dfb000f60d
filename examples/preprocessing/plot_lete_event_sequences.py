"""
=================================================
Learnt time in a recurrent network: digits as ink
=================================================

A digit of 8 x 8 pixels becomes a list of events: the positions, in reading order, of its dark
pixels. A recurrent network sees one event after the other, and all that it is told about an event
is its time. How well it reads the digits therefore shows how well time is encoded.

:class:`~skml.preprocessing.LeTEEncoding` is an ordinary torch layer, so the network is trained as a
whole, here by skorch.
"""

# %%
# Events
# ------

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from skorch import NeuralNetClassifier
from torch import nn

from skml.preprocessing import LeTEEncoding

X, y = load_digits(return_X_y=True)
events = [torch.from_numpy(np.flatnonzero(row > 8)).float() for row in X]
lengths = torch.tensor([len(times) for times in events])
times = nn.utils.rnn.pad_sequence(events, batch_first=True)
print(f"{len(times)} digits with {lengths.float().mean():.1f} events on average")
print("the first one:", events[0].int().tolist())

# %%
# A network
# ---------
# The number of events of each digit travels in front of its times, so that skorch sees one array.


class EventClassifier(nn.Module):
    def __init__(self, encoding, n_components):
        super().__init__()
        self.encoding = encoding
        self.lstm = nn.LSTM(n_components, 48, batch_first=True)
        self.head = nn.Linear(48, 10)

    def forward(self, data):
        lengths = data[:, 0].long()
        states, _ = self.lstm(self.encoding(data[:, 1 : 1 + lengths.max()]))
        return self.head(states[torch.arange(len(data)), lengths - 1])


class RawTime(nn.Module):
    def forward(self, t):
        return t.unsqueeze(-1) / 63


data = torch.cat([lengths.unsqueeze(1).float(), times], dim=1).numpy()
train, test = train_test_split(np.arange(len(y)), stratify=y, random_state=0)
curves = {}
for name, make, n_components in [("time as a number", RawTime, 1), ("LeTE", LeTEEncoding, 16)]:
    torch.manual_seed(0)
    encoding = make() if make is RawTime else make(n_components)
    net = NeuralNetClassifier(
        EventClassifier(encoding, n_components),
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=4e-3,
        batch_size=128,
        max_epochs=8,
        verbose=0,
    )
    net.fit(data[train], y[train])
    curves[name] = net.history[:, "valid_acc"]
    print(f"{name}: test accuracy {net.score(data[test], y[test]):.2f}")

# %%
# With time as a bare number the network hardly starts; the learnt encoding tells positions apart.

fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for name, accuracy in curves.items():
    axes[0].plot(range(1, len(accuracy) + 1), accuracy, marker="o", label=name)
axes[0].set(xlabel="Epoch", ylabel="Validation accuracy")
axes[0].legend()
with torch.no_grad():
    encoded = encoding(torch.arange(64.0))
axes[1].imshow(encoded.T, aspect="auto", cmap="coolwarm")
axes[1].set(xlabel="Time (pixel)", ylabel="Component of LeTE", title="Trained encoding")
plt.show()
