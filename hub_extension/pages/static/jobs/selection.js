/** Actions for several selected jobs, the outcome for each job, and undo. */

import { call, comparePath } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { button, isFinal } from "../visuals/base/glyphs.js";
import { clean, count, listed } from "../visuals/base/words.js";

const DONE = { pause: "Paused", resume: "Resumed", cancel: "Cancelled" };
const BACK = { pause: "resume", resume: "pause" };
const MOST = 200;
const MOST_COMPARED = 20;

/** The link to the comparison of the selected jobs, or the reason why too many are selected. */
function comparing(jobs) {
  if (jobs.length < 2) return null;
  if (jobs.length > MOST_COMPARED)
    return h("span", { key: "compare", class: "st-muted" }, `At most ${MOST_COMPARED} jobs are compared at a time.`);
  return h(
    "a",
    {
      key: "compare",
      class: "st-button",
      href: comparePath(jobs.map(({ id }) => id)),
      "data-testid": "selected-compare",
    },
    `Compare ${jobs.length}`,
  );
}

export class Selection {
  /**
   * @param changed called when the bar has to be drawn again
   * @param feed the `PoolFeed`: knows the viewer's permissions, and receives the changed jobs
   */
  constructor(changed, feed) {
    this.changed = changed;
    this.feed = feed;
    this.ids = new Set();
    this.outcome = null;
    this.confirming = false;
    this.busy = false;
  }

  has(id) {
    return this.ids.has(id);
  }

  #may(job) {
    return this.feed.mayAct(job) && !isFinal(job.state);
  }

  hasAll(jobs) {
    return jobs.length > 0 && jobs.every(({ id }) => this.ids.has(id));
  }

  set(id, chosen) {
    if (chosen) this.ids.add(id);
    else this.ids.delete(id);
    this.confirming = false;
    this.outcome = null;
    this.changed();
  }

  setAll(jobs, chosen) {
    this.ids = new Set(chosen ? jobs.map(({ id }) => id) : []);
    this.confirming = false;
    this.outcome = null;
    this.changed();
  }

  clear() {
    this.ids.clear();
    this.confirming = false;
    this.outcome = null;
  }

  /** The bar over the table; nothing without a selection and an outcome. */
  draw(jobs) {
    const chosen = jobs.filter((job) => this.ids.has(job.id));
    const able = chosen.filter((job) => this.#may(job));
    if (!chosen.length && !this.outcome) return null;
    return h(
      "div",
      {
        key: "selection",
        class: "st-selection",
        role: "region",
        "aria-label": "Selected jobs",
        "data-testid": "selection",
      },
      chosen.length > 0 && h("strong", { key: "number" }, `${count(chosen.length, "job")} selected`),
      chosen.length > 0 &&
        (this.confirming && able.length ? this.#confirmation(able) : [...this.#choices(able), comparing(chosen)]),
      this.outcome && this.#result(),
    );
  }

  #choices(jobs) {
    const act = (action, some) => () => this.#act(action, some);
    const pausable = jobs.filter((job) => !job.held_by_user && job.state !== "pausing");
    const held = jobs.filter((job) => job.held_by_user);
    return [
      this.#button("pause", `Pause ${pausable.length}`, act("pause", pausable), !pausable.length),
      this.#button("resume", `Resume ${held.length}`, act("resume", held), !held.length),
      this.#button("cancel", `Cancel ${jobs.length}…`, () => this.#confirm(true), !jobs.length),
    ];
  }

  #confirmation(jobs) {
    return [
      h(
        "span",
        { key: "question", role: "alert" },
        `Cancel ${count(jobs.length, "job")}? They will not continue afterwards.`,
      ),
      this.#button("keep", "Keep them", () => this.#confirm(false)),
      this.#button(
        "confirm",
        `Cancel ${count(jobs.length, "job")}`,
        () => this.#act("cancel", jobs),
        false,
        "st-button st-danger",
      ),
    ];
  }

  #button(name, words, click, disabled = false, classes = "st-button") {
    return button(`selected-${name}`, words, click, { class: classes, disabled: disabled || this.busy });
  }

  #result() {
    const { action, done, refused } = this.outcome;
    const back = BACK[action];
    return h(
      "span",
      { key: "result", role: "status", "data-testid": "selection-result" },
      done.length > 0 && `${DONE[action]} ${count(done.length, "job")}. `,
      refused.length > 0 &&
        h("span", { key: "refused", class: "st-notice" }, `${count(refused.length, "job")} not: ${listed(refused)} `),
      done.length > 0 && back && this.#button("undo", "Undo", () => this.#act(back, done)),
    );
  }

  #confirm(asking) {
    this.confirming = asking;
    this.changed();
  }

  async #act(action, jobs) {
    this.busy = true;
    this.confirming = false;
    this.outcome = null;
    this.changed();
    const names = new Map(jobs.map((job) => [job.id, clean(job.name) || job.id]));
    const outcome = { action, done: [], refused: [] };
    try {
      for (let from = 0; from < jobs.length; from += MOST) {
        const chosen = jobs.slice(from, from + MOST).map(({ id }) => id);
        const { results } = await call("POST", "jobs/actions", { action, jobs: chosen });
        for (const { id, job, problem } of results) {
          if (job) this.feed.hearJob(job);
          if (job) outcome.done.push(job);
          else outcome.refused.push(`${names.get(id)}: ${clean(problem.message)}`);
        }
      }
    } catch (error) {
      outcome.refused.push(clean(error.message));
    }
    for (const { id } of jobs) this.ids.delete(id);
    this.busy = false;
    this.outcome = outcome;
    this.changed();
  }
}
