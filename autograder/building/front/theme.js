"use strict";
document.documentElement.classList.add("js");  // shows what works only with scripts
// The same two settings as on the other pages of the site, so that a choice counts on all of them.
const kept = name => { try { return localStorage.getItem(name); } catch { return null; } };
const dark = matchMedia("(prefers-color-scheme: dark)");
const setTheme = () => {
  const mode = kept("mode") || "auto";
  document.documentElement.dataset.theme = mode === "auto" ? (dark.matches ? "dark" : "light") : mode;
};
setTheme();
dark.addEventListener("change", setTheme);
addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; });  // paper is white
addEventListener("afterprint", setTheme);
addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme");
  const name = () => { button.textContent = document.documentElement.dataset.theme === "dark" ? "Light" : "Dark"; };
  name();
  button.addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { for (const key of ["mode", "theme"]) localStorage.setItem(key, next); } catch { /* not kept, then */ }
    document.documentElement.dataset.theme = next;
    name();
  });
});
