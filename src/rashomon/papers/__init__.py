"""What the papers published and concluded, to be set beside what is measured here."""

from rashomon.papers.beside import claims_input, with_published
from rashomon.papers.claims import decide, decide_all
from rashomon.papers.plan import plan_of
from rashomon.papers.published import Claim, Paper, PublishedFigure, Table, figures_frame
from rashomon.papers.reading import load, papers

__all__ = [
    "Claim",
    "Paper",
    "PublishedFigure",
    "Table",
    "claims_input",
    "decide",
    "decide_all",
    "figures_frame",
    "load",
    "papers",
    "plan_of",
    "with_published",
]
