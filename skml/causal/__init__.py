"""Treatment effects under unobserved confounding: bounds from instruments."""

from ._balke_pearl import balke_pearl_bounds
from ._cate_bounder import CATEBounder
from ._discrete import DiscreteCATEBounder
from ._manski import manski_iv_bounds

__all__ = ["CATEBounder", "DiscreteCATEBounder", "balke_pearl_bounds", "manski_iv_bounds"]
