/** Terminals in running jobs, as tabs of JupyterLab. */

import { chooseJob } from "./choosing.js";
import { addCommand } from "./commands.js";
import { clean } from "./visuals/base/words.js";

const OPEN = "springtide:job-terminal";
const SHOW = "terminal:open";
const RUNNING = {
  query: "state=running&mine=1&limit=100",
  title: "Open a terminal in which job?",
  none: "None of your jobs runs now. A terminal opens in a running job.",
};

/** Adds the command, and gives the feed `openTerminal(id)` for the buttons of cards. */
export function addTerminals(app, shared, feed, server, { palette }, icon) {
  const { showErrorMessage } = shared["@jupyterlab/apputils"];
  const command = {
    label: "Terminal in a Running Job…",
    caption: "Open a terminal where one of your jobs runs",
    isVisible: () => app.commands.hasCommand(SHOW),
    execute: async ({ job }) => {
      try {
        const id = await chooseJob(shared, feed, job, RUNNING);
        if (id === null) return;
        const { name } = await server.openTerminal(id);
        await app.commands.execute(SHOW, { name });
      } catch (error) {
        await showErrorMessage("No terminal was opened", clean(error.message));
      }
    },
  };
  addCommand(app, palette, OPEN, command, icon);
  feed.openTerminal = (job) => app.commands.execute(OPEN, { job });
}
