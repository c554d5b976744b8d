"""Convolutions as products against XLA's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.images.convolution import Convolution, Doubling, padded_to_four


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (4, 2)])
def test_a_convolution_is_xlas(kernel, stride):
    layer = Convolution(2, 5, jax.random.key(0), kernel=kernel, stride=stride)
    image = jax.random.normal(jax.random.key(1), (8, 12, 2))
    weight = layer.linear.weight.reshape(5, kernel, kernel, 2)
    expected = jax.lax.conv_general_dilated(
        image[None],
        weight,
        (stride, stride),
        [(1, 1), (1, 1)],
        dimension_numbers=("NHWC", "OHWI", "NHWC"),
    )[0]
    np.testing.assert_allclose(layer(image), expected + layer.linear.bias, atol=1e-5)


def test_doubling_deals_channels_out_to_four_pixels():
    layer = Doubling(2, 3, jax.random.key(0))
    image = jax.random.normal(jax.random.key(1), (4, 5, 2))
    small, large = layer.convolution(image), layer(image)
    assert large.shape == (8, 10, 3)
    np.testing.assert_array_equal(large[2, 4], small[1, 2, :3])
    np.testing.assert_array_equal(large[2, 5], small[1, 2, 3:6])
    np.testing.assert_array_equal(large[3, 4], small[1, 2, 6:9])


def test_padding_keeps_the_image_in_its_corner():
    image = jnp.arange(2 * 9 * 9, dtype=jnp.float32).reshape(2, 9, 9)
    padded = padded_to_four(image)
    assert padded.shape == (12, 12, 2)
    np.testing.assert_array_equal(padded[:9, :9, 1], image[1])
    assert not np.any(padded[9:])
