"use strict";
// The figures are already in the page. This adds: legend buttons that hide and show a method, and the values under the
// pointer or, by arrow keys, at the chosen position. All text goes in as textContent, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  
  const element = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const show = (value, decimals) => {
    const text = decimals === null ? String(Number(value.toPrecision(4))) : value.toFixed(decimals);
    return text.replace(/^-/, "−");
  };

  for (const figure of document.querySelectorAll("figure")) {
    const buttons = [...figure.querySelectorAll(".legend button")];
    const isShown = (entry) => buttons[entry].getAttribute("aria-pressed") === "true";
    const partsOf = (entry) => figure.querySelectorAll(`.axes [data-entry="${entry}"]`);

    buttons.forEach((button, entry) => {
      button.disabled = false;
      button.title = "Hide or show in all panels";
      const light = (on) => {
        figure.classList.toggle("dimmed", on && isShown(entry));
        for (const part of partsOf(entry)) part.classList.toggle("lit", on);
      };
      button.addEventListener("click", () => {
        const shown = !isShown(entry);
        button.setAttribute("aria-pressed", String(shown));
        for (const part of partsOf(entry)) part.classList.toggle("hidden", !shown);
        light(shown);
      });
      button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && light(true));
      button.addEventListener("pointerleave", () => light(false));
      button.addEventListener("blur", () => light(false));
    });

    figure.querySelectorAll(".plot").forEach((plot, number) => {
      const panel = data[figure.dataset.figure][number];
      if (panel.curves) watch(plot, panel, buttons, isShown);
      else watchCells(plot);
    });
  }

  function watch(plot, panel, buttons, isShown) {
    const drawn = [...plot.querySelectorAll(".axes")]; // for a desktop and for a phone; one of them is shown
    const shownAxes = () => drawn.find((axes) => axes.getClientRects().length) || drawn[0];
    const [left, right] = panel.range;
    const tip = element("div", "tip");
    const cursor = element("div", "cursor");
    let position = null;

    tip.setAttribute("role", "status");
    plot.prepend(cursor); // under the curves
    plot.append(tip);
    hide();

    const positions = () => {
      const shown = panel.curves.filter((curve) => isShown(curve.entry));
      return [...new Set(shown.flatMap((curve) => curve.x))].sort((a, b) => a - b);
    };

    function hide() {
      position = null;
      tip.hidden = true;
      cursor.hidden = true;
    }

    function showAt(x) {
      position = x;
      const [from, top, width, height] = panel.boxes[drawn.indexOf(shownAxes())];
      const percent = from + (width * (x - left)) / (right - left);
      cursor.style.cssText = `left: ${percent}%; top: ${top}%; height: ${height}%`;
      cursor.hidden = false;
      tip.replaceChildren(values(x));
      const isLow = curvesAreHigh(putBeside(tip, plot, percent));
      tip.style.top = isLow ? "auto" : "0";
      tip.style.bottom = isLow ? `${100 - top - height}%` : "auto";
    }

    // The tip goes to the lower half where the curves beside it run in the upper one.
    function curvesAreHigh(middle) {
      const axes = shownAxes();
      const box = axes.getBoundingClientRect();
      const marks = [...axes.querySelectorAll(".curve:not(.hidden) use")].map((mark) => mark.getBoundingClientRect());
      const near = marks.filter((mark) => Math.abs(mark.x - box.x - middle) < box.width / 3);
      return near.filter((mark) => mark.y - box.y < box.height / 2).length > near.length / 2;
    }

    function values(x) {
      const table = element("table");
      table.append(element("caption", "", panel.names ? panel.names[x] : `${panel.place} ${x}`));
      const rows = panel.curves
        .filter((curve) => isShown(curve.entry))
        .map((curve) => ({ curve, at: curve.x.indexOf(x) }))
        .filter(({ curve, at }) => at >= 0 && curve.middle[at] !== null)
        .sort((a, b) => b.curve.middle[b.at] - a.curve.middle[a.at]);
      if (!rows.length) return table;
      const resampled = rows.some(({ curve }) => curve.lower);
      const bandEnds = resampled ? "band-ends" : ""; // without a bootstrap of its own, the band is the interval to show
      const range = (low, high, at) => {
        const ends = low ? [low[at], high[at]].filter((value) => value !== null) : [];
        return ends.map((value) => show(value, panel.decimals)).join(" to ");
      };
      for (const { curve, at } of rows) {
        const row = table.insertRow();
        const name = element("th", "inked", buttons[curve.entry].textContent.trim());
        name.style.cssText = buttons[curve.entry].style.cssText;
        row.append(name, element("td", "", show(curve.middle[at], panel.decimals)));
        row.append(element("td", bandEnds, range(curve.low, curve.high, at) || `n = ${curve.n}`));
        if (resampled) row.append(element("td", "", range(curve.lower, curve.upper, at)));
      }
      const first = (rows.find(({ curve }) => curve.low) || rows[0]).curve;
      const headings = ["", first.line, first.low ? first.band : ""].map((words) => element("td", "", words));
      headings[2].className = bandEnds;
      if (resampled) headings.push(element("td", "", "95% bootstrap"));
      table.createTHead().insertRow().append(...headings);
      return table;
    }

    const point = (event) => {
      const [from, , width] = panel.boxes[drawn.indexOf(shownAxes())];
      const box = plot.getBoundingClientRect();
      const at = left + (((100 * (event.clientX - box.left)) / box.width - from) / width) * (right - left);
      const far = (x) => Math.abs(x - at);
      const all = positions();
      if (all.length) showAt(all.reduce((best, other) => (far(other) < far(best) ? other : best)));
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

  // The words of a cell, beside it.
  function watchCells(plot) {
    const tip = element("div", "tip");
    tip.setAttribute("role", "status");
    tip.hidden = true;
    plot.append(tip);
    const leave = () => (tip.hidden = true);
    const point = (event) => {
      const cell = event.target.closest("[data-tip]");
      if (!cell) return leave();
      const [heading, ...lines] = cell.dataset.tip.split("\n");
      tip.replaceChildren(element("b", "", heading), ...lines.map((line) => element("div", "", line)));
      const box = cell.getBoundingClientRect();
      const outer = plot.getBoundingClientRect();
      putBeside(tip, plot, (100 * (box.x + box.width / 2 - outer.x)) / outer.width, box.width / 2);
      const room = plot.clientHeight - tip.offsetHeight;
      tip.style.top = `${Math.max(0, Math.min(box.y - outer.y, room))}px`;
    };
    plot.addEventListener("pointermove", point);
    plot.addEventListener("pointerdown", point);
    plot.addEventListener("pointerleave", leave);
  }

  // Shows the tip on the side of the position where there is more room, or beside a plot too narrow for both; returns
  // the position in pixels.
  function putBeside(tip, plot, percent, gap = 0) {
    tip.hidden = false;
    const [width, box] = [tip.offsetWidth, plot.getBoundingClientRect()];
    const middle = (percent / 100) * box.width;
    const inside = middle > box.width / 2 ? middle - gap - width - 12 : middle + gap + 12;
    let left = Math.min(Math.max(inside, 0), Math.max(box.width - width, 0));
    if (width > box.width / 2) {
      if (box.right + width + 12 < document.documentElement.clientWidth) left = box.width + 12;
      else if (box.left > width + 16) left = -width - 12;
    }
    tip.style.left = `${left}px`;
    return middle;
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
    for (const details of document.querySelectorAll("#claims details, .folded")) details.open = true;
  });
})();
