"use strict";
const words = document.getElementById("words");
const source = document.getElementById("source");
const verdict = document.getElementById("verdict");
const found = document.getElementById("found");
const claims = Array.from(document.querySelectorAll("article.claim"), (node) => ({ node, text: node.textContent.toLowerCase() }));

function show() {
  const asked = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const { node, text } of claims) {
    const is = (!source.value || node.dataset.source === source.value)
      && (!verdict.value || node.dataset.verdict === verdict.value)
      && asked.every((word) => text.includes(word));
    node.hidden = !is;
    count += is;
  }
  for (const section of document.querySelectorAll("main > section")) {
    section.hidden = !section.querySelector("article:not([hidden])");
  }
  found.textContent = count === claims.length ? "" : `${count} of ${claims.length} claims`;
}

for (const control of [words, source, verdict]) control.addEventListener("input", show);
document.querySelector("form.search").addEventListener("submit", (event) => event.preventDefault());
show();
