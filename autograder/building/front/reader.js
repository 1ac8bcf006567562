"use strict";
// Lesson 04's DateReader in its own names, with no library. A matrix is an array of rows.

// y = x Wᵀ + b, as nn.Linear has it: each row of `x` with each row of `w`.
const linear = (x, w, b) => x.map(row => w.map((other, j) => {
  let sum = b ? b[j] : 0;
  for (let i = 0; i < row.length; i++) sum += row[i] * other[i];
  return sum;
}));
const transpose = x => x[0].map((_, j) => x.map(row => row[j]));
const add = (x, y) => x.map((row, i) => row.map((number, j) => number + y[i][j]));

function softmax(scores) {
  const largest = Math.max(...scores);
  const raised = scores.map(score => Math.exp(score - largest));
  const total = raised.reduce((sum, number) => sum + number, 0);
  return raised.map(number => number / total);
}

// x Φ(x), with the error function to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
function gelu(x) {
  const z = Math.abs(x) / Math.SQRT2, t = 1 / (1 + 0.3275911 * z);
  const series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return x * (1 + Math.sign(x) * (1 - series * Math.exp(-z * z))) / 2;
}

// One text asks, another one answers: softmax(q kᵀ / √d) v for each head. `real[j]`: may position j answer?
function attend(x, memory, real, heads, { w_q, w_k, w_v, w_o }) {
  const q = linear(x, w_q), k = linear(memory, w_k), v = linear(memory, w_v);
  const d = q[0].length / heads, weights = [], merged = x.map(() => []);
  for (let head = 0; head < heads; head++) {
    const cut = rows => rows.map(row => row.slice(head * d, (head + 1) * d));
    const scores = linear(cut(q), cut(k)).map(row => row.map((s, j) => real[j] ? s / Math.sqrt(d) : -Infinity));
    weights.push(scores.map(softmax));
    linear(weights[head], transpose(cut(v))).forEach((row, i) => merged[i].push(...row));
  }
  return { fetched: linear(merged, w_o), weights };
}

class DateReader {
  constructor({ characters, digits, heads, longest, weights }) {
    Object.assign(this, { digits, heads, longest });
    this.numberOf = new Map([...characters].map((character, i) => [character, i + 1]));  // 0 is the padding
    const all = Object.fromEntries(Object.entries(weights).map(([name, each]) => [name, DateReader.decode(each)]));
    const vector = name => all[name].flat();
    this.character = all["character.weight"];
    this.neighbours = [all["neighbours.weight"], vector("neighbours.bias")];
    this.questions = all["questions"];
    this.attn = Object.fromEntries(["w_q", "w_k", "w_v", "w_o"].map(name => [name, all[`attn.${name}.weight`]]));
    this.answer = [0, 2].map(layer => [all[`answer.${layer}.weight`], vector(`answer.${layer}.bias`)]);
  }

  // 16-bit numbers in base64, times their scale.
  static decode({ rows, scale, data }) {
    const bytes = Uint8Array.from(atob(data), character => character.charCodeAt(0));
    const numbers = Array.from(new Int16Array(bytes.buffer), whole => whole * scale), width = numbers.length / rows;
    return Array.from({ length: rows }, (_, i) => numbers.slice(i * width, (i + 1) * width));
  }

  // A character it has never met has no number: like padding, it may not answer.
  encode(text) {
    return [...text].map(character => this.numberOf.get(character) ?? 0);
  }

  // Each character's vector, plus what a window of five makes of it and its neighbours.
  remember(ids) {
    const characters = ids.map(id => this.character[id]);
    const windows = characters.map((row, i) => row.flatMap((_, channel) =>
      [-2, -1, 0, 1, 2].map(step => characters[i + step]?.[channel] ?? 0)));
    return add(characters, linear(windows, ...this.neighbours).map(row => row.map(gelu)));
  }

  // Text -> its characters, logits (10, 11), probabilities, weights (h, 10, k) and the date; null if nothing answers.
  read(text) {
    const ids = this.encode(text), real = ids.map(id => id > 0);
    if (!real.includes(true)) return null;
    const { fetched, weights } = attend(this.questions, this.remember(ids), real, this.heads, this.attn);
    const hidden = linear(add(this.questions, fetched), ...this.answer[0]).map(row => row.map(gelu));
    const logits = linear(hidden, ...this.answer[1]), probabilities = logits.map(softmax);
    const best = probabilities.map(row => row.indexOf(Math.max(...row)));
    return {
      characters: [...text], real, logits, weights,
      date: best.map(i => this.digits[i]).join(""),
      sure: best.map((digit, i) => probabilities[i][digit]),
    };
  }
}
