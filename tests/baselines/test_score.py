import jax.numpy as jnp
import numpy as np

from bellman_diffusion.baselines import ScoreModel


def test_score_model_learns_the_score_of_a_gaussian():
    """In standard units ∇log p_σ(x) = −x/(1 + σ²); and Langevin keeps mean and spread."""
    data = np.random.default_rng(0).normal([2.0, -1.0], [0.5, 3.0], (5000, 2))
    model = ScoreModel(sigma=0.5, max_iter=1000, width=32, depth=2, step_size=0.02).fit(data)
    x = jnp.array([[0.5, -1.0], [1.0, 0.3]])
    score = np.stack([model.field_.gradient(row) for row in x])
    np.testing.assert_allclose(score, -x / 1.25, atol=0.12)
    for start in ("uniform", "normal"):
        samples = model.sample(3000, start=start).x
        np.testing.assert_allclose(samples.mean(axis=0), [2.0, -1.0], atol=0.25)
        np.testing.assert_allclose(samples.std(axis=0), 1.25**0.5 * np.array([0.5, 3.0]), rtol=0.1)
