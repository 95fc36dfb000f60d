"""
======================================
Learnt time in a transformer forecast
======================================

In a forecasting transformer the encoding of the timestamps is added to the embeddings of the
values. Here the temperature of the sea off Peru is forecast twelve months ahead from the last
twenty-four, by a small transformer that is trained three times: without any time, with a fixed
encoding of the position in the window, and with :class:`~skml.preprocessing.LeTEEncoding` of the
date itself.
"""

# %%
# Windows
# -------

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from skml.datasets import load_elnino
from skml.inspection import TimeEncodingDisplay
from skml.preprocessing import LeTEEncoding, LeTETimeEncoder

PAST, AHEAD = 24, 12
dates, values = load_elnino(return_X_y=True)
months = torch.arange(len(values), dtype=torch.float64)
n_train = 560
mean, spread = values[:n_train].mean(), values[:n_train].std()
series = torch.from_numpy((values - mean) / spread).float()


def windows(first, last):
    starts = torch.arange(first, last - PAST - AHEAD + 1)
    rows = starts.unsqueeze(1) + torch.arange(PAST + AHEAD)
    return series[rows[:, :PAST]], months[rows], series[rows[:, PAST:]]


train, test = windows(0, n_train), windows(n_train - PAST, len(values))

# %%
# A transformer with a place for time
# -----------------------------------
# Tokens of the future carry no value, only their time. Months modulo a year are what repeats: the
# encoding sees the month of the year, so that dates after the training years are nothing new.


class Forecaster(nn.Module):
    def __init__(self, encoding, d_model=32):
        super().__init__()
        self.encoding = encoding
        self.embed = nn.Linear(2, d_model)
        layer = nn.TransformerEncoderLayer(d_model, 4, 64, dropout=0.0, batch_first=True)
        self.transformer = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(d_model, 1)

    def forward(self, past, months):
        future = past.new_zeros(len(past), AHEAD)
        is_past = torch.cat([torch.ones_like(past), torch.zeros_like(future)], dim=1)
        tokens = torch.stack([torch.cat([past, future], dim=1), is_past], dim=-1)
        tokens = self.embed(tokens) + self.encoding(months)
        return self.head(self.transformer(tokens))[:, PAST:, 0]


class NoTime(nn.Module):
    def forward(self, months):
        return 0.0


class Position(nn.Module):
    """Sines and cosines of the position in the window."""

    def forward(self, months):
        position = (months - months[:, :1]).float().unsqueeze(-1)
        angles = position * 100.0 ** -torch.linspace(0, 1, 16)
        return torch.cat([angles.sin(), angles.cos()], dim=-1)


class MonthOfYear(LeTEEncoding):
    def forward(self, months):
        return super().forward(months % 12)


def fit(encoding, n_epochs=12):
    model = Forecaster(encoding)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    past, when, ahead = train
    for _ in range(n_epochs):
        for rows in torch.randperm(len(past)).split(64):
            optimizer.zero_grad()
            (model(past[rows], when[rows]) - ahead[rows]).square().mean().backward()
            optimizer.step()
    return model


encodings = {
    "no time": NoTime,
    "position": Position,
    "LeTE of the month": lambda: MonthOfYear(
        32, omega_range=(4.0, 1.0), time_origin=6.0, time_unit=6.0
    ),
}
forecasts = {}
past, when, ahead = test
for name, make in encodings.items():
    torch.manual_seed(0)
    model = fit(make())
    with torch.no_grad():
        forecasts[name] = model(past, when)
    error = (forecasts[name] - ahead).abs().mean().item() * spread
    print(f"{name}: mean absolute error {error:.2f} °C")
last_year = (past[:, -12:] - ahead).abs().mean().item() * spread
print(f"the same month of last year: {last_year:.2f} °C")

# %%
# Without time the tokens of the future are all alike, and get one forecast. The position in the
# window serves about as well as the month of the date: two years of past values show the season by
# themselves. The encoding of dates pays where the past does not show what is due.

fig, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
start = 60
calendar = dates.ravel()[n_train - PAST + start :][: PAST + AHEAD]
truth = torch.cat([past[start], ahead[start]]).numpy() * spread + mean
ax.plot(calendar, truth, color="black", label="measured")
for name, values_ahead in forecasts.items():
    ax.plot(calendar[PAST:], values_ahead[start] * spread + mean, marker=".", label=name)
ax.set_ylabel("Sea surface temperature (°C)")
ax.legend()
plt.show()

# %%
# What the transformer has learnt to look at
# ------------------------------------------
# As a transformer of scikit-learn the same functions can be fitted to the series itself, and
# looked at: the learnt functions, and how far the frequencies have moved.

encoder = LeTETimeEncoder(8, max_iter=300, random_state=0).fit(dates, values)
fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
TimeEncodingDisplay.from_estimator(encoder, ax=axes[0])
TimeEncodingDisplay.from_estimator(encoder, kind="frequencies", ax=axes[1])
year = 2 * np.pi / (365.2425 * 86400)
axes[1].axhline(year, color="grey", linewidth=0.8)
axes[1].text(encoder.omega_init_.min(), year, "one turn a year", va="bottom", fontsize="small")
plt.show()
