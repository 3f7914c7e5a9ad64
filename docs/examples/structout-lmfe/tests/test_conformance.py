"""The checks that every backend of structout has to pass."""

import pytest
from structout.testing import Check, KnownFaultCheck, conformance_checks

from structout_lmfe import INFO


@pytest.mark.parametrize("check", conformance_checks(INFO), ids=str)
def test_conformance(check: Check | KnownFaultCheck) -> None:
    check.run()
