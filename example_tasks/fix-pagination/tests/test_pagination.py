"""What the docstrings of /app/pagination.py promise."""

import importlib.util

import pytest

# Loaded by its path, so that the agent's folder never gets onto the module path.
spec = importlib.util.spec_from_file_location("pagination", "/app/pagination.py")
pagination = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pagination)

LETTERS = list("abcdefghij")


@pytest.mark.parametrize(
    ("total", "per_page", "pages"), [(10, 5, 2), (11, 5, 3), (4, 5, 1), (1, 1, 1), (0, 5, 1)]
)
def test_page_count_includes_a_page_begun(total, per_page, pages):
    assert pagination.page_count(total, per_page) == pages


def test_page_count_refuses_pages_without_room():
    with pytest.raises(ValueError, match="per_page"):
        pagination.page_count(3, 0)


def test_first_page_begins_with_the_first_result():
    assert pagination.page_items(LETTERS, 1, 4) == ["a", "b", "c", "d"]


def test_last_page_holds_what_is_left():
    assert pagination.page_items(LETTERS, 3, 4) == ["i", "j"]


@pytest.mark.parametrize("per_page", [1, 2, 3, 7, 10, 50])
def test_all_pages_together_are_the_list(per_page):
    pages = range(1, pagination.page_count(len(LETTERS), per_page) + 1)
    shown = [item for page in pages for item in pagination.page_items(LETTERS, page, per_page)]
    assert shown == LETTERS


def test_an_empty_list_has_one_empty_page():
    assert pagination.page_items([], 1, 5) == []


@pytest.mark.parametrize("page", [-1, 0, 4])
def test_a_page_that_does_not_exist_is_an_error(page):
    with pytest.raises(IndexError):
        pagination.page_items(LETTERS, page, 4)


@pytest.mark.parametrize(
    ("total", "page", "expected"),
    [(10, 1, 2), (10, 2, None), (11, 2, 3), (11, 3, None), (0, 1, None)],
)
def test_next_page_ends_with_the_last(total, page, expected):
    assert pagination.next_page(total, page, 5) == expected
