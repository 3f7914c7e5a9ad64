"""The checks that every backend of structout has to pass."""

import pytest

testing = pytest.importorskip("structout.testing")
