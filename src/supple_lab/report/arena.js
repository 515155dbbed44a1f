"use strict";
// The table is already in the page. This adds: sorting by a column, filters, and the runs behind a cell.
(() => {
  const table = document.querySelector(".board"), body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const runs = JSON.parse(document.getElementById("data").textContent);
  const dialog = document.getElementById("runs"), inside = dialog.querySelector("div");
  const field = (name) => document.getElementById(name);
  const FIRST = 4; // columns before those of the problems

  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const falling = head.ariaSort === "ascending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.ariaSort = falling ? "descending" : "ascending";
    const key = (row) => column ? Number(row.cells[column].dataset.value) : row.cells[0].textContent;
    const rows = [...body.rows].sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
    body.append(...(falling ? rows.reverse() : rows));
  }));

  function refresh() {
    const problem = field("problem").value, network = field("network").value;
    const cost = Number(field("cost").value || Infinity), words = field("entry").value.toLowerCase().split(/[\s,]+/).filter(Boolean);
    heads.forEach((head, column) => {
      if (column < FIRST) return;
      const hidden = (problem && Number(problem) !== column - FIRST) || (network && head.dataset.network !== network);
      for (const row of table.rows) row.cells[column].hidden = Boolean(hidden);
    });
    for (const row of body.rows) {
      const name = row.cells[0].textContent;
      row.hidden = Number(row.dataset.cost) > cost || (words.length > 0 && !words.some((word) => name.includes(word)));
    }
  }
  for (const name of ["problem", "network", "cost", "entry"]) field(name).addEventListener("input", refresh);

  function element(tag, text, parent) {
    const made = document.createElement(tag);
    made.textContent = text;
    parent.append(made);
    return made;
  }
  function list(title, header, rows, chosen) {
    element("h2", title, inside);
    const holder = element("div", "", inside), own = element("table", "", holder), top = element("tr", "", own);
    holder.className = "scroll";
    for (const name of header) element("th", name, top);
    rows.forEach((row, place) => {
      const line = element("tr", "", own);
      if (place === chosen) line.className = "chosen";
      row.forEach((text) => element("td", text, line));
    });
  }
  body.addEventListener("click", (event) => {
    const button = event.target.closest("[data-runs]");
    if (!button) return;
    const own = runs[button.dataset.runs], written = (setting) => Object.entries(setting).map(([k, v]) => `${k} ${v}`).join(", ");
    inside.replaceChildren();
    element("h2", button.dataset.runs.replace("/", " on "), inside);
    element("p", own.summary, inside);
    list("Seeds of the chosen setting", ["run", "state", "score of each stage", "seconds"], own.seeds.map(([id, state, score, seconds]) => [id, state, score.map((value) => value.toFixed(2)).join(" "), seconds]));
    list("Draws on the tuning seed (the chosen one is bold)", ["run", "state", "score", "setting"], own.draws.map(([id, state, score, setting]) => [id, state, score ?? "–", written(setting)]), own.chosen);
    dialog.showModal();
  });
})();
