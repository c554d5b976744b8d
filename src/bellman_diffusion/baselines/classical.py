"""Classical models of a table: kernel density, Gaussian mixture, interpolation between neighbours.

Each has `fit(X)` and `sample(n_samples, random_state)`; settings are chosen on the training rows alone.
"""

import numpy as np
from jaxtyping import Float
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KernelDensity, NearestNeighbors
from sklearn.preprocessing import StandardScaler


class KernelModel:
    """A Gaussian on every training row, of the width with the best cross-validated likelihood."""

    def __init__(self, n_widths: int = 8, n_folds: int = 5) -> None:
        self.n_widths = n_widths
        self.n_folds = n_folds

    def fit(self, X: Float[np.ndarray, "n dim"]) -> "KernelModel":
        """Choose the width and keep the rows."""
        self.scaler_ = StandardScaler().fit(X)
        z = np.asarray(self.scaler_.transform(X))
        # Widths far apart first, then as many between the neighbours of the best.
        widths = np.geomspace(0.01, 1.0, self.n_widths)
        best = int(np.argmin(np.abs(widths - self._search(z, widths))))
        low, high = widths[max(best - 1, 0)], widths[min(best + 1, self.n_widths - 1)]
        self.width_ = self._search(z, np.geomspace(low, high, self.n_widths))
        self.density_ = KernelDensity(bandwidth=self.width_).fit(z)
        return self

    def _search(self, z: Float[np.ndarray, "n dim"], widths: Float[np.ndarray, " widths"]) -> float:
        folds = KFold(self.n_folds, shuffle=True, random_state=0)
        search = GridSearchCV(KernelDensity(), {"bandwidth": widths}, cv=folds, refit=False)
        return float(search.fit(z).best_params_["bandwidth"])

    def sample(self, n_samples: int, random_state: int = 0) -> Float[np.ndarray, "n dim"]:
        """Rows with noise."""
        return self.scaler_.inverse_transform(self.density_.sample(n_samples, random_state))


class MixtureModel:
    """A mixture of Gaussians with as many parts as BIC asks for."""

    def __init__(self, counts: tuple[int, ...] = (1, 2, 4, 8, 12, 16, 24, 32)) -> None:
        self.counts = counts

    def fit(self, X: Float[np.ndarray, "n dim"]) -> "MixtureModel":
        """The best count of parts and their shapes."""
        self.scaler_ = StandardScaler().fit(X)
        z = self.scaler_.transform(X)
        models = [
            GaussianMixture(k, reg_covar=1e-4, random_state=0).fit(z)
            for k in self.counts
            if k <= len(z) // 2
        ]
        best = min(models, key=lambda model: model.bic(z))
        # From other starts too, now that the count is known.
        again = GaussianMixture(best.n_components, reg_covar=1e-4, n_init=2, random_state=1).fit(z)
        self.mixture_ = min(best, again, key=lambda model: model.bic(z))
        return self

    def sample(self, n_samples: int, random_state: int = 0) -> Float[np.ndarray, "n dim"]:
        """Draws of the mixture."""
        self.mixture_.set_params(random_state=random_state)
        z, _ = self.mixture_.sample(n_samples)
        # Parts come one after the other.
        return self.scaler_.inverse_transform(np.random.default_rng(random_state).permutation(z))


class InterpolationModel:
    """Points between a training row and one of its nearest neighbours, as SMOTE has it."""

    def __init__(self, n_neighbours: int = 5) -> None:
        self.n_neighbours = n_neighbours

    def fit(self, X: Float[np.ndarray, "n dim"]) -> "InterpolationModel":
        """Find the neighbours."""
        z = StandardScaler().fit_transform(X)
        n = min(self.n_neighbours, len(z) - 1)
        search = NearestNeighbors(n_neighbors=n + 1).fit(z)
        self.rows_ = np.asarray(X, float)
        self.neighbours_ = search.kneighbors(z, return_distance=False)[:, 1:]
        return self

    def sample(self, n_samples: int, random_state: int = 0) -> Float[np.ndarray, "n dim"]:
        """Random rows, moved a random part of the way to a random neighbour."""
        rng = np.random.default_rng(random_state)
        start = rng.integers(len(self.rows_), size=n_samples)
        choice = rng.integers(self.neighbours_.shape[1], size=n_samples)
        other = self.neighbours_[start, choice]
        way = rng.uniform(size=(n_samples, 1))
        return self.rows_[start] + way * (self.rows_[other] - self.rows_[start])
