"""Text comes token by token, and is the text of all tokens together."""

from hypothesis import given
from hypothesis import strategies as st

from engine_adapter.embedded.detokenize import Detokenizer

# Any bytes, and characters cut anywhere: most random bytes are not UTF-8, and most cuts are not inside a character.
PIECES = st.lists(st.binary(max_size=4)) | st.builds(
    lambda text, cuts: [text.encode()[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)],
    st.text(st.characters(codec="utf-8")),
    st.lists(st.integers(0, 40)).map(sorted),
)


@given(PIECES)
def test_pieces_together_are_the_text_of_all_bytes(pieces: list[bytes]) -> None:
    detokenizer = Detokenizer(pieces.__getitem__)
    text = "".join(map(detokenizer.push, range(len(pieces)))) + detokenizer.finish()
    assert text == b"".join(pieces).decode("utf-8", errors="replace")


@given(st.text(st.characters(codec="utf-8")))
def test_a_character_comes_with_its_last_byte_and_not_before(text: str) -> None:
    data = text.encode()
    detokenizer = Detokenizer(lambda token: data[token : token + 1])
    for end in range(len(data)):
        piece = detokenizer.push(end)
        complete = data[: end + 1].decode("utf-8", errors="ignore")
        assert piece == complete[len(data[:end].decode("utf-8", errors="ignore")) :]
    assert detokenizer.finish() == ""


def test_an_unfinished_character_ends_as_a_replacement() -> None:
    detokenizer = Detokenizer([b"a", "€".encode()[:2], b""].__getitem__)
    assert [detokenizer.push(0), detokenizer.push(1), detokenizer.push(2)] == ["a", "", ""]
    assert detokenizer.finish() == "�"
