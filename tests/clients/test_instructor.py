"""instructor, which makes instances of classes out of answers."""

import pytest

from tests.clients.environments import Seen, needs, seen_by
from tests.serve.process import ServeProcess

pytestmark = [pytest.mark.clients, pytest.mark.model, needs("instructor")]


@pytest.fixture(scope="module")
def seen(server: ServeProcess, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return seen_by("instructor", server.address, tmp_path_factory.mktemp("instructor"))


@pytest.mark.parametrize("mode", ["json_schema", "tools"])
def test_an_answer_is_an_instance_of_its_class(seen: Seen, mode: str) -> None:
    animal = seen[mode]
    assert animal["kind"] in ("dog", "cat")
    assert animal["legs"] in (2, 4)
    assert animal["owner"] in ({"city": "Lutz"}, {"city": "Nebelsbad"})


def test_a_class_without_instances_is_refused_with_the_cause(seen: Seen) -> None:
    for refusal in seen["refused"]:
        assert "400" in refusal
        assert "unsatisfiable" in refusal
