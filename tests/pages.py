"""A page of HTML read by its elements, and what every page of this project keeps to."""

import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

from experiments.reports import colours

FENCED = re.compile(r"^```(python|py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)  # py: what needs packages that the tests do not
ROOT = Path(__file__).resolve().parents[1]
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Reader(HTMLParser):
    """The elements of a page with their children and their text."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.elements = [], []
        self.feed(text)
        self.close()
        assert not self.stack, "an element is left open"

    def handle_starttag(self, tag, attrs):
        element = SimpleNamespace(tag=tag, attrs=dict(attrs), text="", children=[])
        if self.stack:
            self.stack[-1].children.append(element)
        self.elements.append(element)
        if tag not in VOID:
            self.stack.append(element)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if self.stack and self.stack[-1].tag == tag:
            self.stack.pop()

    def handle_endtag(self, tag):
        assert self.stack.pop().tag == tag

    def handle_data(self, data):
        for element in self.stack:
            element.text += data

    def all(self, tag):
        return [element for element in self.elements if element.tag == tag]


def read(text, scripts=0):
    """The page, after it is checked to be whole, to load nothing, and to name its pictures."""
    page = Reader(text)
    assert page.all("html")[0].attrs["lang"] == "en"
    assert page.all("title")[0].text
    assert len(page.all("h1")) == 1
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in [meta.attrs for meta in page.all("meta")]
    _check_loads_nothing(text, page, scripts)
    ids = [element.attrs["id"] for element in page.elements if "id" in element.attrs]
    assert len(ids) == len(set(ids))
    wanted = re.findall(r"url\(#([^)]+)\)", text) + re.findall(r'href="#([^"]+)"', text)
    wanted += [name for element in page.elements for name in element.attrs.get("aria-labelledby", "").split()]
    assert set(wanted) <= set(ids)
    _check_pictures(text, page)
    return page


def _check_loads_nothing(text, page, scripts):
    assert len(page.all("script")) == scripts
    assert not re.search(r"@import|url\((?!#)", text)
    for element in page.elements:
        assert not {"src", "srcset", "data", "poster", "action", "xlink:href"} & set(element.attrs), element
        if "href" in element.attrs and element.tag != "a":
            assert element.attrs["href"].startswith(("#", "data:,")), element
    assert "http" not in re.sub(r"http://www.w3.org|http-equiv=", "", text)


def _check_pictures(text, page):
    """Each has a name, a description and a caption, the page's own colours, and letters that a phone can show."""
    assert len(page.all("figure")) == len(page.all("svg"))
    for figure in page.all("figure"):
        assert [child.text.strip() for child in figure.children if child.tag == "figcaption"] != [""]
    for svg in page.all("svg"):
        title, desc = svg.children[:2]
        assert (svg.attrs["role"], title.tag, desc.tag) == ("img", "title", "desc")
        assert title.text
        assert desc.text
        assert svg.attrs["aria-labelledby"].split() == [title.attrs["id"], desc.attrs["id"]]
    drawn = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert not re.search(r"#[0-9a-fA-F]{6}", drawn)
    assert set(re.findall(r"var\(--(\w+)\)", drawn)) <= set(colours.COLOURS)
    assert all(float(size) >= 9 for size in re.findall(r"font-size: ([\d.]+)px", drawn))
    assert "prefers-color-scheme: dark" in text


def code_of(name, start="", end="\n## "):
    """(kind, code) of the blocks of a page of docs/ between two lines: python, which all tests run, and py."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    return FENCED.findall((text.split(start)[1] if start else text).split(end)[0])
