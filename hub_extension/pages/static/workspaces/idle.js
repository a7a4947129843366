/** Use of a workspace's GPUs in words: in use, unused since when, and when it is stopped; and a button to keep it. */

import { h } from "../visuals/base/dom.js";
import { clean, count, roughly } from "../visuals/base/words.js";

const WORTH_SAYING_S = 600;

/** The use of a workspace's GPUs, for its row; null if there is nothing to report. */
export function useWords(idle, now) {
  if (!idle) return null;
  if (!idle.known)
    return h(
      "span",
      {
        key: "use",
        class: "st-muted",
        title: "Its notebook server does not report it.",
        "data-testid": "workspace-use",
      },
      "not known",
    );
  if (idle.busy) return h("span", { key: "use", "data-testid": "workspace-use" }, "in use");
  const unused = now - idle.unused_since;
  if (unused < WORTH_SAYING_S && !idle.told)
    return h("span", { key: "use", "data-testid": "workspace-use" }, "used lately");
  const since = `unused for ${roughly(unused)}`;
  if (idle.stops === null) return h("span", { key: "use", "data-testid": "workspace-use" }, since);
  const left = idle.stops - now;
  return h(
    "strong",
    { key: "use", "data-testid": "workspace-use" },
    left > 0 ? `${since}; stops in ${roughly(left)}` : `${since}; stops now`,
  );
}

/** The workspaces stopped lately for lack of use, one sentence each. */
export function drawStopped(stopped, now) {
  return stopped.map(({ server, at, gpus, unused }) => {
    const name = server ? ` “${clean(server)}”` : "";
    return h(
      "p",
      { key: `stopped ${server}`, class: "alert alert-info", role: "status", "data-testid": "workspace-stopped" },
      `Your workspace${name} was stopped ${roughly(Math.max(1, now - at))} ago because its ${count(gpus, "GPU")} had not been used for ${roughly(unused)}. Saved files are still there.`,
    );
  });
}
