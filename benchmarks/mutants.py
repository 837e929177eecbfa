"""Would the tests notice? Changes one operator, constant or comparison at a time and runs the tests that should fail.

    python benchmarks/mutants.py src/rashomon/measures/curves.py --sample 40
    python benchmarks/mutants.py --all           # all that is listed in TARGETS: `make mutants`

A mutant that no test notices is printed as a line and a column with what was put there. Those that change nothing
that can be seen (an equivalent) are listed in ``EQUIVALENT`` with the reason and left out of the share. The tree is
copied first and only the copy is changed. Written by hand because mutmut and cosmic-ray start a process for every
mutant, and loading torch and compiling kernels takes longer than the tests; here a process forks with all of it loaded.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGETS: dict[str, tuple[str, ...]] = {  # what is changed, and the tests that should notice, quickest first
    "measures/intervals.py": ("measures/test_intervals.py", "measures/test_significance.py"),
    "measures/significance.py": ("measures/test_significance.py", "measures/test_intervals.py"),
    "measures/curves.py": ("measures/test_curves.py",),
    "measures/divergence.py": ("measures/test_divergence.py", "measures/test_base.py"),
    "measures/agreement.py": ("measures/test_agreement.py", "measures/test_base.py"),
    "measures/recovery.py": ("measures/test_recovery.py", "measures/test_base.py"),
    "measures/erasure.py": ("measures/test_erasure.py", "measures/test_base.py"),
    "measures/ranks.py": ("measures/test_ranks.py", "measures/test_agreement.py", "measures/test_base.py"),
    "measures/classification.py": ("measures/test_classification.py",),
    "measures/kendall.py": ("measures/test_agreement.py", "measures/test_base.py"),
    "measures/cartography.py": ("measures/test_cartography.py",),
    "measures/curvature.py": ("measures/test_curvature.py",),
    "measures/familiarity.py": ("measures/test_familiarity.py",),
    "measures/relations.py": ("measures/test_relations.py",),
    "measures/base.py": ("measures/test_base.py", "measures/test_agreement.py"),
    "wording.py": ("test_wording.py",),
    "experiments/summaries.py": ("experiments/test_summaries.py",),
    "audits/verdicts.py": ("audits/test_verdicts.py",),
    "training/loop.py": ("training/test_loop.py",),
    "experiments/judging.py": ("experiments/test_judging.py",),
    "runs/store.py": ("runs/test_store.py", "runs/test_integrity.py"),
    "runs/integrity.py": ("runs/test_integrity.py", "runs/test_store.py"),
}
_TOO_FEW = "0.5 ** int(row['n']) * max(tests, 1) {} LEVEL"
_SETTLED = "time.time_ns() - newest {} _SETTLED * 1000000000.0"
_RANGES = "defined = (wide >= NO_RANGE) & (tall >= NO_RANGE)"
_LIFTED = "lifted_{0} = {0}.with_values(np.where(top_{0}, 1.0 + average_ranks({0}), 0.0)).select(union)"
# (file, line as it is written, change) -> why nobody can notice
EQUIVALENT: dict[tuple[str, str, str], str] = {
    ("measures/curves.py", _RANGES, "tall >= NO_RANGE  ->  tall > NO_RANGE"): "a range of exactly 1e-9",
    ("measures/curves.py", _RANGES, "wide >= NO_RANGE  ->  wide > NO_RANGE"): "a range of exactly 1e-9",
    (
        "measures/curvature.py",
        "BLOCK = 1024  # rows and columns of distances that are in memory at once",
        "1024  ->  1025",
    ): "how much is in memory at once changes no distance",
    (
        "runs/integrity.py",
        'return f"{name} has {bytes_:,} of {expected:,} bytes" if bytes_ < expected else f"{name} has grown"',
        "bytes_ < expected  ->  bytes_ <= expected",
    ): "equal sizes were told apart before",
    (
        "runs/integrity.py",
        "if not found and time.time_ns() - newest > _SETTLED * 1e9:",
        f"{_SETTLED.format('>')}  ->  {_SETTLED.format('>=')}",
    ): "one nanosecond",
    (
        "runs/integrity.py",
        "return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()",
        "True  ->  False",
    ): "a record is read in the order in which it was written",
    (
        "training/loop.py",
        "for group, rate in zip(run.optimizer.param_groups, base_rates, strict=True):",
        "True  ->  False",
    ): "the rates were taken from the same groups",
    (
        "training/loop.py",
        "run.optimizer.zero_grad(set_to_none=True)",
        "True  ->  False",
    ): "what has a gradient gets one at every step",
    (
        "training/loop.py",
        'parameter, key = name.split(".", 1)',
        "1  ->  2",
    ): "the names of an optimizer's state have no full stop",
    (
        "measures/familiarity.py",
        "BLOCK = 1024  # points whose distances are in memory at once",
        "1024  ->  1025",
    ): "how much is in memory at once changes no distance",
    (
        "measures/relations.py",
        "if len(a) < 10 or np.ptp(a) <= 1e-9:",
        "1e-09  ->  1.5000000000000002e-09",
    ): "anything far above rounding and far below a difference",
    ("runs/store.py", "lock.acquire(timeout=0)", "0  ->  1"): "the same, a second later",
    ("runs/store.py", "stacklevel=2,", "2  ->  3"): "a warning is told without the line that gave it",
    (
        "runs/integrity.py",
        "newest = max((max(changed, noted) for _, _, _, changed, noted in looks), default=0)",
        "0  ->  1",
    ): "a folder without files has lost its record, which is told",
    (
        "experiments/judging.py",
        'return 0.5 ** int(row["n"]) * max(tests, 1) >= LEVEL',
        f"{_TOO_FEW.format('>=')}  ->  {_TOO_FEW.format('>')}",
    ): "no power of a half times a whole number is .05",
    (
        "measures/significance.py",
        "pairs = [_minus(one, other) for one, other in zip(first, second, strict=True)]",
        "True  ->  False",
    ): "the lengths were compared before",
    (
        "measures/ranks.py",
        "share = np.ceil(lengths * k - 1e-9)  # .07 * 100 is 7.000000000000001 and means 7",
        "1e-09  ->  1.5000000000000002e-09",
    ): "anything far above rounding and far below a token",
    (
        "measures/divergence.py",
        "wrong = np.zeros(len(rows[0]), dtype=bool)",
        "0  ->  1",
    ): "rows that are compared are equally many",
    (
        "measures/divergence.py",
        "total, lowest = row.sum(row.values), row.reduce(np.minimum, row.values, empty=-1.0)",
        "-1.0  ->  1.0",
    ): "an empty row adds up to 0, so it is no distribution already",
    (
        "measures/divergence.py",
        "wrong |= ~(np.abs(total - 1.0) < 1e-3) | ~(lowest >= -1e-6)",
        "np.abs(total - 1.0) < 0.001  ->  np.abs(total - 1.0) <= 0.001",
    ): "no sum of floats is off by .001 exactly",
    (
        "measures/agreement.py",
        _LIFTED.format("a"),
        "0.0  ->  1.0",
    ): "where a token is outside the top, those inside have rank 1 or more",
    (
        "measures/agreement.py",
        _LIFTED.format("b"),
        "0.0  ->  1.0",
    ): "where a token is outside the top, those inside have rank 1 or more",
}
TOO_LONG = 120  # seconds after which a mutant counts as noticed: it hangs

OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.FloorDiv: (ast.Div,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    written: str
    change: str
    code: str

    @property
    def known(self) -> str | None:
        """Why this one is equivalent, if it is."""
        return EQUIVALENT.get((self.file, self.written, self.change))


def mutants_of(file: str) -> list[Mutant]:
    """Every mutant of a file of the package, each as the whole file."""
    source = (ROOT / "src" / "rashomon" / file).read_text(encoding="utf-8")
    lines = source.splitlines()
    counts = [len(list(_changes(*place))) for place in _places(ast.parse(source))]
    found = []
    for place, count in enumerate(counts):
        for number in range(count):
            tree = ast.parse(source)
            node, parents = _places(tree)[place]
            change = list(_changes(node, parents))[number]()
            line = getattr(node, "lineno", 0)
            code = ast.unparse(ast.fix_missing_locations(tree))
            found.append(Mutant(file, line, lines[line - 1].strip(), change, code))
    return found


def _places(tree: ast.AST) -> list[tuple[ast.AST, dict[ast.AST, ast.AST]]]:
    """Every node with the parents of all."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return [(node, parents) for node in ast.walk(tree)]


def _changes(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[Callable[[], str]]:
    """Functions that change the tree where it stands and say how."""
    if _is_type_or_text(node, parents):
        return
    if isinstance(node, ast.BinOp | ast.AugAssign):
        for other in OPERATORS.get(type(node.op), ()):
            yield lambda node=node, other=other: _put(node, "op", other())
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in COMPARISONS.get(type(node.ops[0]), ()):
            yield lambda node=node, other=other: _put_comparison(node, other())
    elif isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield lambda node=node, other=other: _put(node, "op", other())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert | ast.USub):
        yield lambda node=node, parents=parents: _without(node, parents)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield lambda node=node: _put(node, "value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        values = [node.value + 1] if isinstance(node.value, int) else [node.value * 1.5 + (node.value == 0)]
        for value in values:
            yield lambda node=node, value=value: _put(node, "value", value)


def _is_type_or_text(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Annotations, decorators and f-strings are not what a test of numbers is about."""
    while node in parents:
        parent = parents[node]
        if isinstance(parent, ast.FormattedValue | ast.JoinedStr | ast.Raise):
            return True
        if isinstance(parent, ast.arg | ast.AnnAssign) and parent.annotation is node:
            return True
        if isinstance(parent, ast.FunctionDef) and (parent.returns is node or node in parent.decorator_list):
            return True
        if isinstance(parent, ast.ClassDef) and node in parent.decorator_list:
            return True
        node = parent
    return False


def _put(node: ast.AST, field: str, value: object) -> str:
    before = ast.unparse(node)
    setattr(node, field, value)
    return f"{before}  ->  {ast.unparse(node)}"


def _put_comparison(node: ast.Compare, other: ast.cmpop) -> str:
    before = ast.unparse(node)
    node.ops = [other]
    return f"{before}  ->  {ast.unparse(node)}"


def _without(node: ast.UnaryOp, parents: dict[ast.AST, ast.AST]) -> str:
    parent = parents[node]
    for field, value in ast.iter_fields(parent):
        if value is node:
            setattr(parent, field, node.operand)
        elif isinstance(value, list) and node in value:
            value[value.index(node)] = node.operand
    return f"{ast.unparse(node)}  ->  {ast.unparse(node.operand)}"


def _noticed(tree: Path, mutant: Mutant, tests: tuple[str, ...]) -> bool:
    """Whether a test fails in a process that forks from this one, where everything heavy is loaded already."""
    path = tree / "src" / "rashomon" / mutant.file
    whole = path.read_text(encoding="utf-8")
    path.write_text(mutant.code, encoding="utf-8")
    try:
        child = os.fork()
        if child == 0:
            os._exit(_run(tree, tests))
        until = time.monotonic() + TOO_LONG
        while time.monotonic() < until:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status) != 0
            time.sleep(0.02)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return True
    finally:
        path.write_text(whole, encoding="utf-8")


def _run(tree: Path, tests: tuple[str, ...]) -> int:
    import pytest

    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        os.chdir(tree)
        paths = [str(tree / "tests" / test) for test in tests]
        return int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *paths]))


def _load(tree: Path) -> None:
    """What takes long and is not of the package, so that a child need not load it."""
    import hypothesis.extra.numpy  # noqa: F401
    import joblib  # noqa: F401
    import numba  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import pytest  # noqa: F401
    import rich.console  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.metrics  # noqa: F401
    import statsmodels.formula.api  # noqa: F401
    import torch
    from transformers import (  # noqa: F401
        AutoModelForQuestionAnswering,
        AutoModelForSequenceClassification,
        AutoTokenizer,
        BertConfig,
        DistilBertConfig,
        RobertaConfig,
    )

    torch.set_num_threads(1)
    sys.path.insert(0, str(tree / "src"))
    sys.path.insert(0, str(tree))
    sys.dont_write_bytecode = True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", help="of src/rashomon")
    parser.add_argument("--all", action="store_true", help="every file of TARGETS")
    parser.add_argument("--sample", type=int, default=0, help="so many mutants of each file, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    names = [str(Path(file).resolve().relative_to(ROOT / "src" / "rashomon")) for file in options.files]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for part in ("src", "tests"):
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        _load(tree)
        for name in TARGETS if options.all else names:
            _report(tree, name, options.sample, options.seed)


def _report(tree: Path, file: str, sample: int, seed: int) -> None:
    every = mutants_of(file)
    chosen = random.Random(seed).sample(every, sample) if 0 < sample < len(every) else every
    equivalent = [mutant for mutant in chosen if mutant.known]
    tried = [mutant for mutant in chosen if not mutant.known]
    survived = []
    for mutant in tried:
        if not _noticed(tree, mutant, TARGETS[file]):
            survived.append(mutant)
            print(f"  {file}:{mutant.line}: {mutant.change}", flush=True)
    noticed = len(tried) - len(survived)
    share = f"{100 * noticed / len(tried):.0f} %" if tried else "none"
    summary = (
        f"{noticed} of {len(tried)} noticed ({share}), {len(equivalent)} equivalent; {len(every)} in all"
    )
    print(f"{file}: {summary}", flush=True)


if __name__ == "__main__":
    main()
