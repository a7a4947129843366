/** The jobs on hold: by whom, why, and an administrator's actions. */

import { call, jobPath } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { button, when } from "../visuals/base/glyphs.js";
import { clean, clockNow } from "../visuals/base/words.js";

const POOL = "springtide";

/** The list of jobs on hold, with a button each to release and to cancel it. */
export function drawOnHold(jobs, editing) {
  return h(
    "ul",
    { key: "on-hold", class: "st-plain", "data-testid": "on-hold" },
    jobs.map((job) => drawJob(job, editing)),
  );
}

function drawJob({ id, name, user, project, state, hold }, editing) {
  const refusal = editing.refusal("job", id);
  const request = (what, words, body) =>
    button(
      `${what}-${id}`,
      words,
      () => editing.change("job", id, () => call("POST", `jobs/${encodeURIComponent(id)}/${what}`, body)),
      { disabled: editing.busy(`job ${id}`) },
    );
  const by = hold.by === POOL ? "the pool" : clean(hold.by);
  return h(
    "li",
    { key: id, "data-testid": `on-hold-${id}` },
    h(
      "p",
      { key: "job", class: "mb-1" },
      h("a", { href: jobPath(id) }, clean(name || id)),
      ` of ${clean(user)} in ${clean(project)}, ${clean(state)}`,
    ),
    h(
      "p",
      { key: "why", class: "mb-1" },
      "Put on hold ",
      when(hold.at, clockNow()),
      ` by ${by}: ${clean(hold.reason)}`,
    ),
    h("p", { key: "buttons", class: "mb-1" }, request("release", "Release", {}), " ", request("cancel", "Cancel")),
    refusal && h("p", { key: "refusal", class: "st-problem", role: "alert" }, clean(refusal.message)),
  );
}
