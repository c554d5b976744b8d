"""The five UCI tables of Section 5.2.

The paper gives the dimensions after "imputation and feature selection" (7, 16, 5, 15, 10) and neither
the columns nor the rule. Ours:

- Abalone: the seven measurements; sex and rings are left out.
- Telemonitoring: the sixteen voice measures; who, when and the scores are left out.
- Mushroom: of 22 attributes the five with the highest entropy, none of which misses a value.
- Parkinsons, Red Wine: of the most correlated pair of columns, drop the one that is more correlated
  with all others, until 15 and 10 are left (`least_correlated` is that rule).
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from bellman_diffusion.data.fetch import PublicFile, find_file

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"


class PaperFigures(NamedTuple):
    """A row of the paper's Table 1: Wasserstein distance and MMD in thousandths."""

    ddpm_w: float
    ddpm_mmd: float
    bellman_w: float
    bellman_mmd: float


class UciTable(NamedTuple):
    """A table, how to read it, and what of it the paper's dimensions mean to us."""

    title: str
    file: PublicFile
    separator: str
    names: tuple[str, ...] | None
    """Columns, where the file has no header."""
    missing: str | None
    """How the file writes a missing value."""
    paper_columns: tuple[str, ...]
    paper: PaperFigures
    group: str | None = None
    """The column that says which rows belong together."""
    dropped: tuple[str, ...] = ()
    """Columns that are names of rows and no data."""

    def read(self) -> pd.DataFrame:
        """The whole table, as it was published."""
        frame = pd.read_csv(
            find_file(self.file),
            sep=self.separator,
            header=None if self.names else 0,
            names=list(self.names) if self.names else None,
            na_values=[self.missing] if self.missing else None,
            keep_default_na=False,
        )
        return frame.drop(columns=list(self.dropped))

    def read_paper_columns(self) -> pd.DataFrame:
        """The columns that make up the paper's dimensions."""
        return self.read().loc[:, list(self.paper_columns)]


def least_correlated(frame: pd.DataFrame, n_columns: int) -> list[str]:
    """Drop, of the most correlated pair, what is more correlated with all others, until n are left."""
    names = list(frame.columns)
    while len(names) > n_columns:
        r = np.abs(np.corrcoef(frame[names].to_numpy(float).T))
        np.fill_diagonal(r, 0)
        pair = np.unravel_index(r.argmax(), r.shape)
        worse = max(pair, key=lambda i: r[i].sum())
        names.pop(int(worse))
    return names


def highest_entropy(frame: pd.DataFrame, n_columns: int) -> list[str]:
    """The columns with the highest entropy, in the table's order."""

    def entropy(name: str) -> float:
        shares = frame[name].value_counts(normalize=True).to_numpy()
        return float(-(shares * np.log(shares)).sum())

    chosen = sorted(frame.columns, key=entropy, reverse=True)[:n_columns]
    return [name for name in frame.columns if name in chosen]


TABLES: dict[str, UciTable] = {
    "abalone": UciTable(
        title="Abalone",
        file=PublicFile(
            "abalone.data",
            "de37cdcdcaaa50c309d514f248f7c2302a5f1f88c168905eba23fe2fbc78449f",
            _UCI + "abalone/abalone.data",
        ),
        separator=",",
        names=(
            "Sex",
            "Length",
            "Diameter",
            "Height",
            "Whole weight",
            "Shucked weight",
            "Viscera weight",
            "Shell weight",
            "Rings",
        ),
        missing=None,
        paper_columns=(
            "Length",
            "Diameter",
            "Height",
            "Whole weight",
            "Shucked weight",
            "Viscera weight",
            "Shell weight",
        ),
        paper=PaperFigures(0.975, 5.72, 0.763, 5.15),
    ),
    "telemonitoring": UciTable(
        title="Telemonitoring",
        file=PublicFile(
            "parkinsons_updrs.data",
            "f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39",
            _UCI + "parkinsons/telemonitoring/parkinsons_updrs.data",
        ),
        separator=",",
        names=None,
        missing=None,
        paper_columns=(
            "Jitter(%)",
            "Jitter(Abs)",
            "Jitter:RAP",
            "Jitter:PPQ5",
            "Jitter:DDP",
            "Shimmer",
            "Shimmer(dB)",
            "Shimmer:APQ3",
            "Shimmer:APQ5",
            "Shimmer:APQ11",
            "Shimmer:DDA",
            "NHR",
            "HNR",
            "RPDE",
            "DFA",
            "PPE",
        ),
        paper=PaperFigures(2.167, 10.15, 2.061, 9.76),
        group="subject#",
    ),
    "mushroom": UciTable(
        title="Mushroom",
        file=PublicFile(
            "agaricus-lepiota.data",
            "e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e",
            _UCI + "mushroom/agaricus-lepiota.data",
        ),
        separator=",",
        names=(
            "class",
            "cap-shape",
            "cap-surface",
            "cap-color",
            "bruises",
            "odor",
            "gill-attachment",
            "gill-spacing",
            "gill-size",
            "gill-color",
            "stalk-shape",
            "stalk-root",
            "stalk-surface-above-ring",
            "stalk-surface-below-ring",
            "stalk-color-above-ring",
            "stalk-color-below-ring",
            "veil-type",
            "veil-color",
            "ring-number",
            "ring-type",
            "spore-print-color",
            "population",
            "habitat",
        ),
        missing="?",
        paper_columns=("cap-color", "odor", "gill-color", "spore-print-color", "habitat"),
        paper=PaperFigures(1.732, 4.29, 1.871, 5.12),
    ),
    "parkinsons": UciTable(
        title="Parkinsons",
        file=PublicFile(
            "parkinsons.data",
            "a36116c2deac07895b79ce97a2f99a1b3720ac4892995ff5c3b9ccb397ed2bc5",
            _UCI + "parkinsons/parkinsons.data",
        ),
        separator=",",
        names=None,
        missing=None,
        paper_columns=(
            "MDVP:Fo(Hz)",
            "MDVP:Fhi(Hz)",
            "MDVP:Flo(Hz)",
            "MDVP:Jitter(Abs)",
            "MDVP:PPQ",
            "Jitter:DDP",
            "Shimmer:APQ3",
            "MDVP:APQ",
            "NHR",
            "HNR",
            "RPDE",
            "DFA",
            "spread1",
            "spread2",
            "D2",
        ),
        paper=PaperFigures(0.862, 3.51, 0.995, 3.46),
        dropped=("name",),
    ),
    "wine": UciTable(
        title="Red Wine",
        file=PublicFile(
            "winequality-red.csv",
            "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
            _UCI + "wine-quality/winequality-red.csv",
        ),
        separator=";",
        names=None,
        missing=None,
        paper_columns=(
            "volatile acidity",
            "citric acid",
            "residual sugar",
            "chlorides",
            "free sulfur dioxide",
            "total sulfur dioxide",
            "density",
            "pH",
            "sulphates",
            "alcohol",
        ),
        paper=PaperFigures(1.151, 3.83, 1.096, 3.91),
    ),
}
