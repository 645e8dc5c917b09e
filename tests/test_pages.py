"""The pages: links lead somewhere, tests that are cited exist, and the README stays short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_that_are_cited_exist(page: Path) -> None:
    cited, path = [], ""
    for file, name in re.findall(r"((?:\w+/)*test_\w+\.py)?(?:::(test_\w+))?", page.read_text(encoding="utf-8")):
        path = file or path  # `::test_two` is in the file that was named last
        cited += [(path, name)] if file or name else []
    files = {path: ROOT / "tests" / path.removeprefix("tests/") for path, _ in cited}
    assert [path for path, file in files.items() if not file.is_file()] == []
    texts = {path: file.read_text(encoding="utf-8") for path, file in files.items()}
    assert [f"{path}::{name}" for path, name in cited if name and f"def {name}(" not in texts[path]] == []


def test_the_readme_is_short_and_explains_its_words_before_it_uses_them() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 130
    first_number = next(number for number, line in enumerate(lines) if "NOT INVARIANT. " in line)
    assert any("The **regret**" in line for line in lines[:first_number])
