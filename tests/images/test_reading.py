"""Images from folders, IDX and NPZ files; what cannot be read is refused in words."""

import gzip
import struct

import numpy as np
import pytest
from PIL import Image

from bellman_diffusion.data.idx import read_idx
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.images.reading import read_images


@pytest.fixture
def grey():
    return np.random.default_rng(0).integers(0, 256, (24, 12, 12), dtype=np.uint8)


def idx(array):
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return header + array.tobytes()


def test_idx_files_with_labels(tmp_path, grey):
    (tmp_path / "images").write_bytes(gzip.compress(idx(grey)))
    labels = np.arange(24, dtype=np.uint8) % 3 + 4
    (tmp_path / "labels").write_bytes(idx(labels))
    found = read_images(tmp_path / "images", tmp_path / "labels")
    np.testing.assert_array_equal(found.images[:, 0], grey)
    assert found.names == ["4", "5", "6"]
    np.testing.assert_array_equal(found.labels, np.arange(24) % 3)


def test_a_folder_a_class(tmp_path, grey):
    for k, image in enumerate(grey):
        folder = tmp_path / ("cats" if k % 2 else "birds")
        folder.mkdir(exist_ok=True)
        Image.fromarray(image).save(folder / f"{k:02}.png")
    found = read_images(tmp_path)
    assert found.names == ["birds", "cats"]
    np.testing.assert_array_equal(found.images[:12, 0], grey[::2])
    assert found.labels.tolist() == [0] * 12 + [1] * 12


def test_folders_without_images_are_no_classes(tmp_path, grey):
    (tmp_path / ".cache").mkdir()
    for k, image in enumerate(grey):
        Image.fromarray(image).save(tmp_path / f"{k:02}.png")
    found = read_images(tmp_path)
    assert (found.labels, found.names) == (None, [])
    (tmp_path / "cats").mkdir()
    Image.fromarray(grey[0]).save(tmp_path / "cats" / "a.png")
    with pytest.raises(InvalidInputError, match="next to them"):
        read_images(tmp_path)


def test_sixteen_bits_a_value_keep_their_shades(tmp_path, grey):
    for k, image in enumerate(grey):
        Image.fromarray(image.astype(np.uint16) * 257).save(tmp_path / f"{k:02}.png")
    np.testing.assert_array_equal(read_images(tmp_path).images[:, 0], grey)


@pytest.mark.parametrize("kind", [bool, np.uint8, int, float])
def test_zeros_and_ones_are_black_and_white(tmp_path, grey, kind):
    np.savez(tmp_path / "a.npz", images=(grey > 100).astype(kind))
    np.testing.assert_array_equal(read_images(tmp_path / "a.npz").images[:, 0], 255 * (grey > 100))


def test_one_coloured_image_makes_all_coloured(tmp_path, grey):
    for k, image in enumerate(grey):
        picture = Image.fromarray(image)
        (picture.convert("RGB") if k == 3 else picture).save(tmp_path / f"{k:02}.png")
    found = read_images(tmp_path)
    assert found.images.shape == (24, 3, 12, 12)
    assert found.labels is None


@pytest.mark.parametrize("scale", [1, 255])
def test_npz_files_with_colours_last_and_numbers_in_either_range(tmp_path, grey, scale):
    colour = np.stack([grey] * 3, axis=3)
    np.savez(tmp_path / "a.npz", x_train=colour / 255 * scale, y_train=np.arange(24) % 2)
    found = read_images(tmp_path / "a.npz")
    np.testing.assert_array_equal(found.images, np.moveaxis(colour, 3, 1))
    assert found.names == ["0", "1"]


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros((24, 12, 10), np.uint8), "squares"),
        (np.zeros((24, 80, 80), np.uint8), "side of 80"),
        (np.zeros((24, 4, 4), np.uint8), "side of 4"),
        (np.zeros((5, 12, 12), np.uint8), "at least 20"),
        (np.zeros((24, 12), np.uint8), "shape"),
        (np.full((24, 12, 12), 300.0), "values from 300"),
        (np.full((24, 12, 12), np.nan), "not finite"),
        (np.full((24, 12, 12), "a"), "not finite numbers"),
    ],
)
def test_arrays_that_are_no_small_square_images(tmp_path, array, reason):
    np.savez(tmp_path / "a.npz", images=array)
    with pytest.raises(InvalidInputError, match=reason):
        read_images(tmp_path / "a.npz")


def test_files_that_are_something_else(tmp_path, grey):
    with pytest.raises(InvalidInputError, match="no folder or file"):
        read_images(tmp_path / "nothing")
    with pytest.raises(InvalidInputError, match="no images"):
        read_images(tmp_path)
    np.savez(tmp_path / "a.npz", other=grey)
    with pytest.raises(InvalidInputError, match="it has other"):
        read_images(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(b"no zip")
    with pytest.raises(InvalidInputError, match="cannot read"):
        read_images(tmp_path / "b.npz")
    np.save(tmp_path / "e.npy", grey)
    (tmp_path / "e.npy").rename(tmp_path / "e.npz")
    with pytest.raises(InvalidInputError, match="cannot read"):
        read_images(tmp_path / "e.npz")
    (tmp_path / "c.png").write_bytes(b"no picture")
    with pytest.raises(InvalidInputError, match="as an image"):
        read_images(tmp_path)
    np.savez(tmp_path / "d.npz", images=grey, labels=np.arange(3))
    with pytest.raises(InvalidInputError, match="24 images"):
        read_images(tmp_path / "d.npz")


def test_images_of_two_sizes(tmp_path, grey):
    Image.fromarray(grey[0]).save(tmp_path / "a.png")
    Image.fromarray(grey[0, :8, :8]).save(tmp_path / "b.png")
    with pytest.raises(InvalidInputError, match="one size"):
        read_images(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "two zero bytes"),
        (b"hello world", "two zero bytes"),
        (b"\0\0\x0d\1" + b"\0" * 8, "kind 13"),
        (b"\0\0\x08\1\0\0\0\x09\1", "cut off"),
        (b"\0\0\x08\3\0\0", "cut off"),
        (b"\x1f\x8bbroken", "cannot read"),
    ],
)
def test_idx_files_that_are_damaged(tmp_path, content, reason):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(InvalidInputError, match=reason):
        read_idx(tmp_path / "a")


def test_what_a_system_hides_next_to_images_is_no_image(tmp_path, grey):
    for k, image in enumerate(grey):
        Image.fromarray(image).save(tmp_path / f"{k:02}.png")
    (tmp_path / ".thumbnails").mkdir()
    Image.fromarray(grey[0]).save(tmp_path / ".thumbnails" / "0.png")
    (tmp_path / "._00.png").write_bytes(b"not an image")
    found = read_images(tmp_path)
    assert len(found.images) == len(grey)
    assert found.labels is None
