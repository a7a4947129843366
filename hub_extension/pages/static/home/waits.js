/** The longest waits: why each job waits, and an administrator's actions. */

import { call, jobPath } from "../site.js";
import { dataCells, dataTable } from "../table.js";
import { h } from "../visuals/base/dom.js";
import { button, emptyState } from "../visuals/base/glyphs.js";
import { askWords, sentencesOf } from "../visuals/base/job_words.js";
import { clean, duration } from "../visuals/base/words.js";
import { Intervention } from "../visuals/live/intervention.js";
import { interventionForm } from "../visuals/views/intervention_form.js";

const MOST = 8;
const HEADS = ["waits", "job", "of", "asks for", "why", ""];
const CLASSES = { why: "st-across st-reason", "": "st-across" };

export class LongestWaits {
  /**
   * @param changed called when the list has to be drawn again
   * @param acted called after a change of a job
   */
  constructor(changed, acted) {
    this.acted = acted;
    this.changed = changed;
    this.about = null;
    this.intervention = new Intervention((what, body) => this.#send(what, body), changed);
  }

  draw(jobs, pool, now) {
    if (!jobs) return h("p", { key: "loading", class: "st-muted" }, "Loading…");
    const waiting = jobs
      .filter((job) => !job.held_by_user && !job.hold)
      .map((job) => ({ job, seconds: now - waitsSince(job) }))
      .sort((one, other) => other.seconds - one.seconds)
      .slice(0, MOST);
    if (!waiting.length) return emptyState("No job waits.", "New jobs start as soon as enough GPUs are idle.");
    const projects = pool.projects.map(({ name }) => name);
    return dataTable(
      "home-waits",
      HEADS,
      waiting.flatMap(({ job, seconds }) => this.#rows(job, seconds, projects)),
      { classes: "st-home-waiting", frame: "st-wide-table" },
    );
  }

  #rows(job, seconds, projects) {
    const whole = sentencesOf(job.reason).join(" ");
    const isOpen = this.intervention.what && this.about === job.id;
    const cells = [
      duration(seconds),
      h("a", { key: "job", href: jobPath(job.id) }, clean(job.name) || job.id),
      `${clean(job.user)} in ${clean(job.project)}`,
      askWords(job),
      h("span", { key: "why", title: whole }, clean(job.reason?.headline) || whole),
      h(
        "span",
        { key: "acts", class: "st-need-actions" },
        this.#open(job, "edit", "Priority…"),
        this.#open(job, "hold", "Hold…"),
      ),
    ];
    return [
      h("tr", { key: job.id, "data-testid": "home-wait" }, dataCells(HEADS, cells, CLASSES)),
      isOpen &&
        h(
          "tr",
          { key: `${job.id} form`, class: "st-home-wait-form" },
          h("td", { colspan: HEADS.length, hook: shownOnce }, interventionForm(this.intervention, [job], projects)),
        ),
    ];
  }

  #open(job, what, words) {
    const open = () => {
      this.about = job.id;
      this.intervention.open(what);
    };
    const isOpen = this.about === job.id && this.intervention.what === what;
    return button(`wait-${what}`, words, open, {
      "aria-expanded": String(isOpen),
      class: "st-button st-small",
      "aria-label": `${words} (${clean(job.name) || job.id})`,
    });
  }

  async #send(what, body) {
    await call("POST", `jobs/${encodeURIComponent(this.about)}/${what}`, body);
    this.acted();
  }
}

/** Scrolls all of a new form into view. */
function shownOnce(node) {
  if (node.dataset.shown) return;
  node.dataset.shown = "true";
  requestAnimationFrame(() => node.scrollIntoView({ block: "nearest" }));
}

function waitsSince(job) {
  return job.attempts.at(-1)?.ended ?? job.submitted;
}
