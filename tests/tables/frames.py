"""Tables for tests."""

import numpy as np
import pandas as pd


def passengers(n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Every kind of column, values missing by a rule, and columns that depend on each other."""
    rng = np.random.default_rng(seed)
    pclass = rng.choice([1, 2, 3], n, p=[0.25, 0.2, 0.55])
    sex = rng.choice(["female", "male"], n, p=[0.35, 0.65])
    age = np.round(rng.gamma(6, 5, n), 1)
    age[rng.uniform(size=n) < np.where(pclass == 3, 0.35, 0.1)] = np.nan
    embarked = pd.Series(rng.choice(["S", "C", "Q"], n, p=[0.7, 0.2, 0.1]))
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    return pd.DataFrame(
        {
            "Pclass": pclass,
            "Sex": sex,
            "Age": age,
            "Fare": np.round(np.exp(rng.normal(3.5 - 0.6 * pclass, 0.7, n)), 4),
            "Survived": rng.uniform(size=n) < np.where(sex == "female", 0.75, 0.2),
            "Embarked": embarked.where(rng.uniform(size=n) > 0.05),
            "Siblings": rng.poisson(0.5, n),
            "Day": pd.Series(day).dt.strftime("%d/%m/%Y"),
            "Ship": "Titanic",
        }
    )
