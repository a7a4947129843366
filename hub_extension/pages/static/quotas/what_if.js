/** The effects of a change of projects, forecast during typing. The forecast changes nothing. */

import { call } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { clean, count, listed } from "../visuals/base/words.js";

const SETTLED_MS = 600;
const NAMED = 3;

/** Keeps the answer to the latest request. `redraw` is called when it arrives. */
export class WhatIf {
  constructor(redraw) {
    this.redraw = redraw;
    this.request = "{}";
    this.words = null;
    this.timer = null;
  }

  /** Takes the present edits: by project, the fields that would be sent. */
  consider(edits) {
    const request = JSON.stringify(edits);
    if (request === this.request) return;
    this.request = request;
    this.words = null;
    clearTimeout(this.timer);
    if (request !== "{}") this.timer = setTimeout(() => this.ask(request, edits), SETTLED_MS);
  }

  async ask(request, projects) {
    let words = null;
    try {
      const { shifts, notes } = await call("POST", "forecast", { projects, starts: [] });
      words = [shiftWords(shifts), ...notes.map(clean)].join(" ");
    } catch (error) {
      words = error.status === 503 || error.status === 429 ? error.message : null;
    }
    if (request !== this.request) return;
    this.words = words;
    this.redraw();
  }

  /** The line with the effects; empty until the first answer, so that the layout does not jump. */
  draw() {
    if (this.request === "{}") return null;
    return h(
      "p",
      { key: "what if", class: "st-what-if st-muted", role: "status", "data-testid": "what-if" },
      this.words ?? "",
    );
  }
}

/** The effects of changes in a sentence that begins with `change`. */
export function shiftWords(shifts, change = "Saved like this") {
  const said = [
    ["pause", shifts.filter((shift) => shift.kind === "paused")],
    ["move", shifts.filter((shift) => shift.kind === "moved")],
    ["start", shifts.filter((shift) => shift.kind === "started")],
  ].filter(([, jobs]) => jobs.length);
  if (!said.length) return `${change}, no job would be paused or started right away.`;
  const words = said.map(([verb, jobs]) => `${verb} ${listed(jobs.map(jobWords).map(clean), NAMED)}`);
  return `${change}, the pool would ${words.join(", and ")}.`;
}

function jobWords({ name, user, project, gpus }) {
  const whose = user === project ? user : `${user} in ${project}`;
  return `${name || "a job"} of ${whose} (${count(gpus, "GPU")})`;
}
