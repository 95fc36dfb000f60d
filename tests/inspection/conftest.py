"""Figures are drawn without a screen and closed after each test."""

import pytest
from matplotlib import pyplot

pyplot.switch_backend("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")
