"""How are heatmaps laid out as HTML? The style sheet and the templates of pages and notebooks."""

from __future__ import annotations

CSS = """
.rashomon{color-scheme:light dark;color:rgb(var(--ra-ink));background:rgb(var(--ra-paper));
 font:1rem/1.6 system-ui,sans-serif;overflow-wrap:anywhere}
.rashomon h2{font-size:1.1rem;margin:2rem 0 .2rem}
.rashomon table{border-collapse:collapse;width:100%;margin:.6rem 0}
.rashomon th,.rashomon td{text-align:start;vertical-align:top;padding:.5rem .8rem .5rem 0;
 border-top:1px solid rgb(var(--ra-ink)/.2);background:none;white-space:normal;overflow-wrap:normal}
.rashomon th{font-weight:600;width:11rem}.rashomon thead th:nth-child(2){width:auto}
.rashomon thead th{font-weight:400;font-size:.85rem;border:0;padding-block:0}
.rashomon .note,.rashomon .which{display:block;font-weight:400;font-size:.85rem}
.rashomon .text{white-space:pre-wrap;overflow-wrap:anywhere;margin:0 0 .3rem;max-width:70ch}
.rashomon mark{color:inherit;background:none;padding:.1em 0}
.rashomon mark.top{font-weight:700;text-decoration:underline solid 2px;text-underline-offset:.2em}
.rashomon mark.top.against{text-decoration-style:dotted}
.rashomon mark.unread{opacity:.7;text-decoration:line-through}
.rashomon .strongest{list-style:none;margin:0;padding:0;font-size:.9rem;font-variant-numeric:tabular-nums;
 overflow-wrap:anywhere;min-width:8rem}
.rashomon .warnings{border-inline-start:4px solid rgb(var(--ra-for));margin:.4rem 0;padding:0 0 0 1.6rem}
@media (max-width:42rem){
 .rashomon table,.rashomon tbody,.rashomon tr,.rashomon th,.rashomon td{display:block;width:auto}
 .rashomon thead{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}
 .rashomon td{border:0;padding-top:0}.rashomon .strongest li{display:inline-block;margin-inline-end:1rem}}
"""

# Table roles are spelled out because a table shown as blocks on a phone loses them in some browsers.
BODY = """
<p class="legend">Orange <mark class="for top for-8">speaks for</mark> the explained class or answer, blue
<mark class="against top against-8">speaks against</mark> it; the strongest are bold, underlined with a line
(for) or dots (against). Colours are scaled for each method on its own; a method without
signs has only orange.
{% if cut %}<mark class="unread">Struck out</mark> is what did not fit into the model.{% endif %}
</p>
{% for section in sections %}
<section aria-label="Example {{ section.id }}">
<h2>Example {{ section.id }}</h2>
<p class="said">{{ section.said }}</p>
<table role="table">
<thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">Method</th>
<th role="columnheader" scope="col">Text</th><th role="columnheader" scope="col">Strongest</th></tr></thead>
<tbody role="rowgroup">
{% for row in section.rows %}
<tr role="row"><th role="rowheader" scope="row">{{ row.method }}
{%- for note in row.notes %}<span class="note">{{ note }}</span>{% endfor %}</th>
<td role="cell">{% for label, text in row.texts %}
{% if label %}<span class="which">{{ label }}</span>{% endif %}
<p class="text" dir="auto">{{ text }}</p>{% endfor %}</td>
<td role="cell"><ul class="strongest">{% for token, score in row.strongest %}
<li><bdi>{{ token }}</bdi> {{ score }}</li>{% else %}<li>nothing speaks for or against</li>{% endfor %}</ul>
</td></tr>
{% endfor %}
</tbody></table>
{% if section.warnings %}<ul class="warnings" aria-label="Warnings">
{% for warning, methods in section.warnings %}
<li><strong>{{ methods | join(", ") }}:</strong> {{ warning }}</li>{% endfor %}</ul>{% endif %}
</section>
{% else %}<p>No explanations.</p>{% endfor %}
"""

FRAGMENT = """<style>{{ css | safe }}</style>
<div class="rashomon" style="padding:.5rem 1rem">{% include "body" %}</div>
"""

PAGE = """<!doctype html>
<html lang="en" class="rashomon">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>{{ title }}</title>
<style>{{ css | safe }}
body{margin:0 auto;max-width:72rem;padding:1rem 1.2rem 4rem}</style>
</head>
<body>
<main>
<h1>{{ title }}</h1>
{% if methods %}<p>{{ sections | length }} example{{ "s" if sections | length != 1 }},
explained by {{ methods | join(", ") }}.</p>{% endif %}
{% include "body" %}
</main>
</body>
</html>
"""
