"""Data that lies inside installed packages (``load_*``) and generators (``make_*``)."""

from ._iv_cate import make_iv_cate
from ._iv_wooldridge import load_401ksubs, load_catholic, load_labsup
from ._mnist import add_trigger, load_mnist_5k
from ._survival import load_flchain
from ._synthetic import make_contextual_missingness
from ._time_series import load_co2, load_elnino, load_sunspots
from ._wooldridge import load_card, load_fertil2, load_happiness

__all__ = [
    "add_trigger",
    "load_401ksubs",
    "load_card",
    "load_catholic",
    "load_co2",
    "load_elnino",
    "load_fertil2",
    "load_flchain",
    "load_happiness",
    "load_labsup",
    "load_mnist_5k",
    "load_sunspots",
    "make_contextual_missingness",
    "make_iv_cate",
]
