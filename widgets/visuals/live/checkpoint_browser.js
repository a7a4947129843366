/** The checkpoints of a job: listed, deleted, and continued from as a new job. */

import { h } from "../base/dom.js";
import { button, when } from "../base/glyphs.js";
import { amount, clean, clockNow, count, size } from "../base/words.js";
import { JobListing } from "../outputs/job_listing.js";
import { rerunForm } from "../views/rerun_form.js";

const LOOK_AGAIN_S = 20;
const MOST_VALUES = 4;
/** The most checkpoints that are listed without a fold, and how many of the newest are in front of it. */
const MOST_LISTED = 6;
const NEWEST = 3;

export class CheckpointBrowser extends JobListing {
  /**
   * @param call `call(method, path, body)` promises the body of the API's response, or throws with `message` and `status`
   * @param path of the job
   * @param changed called when the view has to be drawn again
   * @param editor `RerunEditor` of the job for forks
   * @param isFold whether it is a fold of a card, closed at first
   */
  constructor(call, path, changed, editor, isFold = false) {
    super(call, `${path}/checkpoints`, LOOK_AGAIN_S, changed);
    this.editor = editor;
    this.isOpen = !isFold;
    this.showsAll = false;
    this.kept = null;
    this.#forget();
  }

  #forget() {
    this.asked = null;
    this.notice = null;
    this.sending = false;
  }

  /** Reads the list if the job may have saved since; call it at each drawing. */
  follow(job) {
    this.kept = job.options.keep_best;
    if (this.isOpen && !job.trials) this.look(job, job.saved);
  }

  /** The list as a fold of a card, read when it is opened. */
  drawFold(isOwn) {
    const toggle = ({ target }) => {
      this.isOpen = target.open;
      this.changed();
    };
    const number = this.list?.items.length;
    const words = number ? count(number, "checkpoint") : "none";
    return h(
      "details",
      { key: "checkpoints", class: "st-log-fold", open: this.isOpen, "data-testid": "job-checkpoints", on: { toggle } },
      h(
        "summary",
        { key: "summary" },
        "Checkpoints",
        this.list && h("span", { key: "number", class: "st-muted" }, ` · ${words}`),
      ),
      this.isOpen && this.draw(isOwn),
    );
  }

  /** The list, with the form of a fork or the question of a deletion below its checkpoint, as descriptions. */
  draw(isOwn) {
    const wrong = this.problem ?? (this.editor.isOpen ? null : this.editor.notice);
    const problem =
      wrong &&
      h(
        "p",
        { key: "problem", class: "st-notice", role: "status", "data-testid": "checkpoints-problem" },
        clean(wrong),
      );
    if (this.list === null)
      return problem || h("p", { key: "wait", class: "st-muted", role: "status" }, "Reading the list…");
    const { items, text } = this.list;
    if (!items.length)
      return [problem, h("p", { key: "none", class: "st-muted", "data-testid": "no-checkpoints" }, clean(text))];
    const best = bestOf(items, this.kept);
    const isLong = items.length > MOST_LISTED;
    const isShown = (item, place) =>
      place < NEWEST || item === best || item.needed || item.name === this.asked || this.#forks(item);
    const toggle = () => {
      this.showsAll = !this.showsAll;
      this.changed();
    };
    return [
      problem,
      isLong &&
        h(
          "p",
          { key: "total", class: "st-muted", "data-testid": "checkpoints-total" },
          `${count(items.length, "checkpoint")} with ${size(items.reduce((sum, item) => sum + item.size, 0))}. `,
          button("checkpoints-all", this.showsAll ? "Show fewer" : `Show all ${amount(items.length)}`, toggle, {
            "aria-expanded": String(this.showsAll),
          }),
        ),
      h(
        "ul",
        { key: "list", class: "st-files", "data-testid": "checkpoints" },
        (isLong && !this.showsAll ? items.filter(isShown) : items).map((item) => this.#row(item, isOwn, item === best)),
      ),
    ];
  }

  #forks({ name }) {
    return this.editor.isOpen && this.editor.checkpoint?.name === name;
  }

  #row(item, isOwn, isBest) {
    const name = item.step === null ? clean(item.name) : `step ${amount(item.step)}`;
    const values = Object.entries(item.values).slice(0, MOST_VALUES);
    const about = [
      size(item.size),
      item.step !== null && item.by && clean(item.name),
      item.by && clean(item.by),
      ...values.map(([metric, value]) => `${clean(metric)} ${amount(value)}`),
      isBest && `best ${clean(metricOf(this.kept).name)}`,
      item.needed && (item.for_population ? "the population may continue from it" : "the job resumes from it"),
    ].filter(Boolean);
    const isForked = this.#forks(item);
    const isAsked = this.asked === item.name;
    const fork = () => (isForked ? this.editor.close() : this.#fork({ name: item.name, words: name }));
    return h(
      "li",
      { key: item.name, "data-testid": "checkpoint-row" },
      h("span", { key: "name", class: "st-file-name", title: clean(item.name) }, name),
      h("span", { key: "about", class: "st-muted" }, when(item.written, clockNow()), ` · ${about.join(" · ")}`),
      isOwn &&
        h(
          "span",
          { key: "actions", class: "st-file-actions" },
          button("checkpoint-fork", "Fork…", fork, { "aria-expanded": String(isForked), "aria-label": `Fork ${name}` }),
          button("checkpoint-delete", "Delete…", () => this.#ask(isAsked ? null : item.name), {
            "aria-expanded": String(isAsked),
            "aria-label": `Delete ${name}`,
          }),
        ),
      isForked && rerunForm(this.editor),
      isAsked && this.#question(item, name),
    );
  }

  #fork(checkpoint) {
    this.#forget();
    this.editor.open(checkpoint);
  }

  #ask(name) {
    this.#forget();
    this.editor.close();
    this.asked = name;
    this.changed();
  }

  #question(item, name) {
    const job = "The job resumes from it. Without it the job continues from an older one, or begins from the start.";
    const population =
      "The next generation of the population may continue from it. Without it that uses an older one, or goes on " +
      "without this member's value.";
    const words = !item.needed ? "This cannot be undone." : item.for_population ? population : job;
    return h(
      "div",
      { key: "question", class: "st-notice", "data-testid": "checkpoint-question" },
      h("p", { key: "words" }, `Delete ${name}? ${words}`),
      h(
        "div",
        { key: "answers", class: "st-file-actions" },
        button("checkpoint-keep", "Keep it", () => this.#ask(null)),
        button("checkpoint-delete-now", "Delete the checkpoint", () => this.#delete(item), {
          class: "st-button st-danger",
          disabled: this.sending,
        }),
      ),
      this.#noticed(),
    );
  }

  #noticed() {
    return h(
      "span",
      { key: "notice", class: "st-notice st-field-wrong", role: "status", "data-testid": "checkpoint-notice" },
      this.notice && clean(this.notice),
    );
  }

  async #delete(item) {
    Object.assign(this, { sending: true, notice: null });
    this.changed();
    try {
      const body = { names: [item.name], force: item.needed };
      this.list = await this.call("POST", `${this.path}/delete`, body);
      this.#forget();
    } catch (error) {
      Object.assign(this, { sending: false, notice: error.message });
    }
    this.changed();
  }
}

/** The metric of the option `keep_best`: its name, and whether the largest value is the best. */
function metricOf(kept) {
  const [name, order] = kept.split(":");
  return { name, isLargest: order === "max" };
}

/** The checkpoint that is kept as the best one; null if none is, or none has a value. */
function bestOf(items, kept) {
  if (!kept) return null;
  const { name, isLargest } = metricOf(kept);
  const valued = items.filter(({ values }) => Number.isFinite(values[name]));
  const better = (one, other) =>
    isLargest ? one.values[name] > other.values[name] : one.values[name] < other.values[name];
  return valued.reduce((best, item) => (best === null || better(item, best) ? item : best), null);
}
