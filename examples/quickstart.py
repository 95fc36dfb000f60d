"""A ten-minute tour of skml: a tree that learns to do without missing values.

Run it with `make demo`, or with `python examples/quickstart.py`.

The data are real: 17 137 people in the General Social Survey were asked whether they are very
happy. Not every question was put to everybody, so nearly every row misses an answer. A model can
impute those answers and predict all the same, but then its predictions rest on values that nobody
gave. How many do is its *missingness reliance*: the share of rows whose prediction reads a missing
value. The tree below pays for reading one, so it asks elsewhere, and one parameter, `alpha`,
says how much it pays.
"""

import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # a picture in a file needs no screen

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier

from skml.datasets import load_happiness
from skml.inspection import RelianceCurveDisplay
from skml.metrics import missingness_reliance, missingness_reliance_scorer
from skml.model_selection import TradeoffRefit
from skml.tree import MADecisionTreeClassifier
from skml.utils._progress import progress

IMPUTED = "DecisionTree after imputation"
PICTURE = Path(__file__).with_suffix(".png")
ALPHAS = [0.0, 0.01, 0.03, 0.1, 0.3, 1.0]


def with_codes(*steps):
    """A pipeline that turns the string columns into codes first. A missing answer stays NaN."""
    codes = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=np.nan
    )
    encode = make_column_transformer(
        (codes, make_column_selector(dtype_include=["category", "object", "string"])),
        remainder="passthrough",
        verbose_feature_names_out=False,
    )
    names = ["impute", "model"][-len(steps) :]
    return Pipeline([("encode", encode), *zip(names, steps, strict=True)])


def missingness_avoiding_search():
    """Search over alpha and depth, as one would over any two parameters.

    The rule of the paper picks the winner: of the candidates whose AUROC is at least `gamma` times
    the best, the one with the lowest reliance. The default, 0.95, would give up half of the little
    that these answers say beyond chance (an AUROC of 0.5), hence a stricter one.
    """
    return GridSearchCV(
        with_codes(MADecisionTreeClassifier(min_samples_leaf=50, random_state=0)),
        {"model__alpha": ALPHAS, "model__max_depth": [2, 3, 4, 5]},
        scoring={"auroc": "roc_auc", "reliance": missingness_reliance_scorer},
        refit=TradeoffRefit("auroc", "reliance", gamma=0.98),
        cv=3,
    )


def plain_tree():
    return DecisionTreeClassifier(max_depth=5, min_samples_leaf=50, random_state=0)


def main():
    start = time.perf_counter()
    X, y = load_happiness(encode_strings=False, as_frame=True, return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
    complete = X_train.columns[X_train.notna().all()]

    print(f"{len(X)} people, {X.shape[1]} questions, {y.mean():.0%} are very happy")
    print(f"{X.isna().any(axis=1).mean():.1%} of the rows miss at least one answer:")
    for question, share in X.isna().mean().sort_values(ascending=False).head(5).items():
        print(f"  {question:10s} {share:6.1%} missing")
    print(f"  never missing: {', '.join(complete)}\n")

    search = missingness_avoiding_search()
    contest = {
        "HistGradientBoosting, NaN as they are": (
            with_codes(HistGradientBoostingClassifier(random_state=0)),
            list(X),
        ),
        IMPUTED: (with_codes(SimpleImputer(), plain_tree()), list(X)),
        "DecisionTree on complete columns": (with_codes(plain_tree()), list(complete)),
        "MADecisionTree (skml)": (search, list(X)),
    }
    table = []
    for name in progress(contest, desc="fitting"):
        model, columns = contest[name]
        model.fit(X_train[columns], y_train)
        auroc = roc_auc_score(y_test, model.predict_proba(X_test[columns])[:, 1])
        table.append((name, auroc, missingness_reliance(model, X_test[columns])))

    print(f"\nOn {len(X_test)} people who were held out:\n")
    print(f"{'model':40s} {'AUROC':>7s} {'reliance':>9s}")
    for name, auroc, reliance in table:
        print(f"{name:40s} {auroc:7.3f} {reliance:9.1%}")

    reliance_of = {name: reliance for name, _, reliance in table}
    print(
        f"\nImputation hides the gaps, it does not close them: {reliance_of[IMPUTED]:.0%} of the "
        "imputed tree's\npredictions rest on a value that nobody gave. Complete columns alone "
        "say little. The penalised\ntree asks for gappy answers too, but mostly those who gave "
        "them."
    )
    best = search.best_estimator_
    chosen = search.best_params_
    print(
        f"\nThe search chose alpha = {chosen['model__alpha']} and "
        f"max_depth = {chosen['model__max_depth']}. The whole tree; in brackets the share of\nthe "
        "people in each node whose path so far has read an answer that they did not give:\n"
    )
    print_tree(best)
    draw(search, table)
    print(f"\nPicture: examples/{PICTURE.name}")
    print(f"{time.perf_counter() - start:.0f} s in all. Next: docs/user_guide, or")
    print("  from skml.tree import MADecisionTreeClassifier")
    print("  MADecisionTreeClassifier(alpha=0.1).fit(X, y)    # X may hold NaN")


def print_tree(pipeline):
    """Write the tree with the words of the survey, where `export_text` would show codes."""
    encode, model = pipeline["encode"], pipeline["model"]
    names = encode.get_feature_names_out()
    encoder = encode.transformers_[0]
    words = dict(zip(encoder[2], encoder[1].categories_, strict=True))
    tree = model.tree_

    def question(feature, threshold):
        if names[feature] not in words:
            return f"{names[feature]} <= {threshold:.4g}?"
        options = words[names[feature]][: int(np.floor(threshold)) + 1]
        return f"{names[feature]} in ({', '.join(str(o) for o in options if o == o)})?"

    def write(node, indent, answer):
        share = tree.value[node, 0, 1] / tree.value[node, 0].sum()
        relied = f"[{model.node_missingness_reliance_[node]:.1%}]"
        line = f"{indent}{answer}{share:.0%} of {tree.n_node_samples[node]} very happy"
        if tree.children_left[node] < 0:
            print(f"{line} {relied}")
            return
        print(f"{line}; {question(tree.feature[node], tree.threshold[node])} {relied}")
        write(tree.children_left[node], indent + "    ", "yes: ")
        write(tree.children_right[node], indent + "    ", "no:  ")

    write(0, "", "")


def draw(search, table):
    """AUROC against reliance of all candidates, with the models above as stars."""
    figure, ax = plt.subplots(figsize=(8, 5), layout="constrained")
    RelianceCurveDisplay.from_results(
        search.cv_results_, score="auroc", param_name="model__alpha", ax=ax, error_bars=False
    )
    for name, auroc, reliance in table:
        ax.plot(reliance, auroc, "*", markersize=12, label=name)
    ax.set_title("Each point is a candidate, at its alpha; stars were scored on held-out people")
    ax.set_ylabel("AUROC")
    ax.legend(fontsize="small")
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    main()
