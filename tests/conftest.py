"""Shared set-up of the tests."""

import sys
from pathlib import Path

import hypothesis

_ROOT = Path(__file__).resolve().parents[1]
# Worker processes unpickle what tests/SUB/_inputs_PAGE.py define, as `tests.SUB._inputs_PAGE`; the
# programs in tools/ and our Sphinx extensions are tested as well, and are no packages.
for _folder in (_ROOT, _ROOT / "tools", _ROOT / "docs" / "_ext"):
    if str(_folder) not in sys.path:
        sys.path.append(str(_folder))

# Made-up input is the same in every run: a failure is one that everybody can see again.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")
