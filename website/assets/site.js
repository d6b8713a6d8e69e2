/* What the theme lacks for keys and screen readers: the search has a name, and code that scrolls
   has the focus, which the theme gives only to what is in sight; so have tables that scroll. */
document.querySelector(".md-search").setAttribute("aria-label", "Search");

function reach(code) {
  if (code.matches("pre > code") && code.scrollWidth > code.clientWidth && !code.hasAttribute("tabindex")) {
    code.tabIndex = 0;
  }
}

document.querySelectorAll("pre > code").forEach(reach);
new MutationObserver((changes) => changes.forEach((change) => reach(change.target)))
  .observe(document.body, { attributeFilter: ["tabindex"], subtree: true });

addEventListener("load", () => {
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((table) => {
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
  });
});
