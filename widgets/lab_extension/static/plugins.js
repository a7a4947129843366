/** The plugins of JupyterLab and Notebook. */

import { NotebookServer } from "./notebook_server.js";
import { cardFactory } from "./outputs.js";
import { PoolFeed } from "./visuals/live/pool_feed.js";

const SHEETS = ["tokens", "bars", "card", "charts", "rows"];
const RANK = -20;

/** Makes the plugins of the modules that the page shares, by name. */
export function plugins(shared) {
  const { PageConfig } = shared["@jupyterlab/coreutils"];
  const server = new NotebookServer(shared["@jupyterlab/services"].ServerConnection);
  const feed = new PoolFeed(server.call, server.open);
  const pages = PageConfig.getOption("springtidePages");
  const pageOf = (id) => (pages ? `${pages}jobs/${encodeURIComponent(id)}` : null);
  for (const sheet of SHEETS) addStyleSheet(new URL(`visuals/styles/${sheet}.css`, import.meta.url));
  return [outputs(shared, feed, pageOf)];
}

/** Draws outputs of the pool's own types, before the views of ipywidgets, which has rank -10. */
function outputs(shared, feed, pageOf) {
  return {
    id: "@springtide/lab:outputs",
    description: "Live cards of jobs and of the pool, without a kernel.",
    autoStart: true,
    requires: [shared["@jupyterlab/rendermime"].IRenderMimeRegistry],
    activate: (_app, registry) => registry.addFactory(cardFactory(shared["@lumino/widgets"].Widget, feed, pageOf), RANK),
  };
}

function addStyleSheet(href) {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = href;
  document.head.append(link);
}
