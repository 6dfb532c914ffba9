"""A section of the page: its words, its charts, and the bounds that it judges."""

import dataclasses

from words import unmeasured


@dataclasses.dataclass(frozen=True)
class Section:
    title: str
    text: str
    charts: tuple = ()
    bounds: tuple = ()
    is_measured: bool = True


def not_measured(name, title):
    """A section without figures of file @name."""
    return Section(title, unmeasured(name), is_measured=False)


def made_of(name, title, make):
    """A section of one file's figures; @make is not called where they are missing."""
    return lambda data: make(title, data[name]) if name in data else not_measured(name, title)


def paragraphs(*parts):
    return "\n\n".join(part for part in parts if part)


def bounds_of(rows):
    """Those that stand in the rows, each with its row's title."""
    return tuple({"title": row["title"]} | bound for row in rows for bound in row.get("bounds", []))
