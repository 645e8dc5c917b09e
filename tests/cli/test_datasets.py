"""`invariscope datasets`: list, fetch and describe, with and without files at hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from invariscope.cli import datasets as command
from invariscope.cli import main
from invariscope.datasets import fetch, sources
from invariscope.datasets.catalogue import entries
from invariscope.datasets.entry import Entry, Published
from invariscope.reading.dataset import Dataset


def datasets(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["datasets", *arguments], catch_exceptions=False)


@pytest.fixture
def nothing_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No data folder, an empty cache, and nothing to download from."""

    def unreachable(*arguments: object) -> None:
        raise sources.DataUnavailable("no network")

    monkeypatch.delenv("INVARISCOPE_DATA", raising=False)
    monkeypatch.setattr(fetch, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(fetch, "_download", unreachable)


@pytest.fixture
def data_at_hand(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVARISCOPE_DATA", str(data_dir))


@pytest.mark.usefixtures("nothing_at_hand")
def test_list_names_everything_and_says_what_is_missing() -> None:
    done = datasets("list")
    assert (done.exit_code, done.stderr) == (0, "")
    for name, entry in entries().items():
        line = re.search(rf"^{name} .*$", done.stdout, re.MULTILINE)
        assert line is not None, name
        assert ("to fetch" in line[0]) == any(file.sources for file in entry.files)
    assert re.search(r"^adult .* to fetch, 6\.0 MB *$", done.stdout, re.MULTILINE)
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.usefixtures("data_at_hand")
def test_list_says_what_is_there() -> None:
    assert re.search(r"^adult .* in your folder *$", datasets("list").stdout, re.MULTILINE)


@pytest.mark.usefixtures("data_at_hand")
def test_fetch_prints_where_the_files_are(data_file: Callable[[str], Path]) -> None:
    path = data_file("adult/adult.data")
    done = datasets("fetch", "adult", "linear_sem")
    assert done.exit_code == 0
    assert done.stdout == f"adult: {path}\nadult: {path.with_name('adult.test')}\nlinear_sem: needs no file\n"


@pytest.mark.usefixtures("nothing_at_hand")
def test_fetch_without_network_says_how_to_get_the_file() -> None:
    done = datasets("fetch", "law_school")
    assert done.exit_code == 2
    assert done.stderr.startswith("DataUnavailable: law_school/lawschool.csv could not be found or downloaded")
    assert "INVARISCOPE_DATA" in done.stderr
    several = datasets("fetch", "heart_disease").stderr
    assert several.startswith("DataUnavailable: heart_disease/processed.cleveland.data could not be found")
    others = ", ".join(f"heart_disease/processed.{name}.data" for name in ("hungarian", "switzerland", "va"))
    assert several.endswith(f"\nMissing as well, and to be had in the same way: {others}\n")
    assert "pacs(root=...)" in datasets("fetch", "pacs").stderr


def test_a_wrong_folder_is_said_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVARISCOPE_DATA", "/no/such/folder")
    for arguments in (("list",), ("describe", "adult")):
        done = datasets(*arguments)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith("InputError: INVARISCOPE_DATA names /no/such/folder, which is not a folder")


@pytest.mark.usefixtures("nothing_at_hand")
def test_pipes_are_as_wide_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    assert max(map(len, datasets("list").stdout.splitlines())) <= 70


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fetch",), "InputError: name one data set or more, or say --all"),
        (("fetch", "--all", "adult"), "InputError: name one data set or more, or say --all"),
        (("fetch", "adlut"), 'InputError: there is no data set "adlut": did you mean adult?'),
        (("describe", "adlut"), 'InputError: there is no data set "adlut": did you mean adult?'),
    ],
)
def test_mistakes_are_answered_with_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    done = datasets(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("data_at_hand")
def test_describe_shows_published_numbers_beside_ours(data_file: Callable[[str], Path]) -> None:
    data_file("heart_disease/processed.va.data")
    done = datasets("describe", "heart_disease")
    assert (done.exit_code, done.stderr) == (0, "")
    assert re.search(r"^ +Cleveland +303 *$", done.stdout, re.MULTILINE)
    assert re.search(r"^ +rows in Cleveland +303 +303 ", done.stdout, re.MULTILINE)
    assert "differs" not in done.stdout
    for heading in ("Rows", "Published, and here", "Choices made where the paper is silent", "Files", "Reference"):
        assert f"\n{heading}\n" in done.stdout


@pytest.mark.usefixtures("nothing_at_hand")
def test_describe_needs_neither_files_nor_network() -> None:
    done = datasets("describe", "adult")
    assert done.exit_code == 0
    assert "Not on this machine. To get them: invariscope datasets fetch adult" in done.stdout
    made_up = datasets("describe", "linear_sem")
    assert made_up.exit_code == 0
    assert "Known truth" in made_up.stdout


def test_fetch_all_asks_for_every_file_that_can_be_fetched_and_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_hand(files: list[fetch.DataFile]) -> list[fetch.Found]:
        return [fetch.Found(Path(file.path)) for file in files]

    monkeypatch.setattr(command, "locate_all", at_hand)
    done = datasets("fetch", "--all")
    wanted = [(name, file) for name, entry in entries().items() for file in entry.files]
    assert done.stdout.splitlines() == [f"{name}: {file.path}" for name, file in wanted if file.sources]
    assert {name for name, file in wanted if not file.sources} != set()


def made_up(parts: list[str] | None) -> Dataset:
    env = np.repeat([f"site {k:02}" for k in range(22)], [1500, *range(1, 22)])
    part = None if parts is None else np.resize(parts, len(env))
    return Dataset(
        X=np.zeros((len(env), 1)), y=np.arange(len(env)) % 2, env=env, columns=("x",), description="rows", part=part
    )


def test_environments_are_listed_with_their_rows_and_the_last_of_many_are_counted() -> None:
    titles, rows = command._environments(made_up(None))
    assert titles == ("environment", "rows")
    assert rows[0] == ("site 00", "1,500")
    assert rows[19:] == [("site 19", "19"), ("... and 2 more", "")]
    titles, rows = command._environments(made_up(["train", "test", "test"]))
    assert titles == ("environment", "rows", "train", "test")
    assert rows[0] == ("site 00", "1,500", "500", "1,000")
    assert rows[-1] == ("... and 2 more", "", "", "")


def test_what_was_published_stands_before_what_is_here() -> None:
    def loaded(half: bool = False) -> Dataset:
        return made_up(None).rows(np.arange(865)) if half else made_up(None)

    numbers = (
        Published("rows", 1731, "table 1"),
        Published("rows", 866, "table 2", {"half": True}),
        Published("share of 0", 0.52, "page 3"),
    )
    titles, rows = command._comparison(Entry(loaded, "table", "made up", published=numbers), made_up(None))
    assert titles == ("", "published", "here", "", "where")
    assert rows == [
        ("rows", "1,731", "1,731", "", "table 1"),
        ("rows (half=True)", "866", "865", "differs", "table 2"),
        ("share of 0", "0.5200", "0.5003", "differs", "page 3"),
    ]


@pytest.mark.parametrize(
    ("size", "words"), [(1, "1 kB"), (18_400, "18 kB"), (99_999, "100 kB"), (100_000, "0.1 MB"), (5_971_000, "6.0 MB")]
)
def test_sizes_of_files(size: int, words: str) -> None:
    assert command._size(size) == words


def test_options_are_shown_with_their_defaults_but_for_long_ones() -> None:
    def loaded(seed: int = 0, environments: str = "gender", values: tuple[int, ...] = tuple(range(50))) -> Dataset:
        raise NotImplementedError

    assert command._options(Entry(loaded, "table", "made up")) == "(seed=0, environments='gender', values=...)"
