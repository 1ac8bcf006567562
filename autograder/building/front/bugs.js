"use strict";
// One bug at a time. Without this script the page shows all ten, with their answers folded.
const bugs = [...document.querySelectorAll(".bug")];
const places = [...document.querySelectorAll("#places button")];
const state = bugs.map(() => ({ tries: 0, end: "" }));  // end: found, or shown
const linesOf = bug => [...bug.querySelectorAll(".lines button")];
const wrongIn = bug => bug.dataset.lines.split(" ");

function open(index) {
  bugs.forEach((bug, i) => bug.classList.toggle("open", i === index));
  places.forEach((place, i) => i === index ? place.setAttribute("aria-current", "true") : place.removeAttribute("aria-current"));
}

function go(index) {
  open(index);
  history.replaceState(null, "", `#bug-${index + 1}`);
  bugs[index].querySelector("h2").focus();
}

function count() {
  const found = state.filter(each => each.end === "found"), over = state.filter(each => each.end);
  const atOnce = found.filter(each => each.tries === 1).length;
  places.forEach((place, i) => {
    const { end } = state[i];
    place.textContent = `${i + 1}${end === "found" ? " ✓" : end ? " –" : ""}`;
    place.setAttribute("aria-label", `Bug ${i + 1}${end === "found" ? ", found" : end ? ", answer shown" : ""}`);
  });
  const score = `${found.length} of ${bugs.length} found, ${atOnce} of them on the first try.`;
  document.getElementById("score").textContent = over.length ? score : "";
}

function finish(index, end, said) {
  const bug = bugs[index];
  state[index].end = end;
  for (const line of linesOf(bug)) {
    line.setAttribute("aria-disabled", "true");
    line.classList.toggle("yes", wrongIn(bug).includes(line.dataset.line));
  }
  bug.querySelector(".said").textContent = said;
  bug.querySelector(".answer").open = true;
  bug.querySelector(".next").hidden = index + 1 === bugs.length;
  count();
}

function answer(index, line) {
  const bug = bugs[index], mine = state[index], number = line.dataset.line;
  if (mine.end || line.classList.contains("no")) return;
  mine.tries += 1;
  if (wrongIn(bug).includes(number)) {
    finish(index, "found", `Right: line ${number}${mine.tries === 1 ? ", on the first try" : `, after ${mine.tries} tries`}.`);
  } else {
    line.classList.add("no");
    bug.querySelector(".said").textContent = `Line ${number} does what it should.`;
  }
}

bugs.forEach((bug, index) => {
  const lines = linesOf(bug);
  lines.forEach((line, i) => {
    line.tabIndex = i ? -1 : 0;  // one stop for Tab; arrows go through the code
    line.addEventListener("click", () => answer(index, line));
    line.addEventListener("focus", () => lines.forEach(other => { other.tabIndex = other === line ? 0 : -1; }));
    line.addEventListener("keydown", event => {
      const to = { ArrowUp: i - 1, ArrowDown: i + 1, Home: 0, End: lines.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      lines[Math.min(lines.length - 1, Math.max(0, to))].focus();
    });
  });
  bug.querySelector(".answer summary").textContent = "Give up and show the answer";
  bug.querySelector(".answer").addEventListener("toggle", event => {
    if (event.target.open && !state[index].end) finish(index, "shown", `It was line ${wrongIn(bug).join(" or ")}.`);
    if (state[index].end) event.target.querySelector("summary").textContent = "The answer";
  });
  bug.querySelector(".next").addEventListener("click", () => go(index + 1));
  places[index].addEventListener("click", () => go(index));
});

const fromAddress = () => {
  const found = bugs.findIndex(bug => `#${bug.id}` === location.hash);
  open(Math.max(0, found));
};
count();
fromAddress();
addEventListener("hashchange", fromAddress);
