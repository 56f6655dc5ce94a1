"""Every method has a page, and the page says what the code says."""

import importlib.util
import re
from pathlib import Path

import pytest

from fedapp.methods import METHODS

DOCS = Path(__file__).parents[2] / "docs"
SPEC = importlib.util.spec_from_file_location("settings", DOCS / "settings.py")
settings = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(settings)


@pytest.mark.parametrize("method", METHODS)
def test_the_page_of_a_method_has_the_settings_of_the_code(method: str):
    page = (DOCS / "methods" / f"{method}.md").read_text("utf-8")
    assert page == settings.with_settings(page, method), "run: python docs/settings.py"


def test_every_page_is_of_a_method_and_linked_from_the_overview():
    pages = {file.stem for file in (DOCS / "methods").glob("*.md")}
    overview = (DOCS / "methods.md").read_text("utf-8")
    linked = re.findall(r"\(methods/([\w-]+)\.md\)", overview)
    assert pages == set(METHODS) == set(linked)


def test_links_between_documents_lead_somewhere():
    root = DOCS.parent
    files = [*root.glob("*.md"), *DOCS.rglob("*.md"), *root.glob("experiments/**/*.md")]
    broken = [
        (file.relative_to(root).as_posix(), link)
        for file in files
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", file.read_text("utf-8"))
        if not (file.parent / link).exists()
    ]
    assert broken == []
