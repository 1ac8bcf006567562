"use strict";
// What can be said about an answer without asking the reader: the browser's own calendar knows it, too.
const PLACES = ["first digit of the year", "second digit of the year", "third digit of the year", "last digit of the year", "first dash",
  "first digit of the month", "second digit of the month", "second dash", "first digit of the day", "last digit of the day"];
const LONGEST_READ = 200;

const plain = text => text.normalize("NFKC").replace(/\s+/g, " ").trim().toLowerCase();

// The day of an answer such as 1969-07-20, or null if no calendar has it.
function dayOf(answer) {
  const found = /^(\d{4})-(\d\d)-(\d\d)$/.exec(answer);
  if (!found) return null;
  const [year, month, day] = found.slice(1).map(Number), date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return date.getUTCMonth() === month - 1 && date.getUTCDate() === day ? date : null;
}

const formats = new Map();  // each takes a while to make, and every key asks for all
function format(locale, options) {
  const key = locale + JSON.stringify(options), all = { timeZone: "UTC", calendar: "gregory", ...options };
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat(locale, all));
  return formats.get(key);
}
const written = (date, locale, options) => format(locale, options).format(date);
const WEEK = [0, 1, 2, 3, 4, 5, 6].map(day => new Date(Date.UTC(2024, 0, 1 + day)));

// How people write this day: in the lesson's seven English ways, and as the other languages do; with another day's weekday.
function spellings(date, languages, other = date) {
  const part = options => written(date, "en-GB", options), day = date.getUTCDate(), number = date.getUTCMonth() + 1;
  const [month, year] = [part({ month: "long" }), date.getUTCFullYear()], weekday = written(other, "en-GB", { weekday: "long" });
  const ending = day > 10 && day < 14 ? "th" : ["th", "st", "nd", "rd"][day % 10] ?? "th";
  const two = digits => String(digits).padStart(2, "0");
  const english = [`${day} ${month} ${year}`, `${month} ${day}, ${year}`, `${weekday}, ${day} ${month} ${year}`,
    `${weekday.slice(0, 3)} ${month.slice(0, 3)} ${day} ${year}`, `the ${day}${ending} of ${month}, ${year}`,
    `${day}.${number}.${year}`, `${two(number)}/${two(day)}/${year}`];
  const others = languages.filter(code => code !== "en").flatMap(code => ["long", "full"].map(dateStyle => {
    const isWeekday = ({ type }) => type === "weekday", each = format(code, { dateStyle });
    const named = each.formatToParts(other).find(isWeekday)?.value;
    return each.formatToParts(date).map(piece => isWeekday(piece) ? named : piece.value).join("");
  }));
  return [...english, ...others].map(plain);
}
const isSpelling = (text, date, languages, other) => spellings(date, languages, other).includes(plain(text));

// Sentences about a text and what was read in it; `doubt` marks those that say why not to trust it.
function verdict(text, result, longest, languages) {
  const length = [...text].length, said = [], say = (sentence, doubt = true) => said.push({ sentence, doubt });
  if (!text.trim()) return [{ sentence: "There's nothing to read yet. Type a date, or choose a language.", doubt: false }];
  if (!result) {
    say("No character of your text was in the dates it learned from. There's nothing to look at, so there's no answer.");
    return said;
  }
  const date = dayOf(result.date), known = date && isSpelling(text, date, languages);
  if (date) say(`${result.date} is ${written(date, "en-GB", { weekday: "long", day: "numeric", month: "long", year: "numeric" })}.`
    + (known ? " Your browser's calendar spells it the same way." : ""), false);
  else say(`${result.date} isn't a day of the Gregorian calendar. The reader fills in ten characters, and nobody told it which of them make a day.`);
  const otherWeekday = date && !known && WEEK.some(other => isSpelling(text, date, languages, other));
  if (otherWeekday) say("The weekday in your text is another one. Nobody asked the reader to compare the two.");
  else if (date && !known) say("Your text isn't one of the spellings it learned, as far as your browser's calendar can tell. "
    + "It fills in ten characters whatever it's given, so check them.");
  const strange = [...new Set(result.characters.filter((_, j) => !result.real[j]))];
  const named = strange.slice(0, 8).map(each => `“${each}”`).join(", ") + (strange.length > 8 ? " …" : "");
  if (strange.length) say(`It has never met ${named}: no head can look there.`);
  if (length > LONGEST_READ) say(`Only the first ${LONGEST_READ} of your ${length.toLocaleString("en")} characters are read.`);
  else if (length > longest) say(`Your text has ${length} characters; the longest date it learned from has ${longest}.`);
  const unsure = PLACES.filter((_, i) => result.sure[i] < 0.9);
  const places = unsure.length > 3 ? `${unsure.length} of the ten characters` : `the ${unsure.join(", the ")}`;
  if (unsure.length) say(`It's unsure about ${places} (dashed).`);
  return said;
}

// How an edit of one character moved the answer; nothing for any other edit.
function whatFollowed(before, after) {
  if (!before?.result || !after.result) return null;
  const [one, other] = [before, after].map(each => each.result.characters);
  const places = other.map((_, j) => j).filter(j => one[j] !== other[j]);
  if (one.length !== other.length || places.length !== 1) return null;
  const [j] = places, moved = PLACES.map((_, i) => i).filter(i => before.result.date[i] !== after.result.date[i]);
  const told = moved.map(i => `the ${PLACES[i]} (${before.result.date[i]} → ${after.result.date[i]})`);
  const followed = told.length ? `In the answer, ${told.join(" and ")} followed.` : "Nothing in the answer followed.";
  return { place: j, moved, sentence: `You changed “${one[j]}” to “${other[j]}”. ${followed}` };
}
