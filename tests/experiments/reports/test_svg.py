"""Figures as SVG: the same text each time, in colours of the page around, with letters and ids in their places."""

import re

import pytest
from matplotlib.figure import Figure

from experiments.reports.colours import COLOURS
from experiments.reports.svg import inline_svg, standalone_svg, with_colours


def drawn():
    figure = Figure(figsize=(2, 1))
    axes = figure.subplots()
    axes.plot([0, 1, 0.3], [0, 0.123456, 1])
    axes.plot([0, 1], [1, 0], color=COLOURS["blue"][0])
    axes.set_title("words")
    return figure


WRITERS = [standalone_svg, lambda figure: inline_svg(figure, "key", "a title", "what is seen")]


@pytest.mark.parametrize("write", WRITERS, ids=["file", "page"])
def test_the_same_figure_is_the_same_text(write):
    assert write(drawn()) == write(drawn())


def test_letters_that_are_outlines_keep_their_scale_and_coordinates_are_short():
    text = standalone_svg(drawn())
    assert "scale(0.015625)" in text
    assert not re.search(r"-?\d+\.\d{3,}", text.replace("scale(0.015625)", ""))


def test_two_figures_of_a_page_share_no_id_and_each_id_is_referred_to():
    texts = [inline_svg(drawn(), key, "a < b", "what is seen") for key in ("one", "two")]
    ids = [re.findall(r' id="([^"]+)"', text) for text in texts]
    assert not {*ids[0]} & {*ids[1]}
    for text, own in zip(texts, ids, strict=True):
        referred = {*re.findall(r'href="#([^"]+)"', text), *re.findall(r"url\(#([^)]+)\)", text)}
        assert {*own} == referred | {own[0], own[1]}
        assert "<title id=" + f'"{own[0]}">a &lt; b</title>' in text


def test_a_file_has_a_dark_colour_beside_each_light_one():
    _, light, dark = COLOURS["blue"]
    page = inline_svg(drawn(), "key", "a title", "what is seen")
    for text in (standalone_svg(drawn()), with_colours(page)):
        assert f"stroke: {light}" in text
        assert f'[style*="stroke: {light}"] {{ stroke: {dark} !important }}' in text
        assert COLOURS["blue"][0] not in text or COLOURS["blue"][0] == light
        assert "var(--" not in text
    # Of what matplotlib draws in by itself: its first line, in its own blue, becomes the dark one of the page.
    assert f'[style*="stroke: #1f77b4"] {{ stroke: {dark} !important }}' in standalone_svg(drawn())
