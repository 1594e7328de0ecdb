(() => {
"use strict";
const one = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const make = (tag, text = "", attributes = {}) => {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};
const SHOWN = 100;

// A table row with the row of sentences beneath it.
const units = table => {
  const rows = [];
  for (const row of table.tBodies[0].rows) {
    if (row.classList.contains("beneath") && rows.length) rows.at(-1).push(row);
    else rows.push([row]);
  }
  return rows;
};
const number = text => {
  const value = parseFloat(text.replace(/[,≥≤]|about/g, ""));
  return Number.isNaN(value) ? null : value;
};
const order = (a, b) => {
  const empty = text => text === "" || text === "–";
  if (empty(a) || empty(b)) return empty(a) - empty(b) || 0;
  const x = number(a), y = number(b);
  if (x !== null && y !== null && x !== y) return x - y;
  return a.localeCompare(b, "en", {numeric: true});
};

// Column heads that sort: up, then down.
const sortable = (table, sort) => {
  all("thead th", table).forEach(head => {
    const button = make("button", "", {type: "button", class: "sort"});
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      all("thead th", table).forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sort(head.cellIndex, down ? -1 : 1);
    });
  });
};
const sortRows = table => (column, sign) => {
  const text = unit => (unit[0].cells[column]?.textContent || "").trim();
  const rows = units(table).map(unit => [text(unit), unit]);
  const empty = value => value === "" || value === "–";
  rows.sort(([a], [b]) => empty(a) || empty(b) ? order(a, b) : sign * order(a, b));
  table.tBodies[0].append(...rows.flatMap(([, unit]) => unit));
};
const tables = all("main table");
tables.filter(table => units(table).length > 2).forEach(table => sortable(table, sortRows(table)));

// Every check of every node.
const held = one("#verdicts") && JSON.parse(one("#verdicts").textContent);
const section = one("#every-verdict");
let sorting = [2, 1];
const listed = [];
if (held && section) {
  const table = one("table", section);
  for (const [node, check, level, figure] of held.rows) {
    const [name, limit, unit] = held.checks[check];
    listed.push([held.nodes[node], name, held.levels[level], figure, limit, unit, level]);
  }
  sortable(table, (column, sign) => { sorting = [column, sign]; find(); });
  section.hidden = false;
}
const compare = (a, b) => {
  const [column, sign] = sorting;
  const of = row => column === 2 ? row[6] : row[column];
  const x = of(a), y = of(b);
  return sign * (typeof x === "number" ? x - y : order(x, y));
};
const draw = matches => {
  const table = one("table", section);
  const body = table.tBodies[0];
  body.replaceChildren(...[...matches].sort(compare).slice(0, SHOWN).map(row => {
    const line = make("tr");
    line.append(make("th", row[0], {scope: "row"}));
    row.slice(1, 6).forEach((text, place) => {
      const kind = place === 2 || place === 3 ? "number" : "word";
      line.append(make("td", text || "–", {class: kind}));
    });
    return line;
  }));
  const more = matches.length > SHOWN ? `; the first ${SHOWN} are shown` : "";
  one(".count", section).textContent =
    `${matches.length.toLocaleString("en")} of ${listed.length.toLocaleString("en")} checks${more}.`;
};

// Search and filters of the whole page.
const form = one("#find");
const field = name => one(`#find-${name}`, form);
const cards = all(".card").map(card => [card, card.textContent.toLowerCase()]);
const lines = tables.filter(table => !section?.contains(table)).flatMap(units)
  .map(unit => [unit, unit.map(row => row.textContent).join(" ").toLowerCase()]);
const find = () => {
  const text = field("text").value.trim().toLowerCase();
  const node = field("node").value.trim().toLowerCase();
  const check = field("check").value, verdict = field("verdict").value;
  const asked = Boolean(text || node || check || verdict);
  let count = 0;
  for (const [card, words] of cards) {
    const nodes = all("[data-node]", card);
    const hits = nodes.filter(item => item.dataset.node.toLowerCase().includes(node));
    const checks = card.dataset.check;
    const fits = words.includes(text) && (!node || hits.length > 0)
      && (!check || checks.split(", ").includes(check) || checks === check)
      && (!verdict || card.dataset.verdict === verdict);
    card.hidden = !fits;
    count += fits ? 1 : 0;
    nodes.forEach(item => { item.hidden = Boolean(node) && !hits.includes(item); });
    const folded = one("details", card);
    if (folded) folded.open = Boolean(node) && hits.some(item => folded.contains(item));
  }
  for (const [unit, words] of lines) {
    const fits = words.includes(text) && words.includes(node);
    unit.forEach(row => { row.hidden = !fits; });
  }
  if (section) {
    draw(listed.filter(row => (!node || row[0].toLowerCase().includes(node))
      && (!check || row[1] === check) && (!verdict || row[2] === verdict)
      && (!text || row.slice(0, 6).join(" ").toLowerCase().includes(text))));
  }
  form.classList.toggle("asked", asked);
  field("count").textContent = asked ? `${count} of ${cards.length} findings` : "";
};
if (held || lines.length > 10) {
  form.hidden = false;
  const names = held ? held.checks.map(check => check[0]) : cards.map(([card]) => card.dataset.check);
  for (const name of [...new Set(names)].sort()) field("check").append(make("option", name));
  for (const level of held ? held.levels : []) field("verdict").append(make("option", level));
  if (held) one("#find-nodes").append(...held.nodes.map(name => make("option", "", {value: name})));
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("input", find);
  form.addEventListener("reset", () => setTimeout(find));
  find();
}

// Values of charts: under the pointer, and by the arrow keys.
for (const figure of all("figure")) {
  const drawing = one("svg", figure);
  const points = all(".values > *", drawing).map(point => {
    const title = one("title", point);
    const words = title.textContent;
    title.remove();
    return [point, words];
  });
  if (!points.length) continue;
  const told = make("p", "", {class: "value", role: "status"});
  drawing.after(told);
  drawing.setAttribute("tabindex", "0");
  let at = -1;
  const show = place => {
    points[at]?.[0].classList.remove("on");
    at = place;
    points[at]?.[0].classList.add("on");
    told.textContent = points[at]?.[1] ?? "";
  };
  drawing.addEventListener("pointermove", event => {
    let nearest = -1, least = 30;
    points.forEach(([point], place) => {
      const box = point.getBoundingClientRect();
      const x = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
      const y = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
      const distance = Math.hypot(x, y);
      if (distance < least) [nearest, least] = [place, distance];
    });
    if (nearest !== at) show(nearest);
  });
  drawing.addEventListener("pointerleave", () => show(-1));
  drawing.addEventListener("blur", () => show(-1));
  drawing.addEventListener("keydown", event => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (event.key === "Escape") show(-1);
    if (!step) return;
    event.preventDefault();
    show((Math.max(at, step > 0 ? -1 : 0) + step + points.length) % points.length);
  });
}
})();
