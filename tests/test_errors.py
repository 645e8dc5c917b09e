"""What refusals look like, whatever they quote."""

from __future__ import annotations

import pickle

import pytest

from invariscope import InputError
from invariscope.errors import LONGEST


@pytest.mark.parametrize("label", ["x" * 1_000_000, "long label " * 100_000, "\x1b]8;;" * 100_000])
def test_a_long_label_keeps_the_sentence_readable(label: str) -> None:
    message = str(InputError(f'there is no site "{label}" (env): there are Bern, {label} and Oslo'))
    assert message.startswith('there is no site "')
    assert message.endswith("and Oslo")
    assert "…" in message
    assert len(message) <= LONGEST


def test_a_long_word_keeps_its_beginning_and_its_end() -> None:
    message = str(InputError(f"folder/{'n' * 1000}.html: the name is too long; choose a shorter one"))
    assert message == f"folder/{'n' * 192}…{'n' * 94}.html: the name is too long; choose a shorter one"


def test_a_usual_message_stays_as_it_is() -> None:
    message = 'column "Größe (µm)" has 3 missing values (Bern: 3 of 20). Drop it, or pass missing="drop-rows". 東 🚲'
    assert str(InputError(message)) == message


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x1b]8;;http://a\x07link", r"\x1b]8;;http://a\x07link"),
        ("over\rwritten\nline", r"over\rwritten\nline"),
        ("\x9b2Jall", r"\x9b2Jall"),  # the same as ESC [ where terminals read eight bits
        ("a\u202eb\u2028c", r"a\u202eb\u2028c"),
        ("a\ud800b", r"a\ud800b"),
    ],
)
def test_nothing_that_a_terminal_would_obey_is_in_a_message(label: str, shown: str) -> None:
    error = InputError(f'there is no site "{label}"', environments=[label])
    assert str(error) == f'there is no site "{shown}"'
    assert error.environments == (label,)
    str(error).encode()


def test_an_error_comes_back_from_another_process() -> None:
    again = pickle.loads(pickle.dumps(InputError("one\x1b sentence")))
    assert str(again) == r"one\x1b sentence"
