"""What does a finding look like in a notebook? Question, verdict, summary, figures and warnings, all of it inert.

No scripts and no requests; everything that comes from a text, a model or a study is escaped by jinja2. The style
sheet is nested below the fragment's own class, so that nothing else in the notebook changes.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import pandas as pd
from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from rashomon.drawing.charts import draw, figure_css
from rashomon.drawing.scales import colour_css
from rashomon.drawing.tables import cells_of, figure_first
from rashomon.experiments.figures import Figure

MOST_ROWS = 20  # of the summary; the finding's own table has all


def finding_html(
    question: str,
    verdict: str,
    summary: pd.DataFrame | None,
    figures: Sequence[Figure] = (),
    warnings: Sequence[str] = (),
) -> str:
    """One finding as a fragment of a page."""
    name = (
        f"ra-{zlib.crc32(f'{question}{verdict}'.encode('utf-8', 'replace')):08x}"  # for ids in the drawings
    )
    return _TEMPLATES.get_template("finding").render(
        question=question,
        verdict=verdict,
        table=None if summary is None else cells_of(figure_first(summary), MOST_ROWS),
        figures=[draw(figure, f"{name}-{number}") for number, figure in enumerate(figures)],
        warnings=warnings,
        css=Markup(f".rashomon-finding{{{_CSS}\n{colour_css('&')}\n{figure_css()}}}"),
    )


_CSS = """color-scheme:light dark;color:var(--ink);background:var(--paper);padding:.5rem 1rem;
font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere;
& table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums;margin:.4rem 0 1rem}
& th,& td{text-align:start;padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--rule);background:none}
& .num{text-align:end}& .question{font-style:italic;color:var(--quiet);margin:0}
& .verdict{font-size:1.05rem;margin:.2rem 0 .8rem}& figure{margin:0 0 1.2rem;max-width:50rem}
& figcaption{font-weight:600}& .quiet{color:var(--quiet);font-weight:400;font-size:.9rem}
& .scroll{overflow-x:auto}& .warnings li{color:var(--ink)}"""

_FINDING = """<style>{{ css }}</style>
<div class="rashomon-finding">
<p class="question">{{ question }}</p>
<p class="verdict"><strong>{{ verdict }}</strong></p>
{% if table %}
<div class="scroll"><table>
<thead><tr>{% for column in table.columns %}
<th scope="col"{% if table.numeric[loop.index0] %} class="num"{% endif %}>{{ column }}</th>{% endfor %}
</tr></thead>
<tbody>
{% for row in table.rows %}
<tr>{% for value in row %}
<td{% if table.numeric[loop.index0] %} class="num"{% endif %} dir="auto">{{ value }}</td>{% endfor %}
</tr>
{% endfor %}
</tbody></table></div>
{% if table.left_out %}<p class="quiet">… and {{ "{:,}".format(table.left_out) }} more rows.</p>{% endif %}
{% endif %}
{% for figure in figures %}
<figure class="{{ "chart map" if figure.kind == "map" else figure.kind }}">
<figcaption>{{ figure.title }}{% if figure.caption %} <span class="quiet">{{ figure.caption }}</span>{% endif %}
</figcaption>
{% if figure.kind == "matrix" %}
{% for layer in figure.layers[:1] %}
<div class="scroll"><table class="cells">
<caption class="quiet">{{ layer.measure }}, from {{ layer.span[0] }} to {{ layer.span[1] }}</caption>
<thead><tr><td></td>{% for column in figure.columns %}<th scope="col">{{ column }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row, cells in layer.rows %}
<tr><th scope="row">{{ row }}</th>{% for cell in cells %}
<td class="{{ cell.shade }}" title="{{ cell.detail }}">{{ cell.text }}</td>{% endfor %}
</tr>
{% endfor %}
</tbody></table></div>
{% endfor %}
{% else %}
{% for _, drawing in figure.drawings[:1] %}{{ drawing }}{% else %}
<p class="quiet">No value of this figure is defined.</p>{% endfor %}
{% if figure.legend and not figure.direct %}
<ul class="key">{% for swatch, name in figure.legend %}<li>{{ swatch }} {{ name }}</li>{% endfor %}</ul>
{% endif %}
{% endif %}
</figure>
{% endfor %}
{% if warnings %}<ul class="warnings">{% for warning in warnings %}<li>{{ warning }}</li>{% endfor %}</ul>{% endif %}
</div>
"""

_TEMPLATES = Environment(
    loader=DictLoader({"finding": _FINDING}),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
