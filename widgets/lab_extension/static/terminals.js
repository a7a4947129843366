/** Terminals in running jobs, as tabs of JupyterLab. */

import { clean } from "./visuals/base/words.js";

const OPEN = "springtide:job-terminal";
const SHOW = "terminal:open";
const RUNNING = "jobs?state=running&mine=1&limit=100";
const NONE_RUNS = "None of your jobs runs now. A terminal opens in a running job.";

/** Adds the command, and gives the feed `openTerminal(id)` for the buttons of cards. */
export function addTerminals(app, shared, feed, server, { palette }, icon) {
  const { showErrorMessage } = shared["@jupyterlab/apputils"];
  app.commands.addCommand(OPEN, {
    label: "Terminal in a Running Job…",
    caption: "Open a terminal where one of your jobs runs",
    icon,
    isVisible: () => app.commands.hasCommand(SHOW),
    execute: async ({ job }) => {
      try {
        const id = typeof job === "string" ? job : await askJob(shared, feed);
        if (id === null) return;
        const { name } = await server.openTerminal(id);
        await app.commands.execute(SHOW, { name });
      } catch (error) {
        await showErrorMessage("No terminal was opened", clean(error.message));
      }
    },
  });
  feed.openTerminal = (job) => app.commands.execute(OPEN, { job });
  palette?.addItem({ command: OPEN, category: "Springtide" });
}

/** Asks which of the running jobs, if there are several; null if none is chosen. */
async function askJob(shared, feed) {
  const { InputDialog } = shared["@jupyterlab/apputils"];
  const { items } = await feed.call("GET", RUNNING);
  if (!items.length) throw new Error(NONE_RUNS);
  if (items.length === 1) return items[0].id;
  const names = items.map(({ id, name }) => `${clean(name)} (${id})`);
  const { button, value } = await InputDialog.getItem({
    title: "Open a terminal in which job?",
    items: names,
    okLabel: "Open",
  });
  return button.accept && value !== null ? items[names.indexOf(value)].id : null;
}
