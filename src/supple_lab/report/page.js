"use strict";
// The curves are already in the page. This adds: legend buttons that hide and show a curve, and the values under the
// pointer or, by arrow keys, at the chosen position. All text goes in as textContent, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";

  const element = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const show = (value, decimals) => value.toFixed(decimals).replace("-", "−");

  for (const figure of document.querySelectorAll("figure")) {
    const buttons = [...figure.querySelectorAll(".legend button")];
    const isShown = (entry) => buttons[entry].getAttribute("aria-pressed") === "true";
    const curvesOf = (entry) => figure.querySelectorAll(`.curve[data-entry="${entry}"]`);

    buttons.forEach((button, entry) => {
      button.disabled = false;
      button.title = "Hide or show this curve";
      const light = (on) => {
        figure.classList.toggle("dimmed", on && isShown(entry));
        for (const curve of curvesOf(entry)) curve.classList.toggle("lit", on);
      };
      button.addEventListener("click", () => {
        const shown = !isShown(entry);
        button.setAttribute("aria-pressed", String(shown));
        for (const curve of curvesOf(entry)) curve.classList.toggle("hidden", !shown);
        light(shown);
      });
      button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && light(true));
      button.addEventListener("pointerleave", () => light(false));
      button.addEventListener("blur", () => light(false));
    });

    figure.querySelectorAll(".plot").forEach((plot, number) => {
      watch(plot, data[figure.dataset.figure][number], buttons, isShown);
    });
  }

  function watch(plot, panel, buttons, isShown) {
    const axes = plot.querySelector(".axes");
    const [left, right] = panel.range;
    const tip = element("div", "tip");
    const cursor = document.createElementNS(SVG, "line");
    let position = null;

    cursor.setAttribute("class", "cursor");
    cursor.setAttribute("y1", "0");
    cursor.setAttribute("y2", "100%");
    tip.setAttribute("role", "status");
    plot.append(tip);
    axes.insertBefore(cursor, axes.querySelector(".curve"));
    hide();

    const positions = () => {
      const shown = panel.curves.filter((curve) => isShown(curve.entry));
      return [...new Set(shown.flatMap((curve) => curve.x))].sort((a, b) => a - b);
    };

    function hide() {
      position = null;
      tip.hidden = true;
      cursor.style.display = "none";
    }

    function showAt(x) {
      position = x;
      const percent = (100 * (x - left)) / (right - left);
      cursor.setAttribute("x1", `${percent}%`);
      cursor.setAttribute("x2", `${percent}%`);
      cursor.style.display = "";
      tip.replaceChildren(values(x));
      tip.hidden = false;
      const room = plot.clientWidth - tip.offsetWidth;
      const middle = (percent / 100) * plot.clientWidth;
      const wanted = middle > plot.clientWidth / 2 ? middle - tip.offsetWidth - 12 : middle + 12;
      tip.style.left = `${Math.min(Math.max(wanted, -40), Math.max(room, -40))}px`;
      tip.style.top = tall(middle) ? "auto" : "0";
      tip.style.bottom = tall(middle) ? "0" : "auto";
    }

    // The tip goes to the lower half where the curves beside it run in the upper one.
    function tall(middle) {
      const box = axes.getBoundingClientRect();
      const marks = [...axes.querySelectorAll(".curve:not(.hidden) > use")].map((mark) => mark.getBoundingClientRect());
      const near = marks.filter((mark) => Math.abs(mark.x - box.x - middle) < box.width / 3);
      return near.filter((mark) => mark.y - box.y < box.height / 2).length > near.length / 2;
    }

    function values(x) {
      const table = element("table");
      table.append(element("caption", "", `${panel.heading} ${x}`));
      const rows = panel.curves
        .filter((curve) => isShown(curve.entry))
        .map((curve) => ({ curve, at: curve.x.indexOf(x) }))
        .filter(({ curve, at }) => at >= 0 && curve.mean[at] !== null)
        .sort((a, b) => b.curve.mean[b.at] - a.curve.mean[a.at]);
      for (const { curve, at } of rows) {
        const row = table.insertRow();
        const name = element("th", "inked", buttons[curve.entry].textContent.trim());
        name.style.cssText = buttons[curve.entry].style.cssText;
        row.append(name, element("td", "", show(curve.mean[at], panel.decimals)));
        const range = [curve.low[at], curve.high[at]].map((value) => show(value, panel.decimals)).join(" to ");
        row.append(element("td", "", curve.seeds > 1 ? range : "1 seed"));
      }
      return table;
    }

    const point = (event) => {
      const box = axes.getBoundingClientRect();
      const x = left + ((event.clientX - box.left) / box.width) * (right - left);
      const all = positions();
      if (all.length) showAt(all.reduce((best, other) => (Math.abs(other - x) < Math.abs(best - x) ? other : best)));
    };

    const step = (event) => {
      const all = positions();
      const places = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
      if (event.key === "Escape") hide();
      if (!(event.key in places) || !all.length) return;
      event.preventDefault();
      const from = position === null ? (event.key === "ArrowRight" ? -1 : 0) : all.indexOf(position);
      showAt(all[Math.min(Math.max(from + places[event.key], 0), all.length - 1)]);
    };

    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    plot.setAttribute("aria-label", `Values at each ${panel.heading}; the arrow keys move through them`);
    plot.addEventListener("pointermove", point);
    plot.addEventListener("pointerdown", point);
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("keydown", step);
    plot.addEventListener("blur", hide);
  }

  const copy = document.querySelector(".copy");
  if (copy && navigator.clipboard) {
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.querySelector(".command code").textContent);
      copy.textContent = "Copied";
      setTimeout(() => (copy.textContent = "Copy"), 1500);
    });
  }

  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("#provenance details")) details.open = true;
  });
})();
