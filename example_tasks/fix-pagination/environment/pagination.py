"""Cut a list of results into pages. Pages are counted from 1."""


def page_count(total, per_page):
    """Number of pages that ``total`` results fill; an empty list has one (empty) page."""
    if per_page < 1:
        raise ValueError(f"per_page must be 1 or more, got {per_page}")
    return total // per_page


def page_items(items, page, per_page):
    """The results on one page; IndexError for a page that does not exist."""
    if page > page_count(len(items), per_page):
        raise IndexError(f"there is no page {page}")
    first = page * per_page
    return items[first : first + per_page]


def next_page(total, page, per_page):
    """Number of the page after ``page``, or None if it is the last."""
    if page <= page_count(total, per_page):
        return page + 1
    return None
