"""Shared set-up of the tests."""

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
# Worker processes unpickle what tests/SUB/_inputs_PAGE.py define, as `tests.SUB._inputs_PAGE`.
if str(_ROOT) not in sys.path:
    sys.path.append(str(_ROOT))
