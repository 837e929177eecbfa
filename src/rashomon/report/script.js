"use strict";
(() => {
  const PAGE = window.innerWidth < 600 ? 5 : 10; // examples shown at a time
  const get = (id) => document.getElementById(id);

  // Everything from the data becomes a text node here; there is no other way onto the page.
  const make = (tag, { text, ...attributes } = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    node.append(...children);
    return node;
  };

  // ---- theme

  const themes = ["system", "light", "dark"];
  const theme = get("theme");
  theme.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? "system";
    const next = themes[(themes.indexOf(now) + 1) % themes.length];
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    theme.querySelector("span").textContent = next;
  });

  // ---- contents

  const contents = document.querySelector(".toc details");
  const roomy = window.matchMedia("(min-width: 75rem)");
  const fold = () => { contents.open = roomy.matches; };
  fold();
  roomy.addEventListener("change", fold);
  contents.addEventListener("click", (event) => {
    if (event.target.closest("a") && !roomy.matches) contents.open = false;
  });
  const links = new Map([...document.querySelectorAll(".toc a")].map((a) => [a.hash.slice(1), a]));
  const marked = [...links.keys()].map(get).filter(Boolean);
  const markCurrent = () => {
    const edge = window.innerHeight / 3;
    const passed = marked.filter((section) => section.getBoundingClientRect().top < edge);
    const current = passed.at(-1) ?? marked[0];
    for (const [id, link] of links) {
      if (current && id === current.id) link.setAttribute("aria-current", "location");
      else link.removeAttribute("aria-current");
    }
  };
  let waiting = false;
  window.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; markCurrent(); });
  }, { passive: true });
  markCurrent();

  // ---- matrices

  const arrows = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  for (const figure of document.querySelectorAll(".matrix")) {
    const readout = figure.querySelector(".readout");
    figure.addEventListener("change", (event) => {
      for (const layer of figure.querySelectorAll(".layer")) layer.hidden = layer.id !== event.target.value;
      readout.textContent = "";
    });
    const show = (event) => {
      const cell = event.target.closest("tbody td");
      if (cell) readout.textContent = cell.title;
    };
    figure.addEventListener("pointerover", show);
    figure.addEventListener("focusin", show);
    figure.addEventListener("keydown", (event) => {
      const cell = event.target.closest("tbody td");
      if (!cell || !arrows[event.key]) return;
      event.preventDefault();
      const [down, right] = arrows[event.key];
      const body = cell.closest("tbody");
      const next = body.rows[cell.parentNode.sectionRowIndex + down]?.cells[cell.cellIndex + right];
      if (!next || next.tagName !== "TD") return;
      cell.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
    figure.addEventListener("click", (event) => event.target.closest("tbody td")?.focus());
  }

  // ---- maps of texts

  let openExample = () => false; // the examples, if there are any, say how
  for (const figure of document.querySelectorAll(".map")) {
    const points = [...figure.querySelectorAll(".points circle")];
    const readout = figure.querySelector(".readout");
    if (!points.length) continue;
    const scales = figure.querySelectorAll(".scale");
    figure.addEventListener("change", (event) => {
      for (const point of points) point.setAttribute("class", point.dataset.shades.split(" ")[event.target.value]);
      scales.forEach((scale, index) => { scale.hidden = String(index) !== event.target.value; });
    });
    const show = (event) => {
      const point = event.target.closest(".points circle");
      if (point) readout.textContent = point.querySelector("title").textContent;
    };
    figure.addEventListener("pointerover", show);
    figure.addEventListener("focusin", show);
    figure.addEventListener("click", (event) => {
      const point = event.target.closest(".points circle");
      if (point) openExample(point.dataset.id);
    });
    figure.addEventListener("keydown", (event) => {
      const place = points.indexOf(event.target);
      if (place < 0) return;
      if (event.key === "Enter") openExample(event.target.dataset.id);
      const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      const next = step && points[place + step];
      if (!next) return;
      event.preventDefault();
      event.target.setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
  }

  // ---- copying the command

  const copy = get("copy");
  if (copy && navigator.clipboard) {
    copy.addEventListener("click", async () => {
      const command = document.querySelector(".command code").textContent;
      copy.textContent = await navigator.clipboard.writeText(command).then(() => "Copied", () => "Not allowed");
    });
  } else if (copy) {
    copy.hidden = true;
  }

  // ---- examples

  const list = get("list");
  if (!list) return;
  const data = JSON.parse(get("data").textContent);
  data.examples.forEach((example, index) => {
    example.index = index;
    example.sought = [...example.texts, example.id, example.gold ?? ""].join("\n").toLocaleLowerCase();
  });

  const number = (value) => value.toFixed(2).replace(/^(-?)0\./, "$1.").replace("-", "−");

  const heatOf = (letter) => {
    if (letter === ".") return "";
    if (letter === "~") return "unread";
    const upper = letter < "a";
    return `${upper ? "for" : "against"}-${letter.charCodeAt(0) - (upper ? 64 : 96)}`;
  };

  const paint = (example, row, segment) => {
    const line = make("p", { class: "text", dir: "auto" });
    const [lengths, evidence] = example.cuts[row.cut][segment];
    const inside = new Set(evidence);
    const tops = new Set(row.top?.[segment]);
    let start = 0;
    lengths.forEach((length, index) => {
      const text = example.texts[segment].slice(start, start + length);
      const heat = heatOf(row.heat[segment][index]);
      start += length;
      const names = [heat];
      if (tops.has(index)) names.push("top");
      if (tops.has(index) && heat.startsWith("against")) names.push("against");
      if (inside.has(index)) names.push("rationale");
      const wanted = names.filter(Boolean).join(" ");
      line.append(wanted ? make("mark", { class: wanted, text }) : text);
    });
    return line;
  };

  const reading = (example, row) => {
    const name = make("th", { scope: "row", role: "rowheader", text: data.methods[row.method] });
    for (const note of row.notes ?? []) name.append(make("span", { class: "note", text: note }));
    const cell = make("td", { role: "cell" });
    example.texts.forEach((_, segment) => {
      if (example.texts.length > 1) {
        cell.append(make("span", { class: "which", text: segment ? "Second text" : "First text" }));
      }
      cell.append(paint(example, row, segment));
    });
    const strongest = make("ul", { class: "strongest", "aria-label": "Strongest" });
    for (const [token, score] of row.strongest ?? []) {
      strongest.append(make("li", {}, make("bdi", { text: token }), ` ${score}`));
    }
    if (!row.strongest) strongest.append(make("li", { text: "nothing speaks for or against" }));
    cell.append(strongest);
    for (const warning of row.warnings ?? []) {
      cell.append(make("span", { class: "note", text: `Warning: ${data.warnings[warning]}` }));
    }
    return make("tr", { role: "row" }, name, cell);
  };

  const fact = (label, value, after = "") => make("li", {}, `${label} `, make("strong", { text: value }), after);

  const card = (example, methods) => {
    const facts = make("ul", { class: "meta" }, make("li", {}, make("strong", { text: example.said })));
    if (example.gold !== null) {
      facts.append(fact("Gold label", example.gold, example.right === false ? " (the prediction is wrong)" : ""));
    }
    const agreement = example.agreement === null ? "undefined" : number(example.agreement);
    facts.append(fact("Mean agreement", agreement), fact("Tokens", String(example.tokens)));
    const body = make("tbody", { role: "rowgroup" });
    for (const row of example.rows) if (methods.has(row.method)) body.append(reading(example, row));
    const table = make("table", { class: "readings", role: "table", "aria-label": `Readings of ${example.id}` }, body);
    const heading = make("h3", { text: `Example ${example.id}` });
    const article = make("article", { class: "example", "aria-label": `Example ${example.id}` }, heading, facts);
    if (body.rows.length) article.append(table);
    else article.append(make("p", { class: "quiet", text: "None of the chosen methods explained it." }));
    return article;
  };

  // An undefined agreement comes last, whichever way the rest is sorted.
  const byAgreement = (sign) => (a, b) =>
    (a.agreement === null) - (b.agreement === null) || sign * (a.agreement - b.agreement) || a.index - b.index;
  const orders = {
    disagreement: byAgreement(1),
    agreement: byAgreement(-1),
    given: (a, b) => a.index - b.index,
    longest: (a, b) => b.tokens - a.tokens || a.index - b.index,
    shortest: (a, b) => a.tokens - b.tokens || a.index - b.index,
  };

  const [search, order, outcome, more, count] = ["search", "order", "outcome", "more", "count"].map(get);
  let found = [];
  let shown = 0;

  const chosen = () => {
    const boxes = [...document.querySelectorAll("#methods input")];
    if (!boxes.length) return new Set(data.methods.keys());
    return new Set(boxes.filter((box) => box.checked).map((box) => Number(box.value)));
  };

  const showMore = (howMany) => {
    const methods = chosen();
    const next = found.slice(shown, shown + howMany).map((example) => card(example, methods));
    list.append(...next);
    shown += next.length;
    more.hidden = shown >= found.length;
    more.textContent = `Show ${Math.min(PAGE, found.length - shown)} more`;
    const whole = data.examples.length;
    const fit = found.length === whole ? `${whole}` : `${found.length} of ${whole}`;
    count.textContent = found.length ? `${fit} examples fit; ${shown} shown.` : "No example fits.";
    return next[0];
  };

  const refresh = (keep = PAGE) => {
    const sought = search.value.trim().toLocaleLowerCase();
    const right = { right: true, wrong: false }[outcome?.value];
    found = data.examples
      .filter((example) => example.sought.includes(sought) && (right === undefined || example.right === right))
      .sort(orders[order.value]);
    list.replaceChildren();
    shown = 0;
    showMore(keep);
  };

  let timer = 0;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(refresh, 120);
  });
  get("controls").addEventListener("submit", (event) => event.preventDefault());
  order.addEventListener("change", () => refresh());
  outcome?.addEventListener("change", () => refresh());
  get("methods")?.addEventListener("change", () => refresh(Math.max(PAGE, shown)));
  more.addEventListener("click", () => {
    const first = showMore(PAGE);
    first.tabIndex = -1;
    first.focus({ preventScroll: true });
  });
  refresh();

  openExample = (id) => {
    const wanted = data.examples.find((example) => example.id === id);
    if (!wanted) return false;
    search.value = "";
    if (outcome) outcome.value = "all";
    refresh(0);
    found = [wanted, ...found.filter((example) => example !== wanted)];
    const first = showMore(PAGE);
    first.tabIndex = -1;
    first.focus({ preventScroll: true });
    first.scrollIntoView({ block: "start" });
    return true;
  };
})();
