"use strict";
// The list is already in the page. This adds: buttons that hide and show the claims of a verdict, and a search.
(() => {
  const buttons = [...document.querySelectorAll(".filters button")];
  const search = document.querySelector(".filters input");
  const none = document.getElementById("none");
  if (!search) return;

  const isWanted = (verdict) => buttons.some((b) => b.dataset.verdict === verdict && b.ariaPressed === "true");

  function refresh() {
    const words = search.value.trim().toLowerCase();
    const all = buttons.every((button) => button.ariaPressed === "true");
    let shown = 0;
    for (const study of document.querySelectorAll(".studies > li")) {
      const meant = study.querySelector("h2").textContent.toLowerCase().includes(words) || study.id.includes(words);
      let own = 0;
      for (const claim of study.querySelectorAll(".claims > li")) {
        const said = meant || claim.textContent.toLowerCase().includes(words);
        claim.hidden = !(said && isWanted(claim.dataset.verdict));
        own += !claim.hidden;
      }
      study.hidden = !own && !(all && meant);
      shown += !study.hidden;
    }
    none.hidden = shown > 0;
  }

  for (const button of buttons) {
    button.disabled = false;
    button.addEventListener("click", () => {
      // From all to one alone, which is what a reader of a list wants first; from one on, each click adds or takes.
      const all = buttons.every((other) => other.ariaPressed === "true");
      for (const other of buttons) if (all) other.ariaPressed = String(other === button);
      if (!all) button.ariaPressed = String(button.ariaPressed !== "true");
      if (buttons.every((other) => other.ariaPressed === "false")) for (const other of buttons) other.ariaPressed = "true";
      refresh();
    });
  }
  search.hidden = false;
  search.addEventListener("input", refresh);
})();
