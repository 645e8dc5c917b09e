"""What is shown while something takes long: a bar with bytes on a terminal, nothing in a pipe."""

from __future__ import annotations

import io

import pytest
import rich.console

from invariscope.progress import counting, receiving, reporting


def test_nothing_is_shown_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for wanted in (True, False):
        with receiving(wanted) as show:
            show("downloading a.zip", 50, 100)
    assert capsys.readouterr() == ("", "")


def last_frame(monkeypatch: pytest.MonkeyPatch, *steps: tuple[str, int, int]) -> str:
    screen = io.StringIO()
    terminal = rich.console.Console(file=screen, force_terminal=True, width=120, color_system=None)
    monkeypatch.setattr(rich.console, "Console", lambda stderr: terminal)
    with receiving(True) as show:
        for step in steps:
            show(*step)
    return [line for line in screen.getvalue().split("\r") if "downloading" in line][-1]


def test_bytes_are_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "downloading [a].zip"  # brackets are no markup
    frame = last_frame(monkeypatch, (name, 0, 0), (name, 2_500_000, 10_000_000))
    assert name in frame
    assert "2.5 of 10.0 MB" in frame


def test_bytes_of_nobody_knows_how_many_are_shown_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = last_frame(monkeypatch, ("downloading a.zip", 2_500_000, 0))
    assert "2.5 MB" in frame
    assert " of " not in frame


@pytest.mark.parametrize(("arrived", "long"), [(2, 10), (8, 40)])
def test_a_bar_is_as_long_as_what_has_arrived(arrived: int, long: int, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = last_frame(monkeypatch, ("downloading a.zip", arrived, 8))
    assert frame.count("━") == long


def test_what_a_terminal_would_obey_is_shown_as_an_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = last_frame(monkeypatch, ("downloading a\x1b]0;title\x07.zip", 5, 10))
    assert r"downloading a\x1b]0;title\x07.zip" in frame


def test_words_are_shown_as_they_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = rich.console.Console(file=screen, force_terminal=True, width=120, color_system=None)
    monkeypatch.setattr(rich.console, "Console", lambda stderr: terminal)
    with reporting(True) as say:
        say("reading a\x1b]0;title\x07.csv")
        terminal.file.flush()
    assert "\x1b]0;" not in screen.getvalue()
    assert r"reading a\x1b]0;title\x07.csv" in screen.getvalue()


def test_one_thing_is_shown_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = last_frame(monkeypatch, ("downloading a.zip", 5, 10), ("downloading the package b 1.0", 0, 0))
    assert "downloading the package b 1.0" in frame
    assert "a.zip" not in frame
    assert "MB" not in frame


def test_steps_are_counted_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = rich.console.Console(file=screen, force_terminal=True, width=120, color_system=None)
    monkeypatch.setattr(rich.console, "Console", lambda stderr: terminal)
    with counting(True) as show:
        show("training", 1500, 20_000)
    assert "1,500 of 20,000" in screen.getvalue()
