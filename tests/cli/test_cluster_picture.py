"""The pictures of ``warpwise cluster``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

image = pytest.importorskip("PIL.Image")

from warpwise.cli import cluster_picture as picture

AXES = ("y", "x")


def test_pictures_of_positions_keep_their_aspect() -> None:
    coords = np.random.default_rng(0).uniform((0, 0), (100, 10), (3000, 2))
    coords[0] = 1e4, 0
    area = picture.area_of_points(coords[:, ::-1], AXES)
    height, width = area.shape
    assert width > 5 * height, "one point far away does not set the scale"


@pytest.mark.parametrize(
    "places",
    [
        np.zeros((1, 2)),
        np.full((50, 2), 7e9),
        np.stack([np.zeros(40), np.arange(40)], 1) * 1e-8,
        np.random.default_rng(0).uniform(-3e120, 1e120, (100, 2)),
        np.random.default_rng(0).uniform(1e6, 1e6 + 1, (100, 2)),
        np.random.default_rng(0).normal(size=(100_000, 2)),
    ],
    ids=["one", "equal", "line", "huge", "far", "many"],
)
def test_any_positions_are_drawn_inside_the_picture(places: np.ndarray, tmp_path: Path) -> None:
    area = picture.area_of_points(places, AXES)
    assert (area.pixels >= area.radius).all() and (area.pixels + area.radius < area.shape).all()
    assert max(area.shape) < picture.SIDE + 4 * picture.LARGEST
    colours = picture.palette(3)[np.arange(len(places)) % 3]
    picture.save(tmp_path / "points.png", area, colours, "Title", "heading", [("0", colours[0])])
    with image.open(tmp_path / "points.png") as drawn:
        assert (np.asarray(drawn) == colours[0]).all(-1).sum() > picture.TEXT**2 / 2


def test_a_grid_is_drawn_in_squares(tmp_path: Path) -> None:
    places = np.argwhere(np.ones((4, 5), bool)) + 10
    area = picture.area_of_grid(places, ("row", "column"))
    side = picture.SIDE // 5
    colours = picture.palette(20)
    picture.save(tmp_path / "grid.png", area, colours, "Title", "heading", [])
    with image.open(tmp_path / "grid.png") as drawn:
        pixels = np.asarray(drawn)[picture.TOP :, picture.LEFT :]
    assert np.array_equal(pixels[side // 2 : 4 * side : side, side // 2 : 5 * side : side].reshape(-1, 3), colours)


@pytest.mark.parametrize("count", [1, 2, 8, 9, 30, 100])
def test_domains_have_colours_of_their_own(count: int) -> None:
    assert len(np.unique(picture.palette(count), axis=0)) == count


def test_ticks_are_round_numbers() -> None:
    assert [picture._step(length, 0) for length in (0.7, 1, 3, 40, 0.02)] == [1, 1, 5, 50, 0.02]
    assert picture._multiples(50, 3, 200) == [50, 100, 150, 200]
    assert picture._number(1234.5, 0.5) == "1234.5" and picture._number(20000, 1e4) == "20000"
