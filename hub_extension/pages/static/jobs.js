/** My jobs: the table of jobs, whose filters are kept in the page's address. */

import { attempted, followPool, showMessage, showTitle, site, tagPath } from "./site.js";
import { h } from "./visuals/base/dom.js";
import { showRuns } from "./visuals/live/run_list.js";
import { filtersOf, queryOf } from "./visuals/views/run_filters.js";

const EXAMPLE = 'from springtide.widgets import pool\n\njob = pool.submit("python train.py", gpus=1)\njob';

showRuns(document.getElementById("page"), followPool(), {
  filters: filtersOf(window.location.search),
  owner: site.user,
  choose: keepInAddress,
  title: showTitle,
  attempt: attempted,
  tagHref: tagPath,
  drawNone,
});

function keepInAddress(filters) {
  const query = queryOf(filters);
  window.history.replaceState(null, "", `${window.location.pathname}${query.size ? `?${query}` : ""}`);
  showMessage(null);
}

function drawNone(title) {
  return h(
    "div",
    { key: "empty", class: "st-empty", "data-testid": "empty" },
    h("strong", {}, title),
    h("p", {}, "Send one from a notebook:"),
    h("pre", { class: "st-log" }, EXAMPLE),
    h(
      "p",
      { class: "mb-0" },
      h("a", { href: `${site.hub}spawn` }, "Open a workspace"),
      ", or see ",
      h("a", { href: `${site.prefix}pool` }, "the free GPUs of the pool"),
      ".",
    ),
  );
}
