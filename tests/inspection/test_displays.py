"""What a user may count on in every display, whatever it draws."""

import inspect
import sys

import matplotlib as mpl
import pytest

import skml.inspection
from skml.inspection import (
    CATEBoundsDisplay,
    FeatureRelianceDisplay,
    ModeDiscoveryDisplay,
    ObjectiveCurveDisplay,
    PartitionDisplay,
    PathUnionDisplay,
    QuantizationErrorDisplay,
    RelianceCurveDisplay,
    SampleDistributionDisplay,
    SpectrumDisplay,
    TimeEncodingDisplay,
    TrapDisplay,
)

DISPLAYS = [
    CATEBoundsDisplay(x=[0, 1], bounds=[[0, 1], [0, 2]]),
    FeatureRelianceDisplay(missing=[0.5, 0], reliance=[0.1, 0]),
    ModeDiscoveryDisplay(reward_calls=[2, 4], n_calls=5, threshold=1),
    ObjectiveCurveDisplay(curves=[[2, 1]]),
    PartitionDisplay([((0, 1),)], order_in=1, order_out=1),
    PathUnionDisplay(union=[0.1, 0.2], single=[0.1, 0.1]),
    QuantizationErrorDisplay(bits=[2, 3], errors=[0.2, 0.1]),
    RelianceCurveDisplay(alphas=[0, 1], scores=[1, 0.5], reliances=[1, 0]),
    SampleDistributionDisplay(probabilities=[0.5, 0.5], target=[0.4, 0.6]),
    SpectrumDisplay(eigenvalues=[2, 1], balanced_eigenvalues=[1, 1]),
    TimeEncodingDisplay(times=[0, 1], encoding=[[0], [1]], omega=[1], omega_init=[2]),
    TrapDisplay(samples=[[0], [1]], fragile=[True, False], eps=[0.1], shares={"data": [0.5]}),
]


@pytest.fixture(params=DISPLAYS, ids=lambda display: type(display).__name__)
def display(request):
    return request.param


def constructors(cls):
    return [value for name, value in inspect.getmembers(cls) if name.startswith("from_")]


def test_every_display_is_here():
    assert [type(display).__name__ for display in DISPLAYS] == sorted(skml.inspection.__all__)


def test_plot_opens_axes_and_returns_the_display(display):
    assert display.plot() is display
    first = display.ax_
    assert first.figure is display.figure_
    assert first.has_data()
    display.plot()
    assert display.ax_ is not first


def test_plot_draws_on_given_axes(display):
    figure, (ax, other) = mpl.pyplot.subplots(2)
    display.plot(ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert not other.has_data()
    assert mpl.pyplot.get_fignums() == [figure.number]


def test_plot_passes_keywords_to_matplotlib(display):
    colour = mpl.colors.to_rgba("#123456")
    display.plot(color="#123456")
    used = set()
    for artist in display.ax_.get_children():
        for name in ("get_color", "get_facecolor"):
            if hasattr(artist, name):
                used |= {tuple(row) for row in mpl.colors.to_rgba_array(getattr(artist, name)())}
    assert colour[:3] in {shade[:3] for shade in used}


def test_without_matplotlib_plot_names_the_command(display, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    needed = f"{type(display).__name__}.plot needs matplotlib.*pip install 'skml\\[plot\\]'"
    with pytest.raises(ImportError, match=needed):
        display.plot()


def test_signatures_are_of_one_kind(display):
    cls = type(display)
    first, *others = list(inspect.signature(cls.plot).parameters.values())[1:]
    assert (first.name, first.default) == ("ax", None)
    *named, rest = others
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in named)
    assert rest.kind is rest.VAR_KEYWORD
    assert constructors(cls)
    for make in constructors(cls):
        *_, ax, rest = inspect.signature(make).parameters.values()
        assert (ax.name, ax.default, ax.kind) == ("ax", None, ax.KEYWORD_ONLY)
        assert (rest.name, rest.kind) == ("plot_params", rest.VAR_KEYWORD)
