"use strict";
// The page around the reader: draws the answer and the looks, and follows hands and keys.
const byId = id => document.getElementById(id);
const make = (tag, attributes = {}, ...inside) => {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...inside);
  return element;
};
const input = byId("text"), answer = byId("answer"), typed = byId("typed"), lines = byId("lines");
const reader = new DateReader(JSON.parse(byId("weights").textContent));
const languages = [...document.querySelectorAll("#languages button")].map(button => button.lang);
const still = matchMedia("(prefers-reduced-motion: reduce)");
const MONTH = 6;
let now = null, cells = [], chosen = MONTH, timer = null;

function show(text, { play }) {
  clearTimeout(timer);
  const read = [...text].slice(0, LONGEST_READ).join("");
  const before = now, result = text.trim() ? reader.read(read) : null;
  now = { text: read, result };
  const followed = whatFollowed(before, now);
  if (followed?.moved.length) [chosen] = followed.moved;
  drawAnswer(followed);
  drawTyped(followed);
  const said = verdict(text, result, reader.longest, languages).map(({ sentence, doubt }) =>
    make("p", { className: doubt ? "doubt" : "", textContent: sentence }));
  byId("said").replaceChildren(...(followed ? [make("p", { textContent: followed.sentence })] : []), ...said);
  choose(chosen);
  if (play && result && !followed && !still.matches) reveal(0);
}

function drawAnswer(followed) {
  answer.replaceChildren(...(now.result ? [...now.result.date] : []).map((character, i) => {
    const sure = now.result.sure[i], classes = [sure < 0.9 && "unsure", followed?.moved.includes(i) && "changed"];
    const button = make("button", { type: "button", textContent: character, className: classes.filter(Boolean).join(" ") });
    button.setAttribute("aria-label", `${character}, the ${PLACES[i]}, probability ${sure.toFixed(2)}`);
    for (const event of ["mouseenter", "focus", "click"]) button.addEventListener(event, () => { stop(); choose(i); });
    return button;
  }));
}

function drawTyped(followed) {
  const characters = [...now.text];
  cells = characters.map((character, j) => {
    const isDigit = /^[0-9]$/.test(character), strange = !now.result?.real[j];
    const classes = ["letter", strange && "strange", followed?.place === j && "edited"];
    const letter = make(isDigit ? "button" : "span", { ariaHidden: isDigit ? null : "true", className: classes.filter(Boolean).join(" "), textContent: character });
    if (isDigit) {
      letter.type = "button";
      letter.setAttribute("aria-label", `Raise ${character}, character ${j + 1}`);
      letter.addEventListener("click", () => raise(j, 1));
      letter.addEventListener("keydown", event => {
        const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
        if (step) { event.preventDefault(); raise(j, step); }
      });
    }
    return make("div", { className: "character" }, letter, ...Array.from({ length: reader.heads }, () => make("i")));
  });
  const words = [[]];  // a line breaks behind a space
  cells.forEach((cell, j) => {
    words.at(-1).push(cell);
    if (characters[j] === " ") words.push([]);
  });
  typed.replaceChildren(...words.map(word => make("div", { className: "word" }, ...word)));
}

// One digit more or less; the focus stays where it was.
function raise(j, step) {
  const characters = [...input.value];
  characters[j] = (Number(characters[j]) + step + 10) % 10;
  input.value = characters.join("");
  show(input.value, { play: false });
  keepInAddress();
  cells[j].firstChild.focus();
}

function choose(i) {
  chosen = i;
  [...answer.children].forEach((button, other) => {
    button.setAttribute("aria-pressed", other === i);
    button.tabIndex = other === i ? 0 : -1;
  });
  const weights = now.result?.weights.map(head => head[i]) ?? [];
  cells.forEach((character, j) => character.querySelectorAll("i").forEach((cell, head) =>
    cell.style.setProperty("--w", weights[head]?.[j] ?? 0)));
  drawLines(i, weights);
  byId("looks").replaceChildren(...(now.result ? inWords(i, weights) : []));
}

function drawLines(i, weights) {
  const frame = lines.getBoundingClientRect(), from = answer.children[i]?.getBoundingClientRect();
  const paths = weights.flatMap(row => row.map((weight, j) => {
    if (weight < 0.05) return null;
    const to = cells[j].getBoundingClientRect(), path = document.createElementNS(lines.namespaceURI, "path");
    const [x, y] = [from.left + from.width / 2 - frame.left, from.bottom - frame.top];
    const [x2, y2] = [to.left + to.width / 2 - frame.left, to.top - frame.top], half = (y + y2) / 2;
    path.setAttribute("d", `M${x} ${y}C${x} ${half} ${x2} ${half} ${x2} ${y2}`);
    path.setAttribute("stroke-width", 4 * weight);
    path.setAttribute("stroke-opacity", 0.25 + 0.6 * weight);
    return path;
  })).filter(Boolean);
  lines.replaceChildren(...paths);
}

const heard = character => character === " " ? "a space" : character;
// The looks as text: for each head the characters with a tenth of its weight or more, between their neighbours. The
// neighbours are for the eye; a screen reader hears the character and its place.
function inWords(i, weights) {
  const { characters, date, sure } = now.result;
  const around = j => make("code", { ariaHidden: "true" }, characters.slice(Math.max(0, j - 2), j).join(""), make("b", { textContent: characters[j] }),
    characters.slice(j + 1, j + 3).join(""));
  const rows = weights.map((row, head) => {
    const most = row.map((weight, j) => [weight, j]).filter(([weight]) => weight >= 0.1).sort(([a], [b]) => b - a);
    const looks = most.map(([weight, j]) => make("span", {}, around(j),
      make("span", { className: "heard", textContent: `: ${heard(characters[j])}, character ${j + 1},` }), ` ${Math.round(100 * weight)} %`));
    return make("li", {}, make("b", { textContent: `head ${head}` }), ...(looks.length ? looks : ["a little everywhere"]));
  });
  const title = `${date[i]}, the ${PLACES[i]}, with probability ${sure[i].toFixed(2)}, was fetched from`;
  return [make("b", { textContent: title }), make("ol", {}, ...rows)];
}

// One character after another, and its looks with it; at the end the one of the month, about which heads differ most.
function reveal(i) {
  const last = answer.children.length - 1;
  [...answer.children].forEach((button, other) => button.classList.toggle("waiting", other > i));
  choose(i <= last ? i : MONTH);
  if (i <= last) timer = setTimeout(() => reveal(i + 1), 220);
}
function stop() {
  clearTimeout(timer);
  for (const button of answer.children) button.classList.remove("waiting");
}

// The address leads back to this text, so that it can be sent to somebody. A browser refuses too many changes, and half a character.
const keepInAddress = () => {
  try { history.replaceState(null, "", `#${encodeURIComponent(now.text)}`); } catch { /* the next one will do */ }
};
function textOfAddress() {
  try { return decodeURIComponent(location.hash.slice(1)); } catch { return ""; }
}

input.addEventListener("change", keepInAddress);
input.addEventListener("input", () => {
  show(input.value, { play: false });
  timer = setTimeout(() => now.result && !byId("said").textContent.startsWith("You changed") && !still.matches && reveal(0), 500);
});
for (const button of document.querySelectorAll("button[data-text]")) {
  button.addEventListener("click", () => {
    input.value = button.dataset.text;
    show(input.value, { play: true });
    keepInAddress();
    byId("reader").scrollIntoView({ block: "nearest" });
  });
}
answer.addEventListener("keydown", event => {
  const next = { ArrowRight: chosen + 1, ArrowLeft: chosen - 1, Home: 0, End: answer.children.length - 1 }[event.key];
  if (next === undefined || !answer.children[next]) return;
  event.preventDefault();
  answer.children[next].focus();
});
addEventListener("resize", () => choose(chosen));
byId("code").querySelector("pre").textContent = byId("reader-code").textContent.trim();
const arrive = () => {
  input.value = textOfAddress() || input.value;
  show(input.value, { play: true });
};
addEventListener("hashchange", arrive);
arrive();
