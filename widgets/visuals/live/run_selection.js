/** Actions for several selected jobs, the outcome for each job, and undo. */

import { h, memory } from "../base/dom.js";
import { boardLink, button, isEnding, isFinal, submitButton } from "../base/glyphs.js";
import { amount, clean, count, listed, size } from "../base/words.js";
import { interventionForm } from "../views/intervention_form.js";
import { Intervention } from "./intervention.js";
import { keepTyped, typedText } from "./typed_texts.js";

const DONE = {
  pause: "Paused",
  resume: "Resumed",
  cancel: "Cancelled",
  end: "Ended",
  archive: "Archived",
  unarchive: "Put back",
  pin: "Pinned",
  unpin: "Unpinned",
  tag: "Tagged",
  rerun: "Submitted again",
  delete: "Deleted",
  hold: "Put on hold",
  release: "Released",
  edit: "Edited",
};
const BACK = {
  pause: "resume",
  resume: "pause",
  archive: "unarchive",
  unarchive: "archive",
  pin: "unpin",
  unpin: "pin",
  tag: "tag",
  hold: "release",
};
/** Actions after which the list is read again: jobs leave it or come back. */
const MOVES = new Set(["archive", "unarchive", "pin", "unpin"]);
/** Actions after which a job is deselected: most lists do not have it any more. */
const LEAVE = new Set(["archive", "unarchive"]);
const MOST_AGAIN = 20;
const MOST = 200;
const MOST_COMPARED = 20;
const GONE = new Set(["not_found", "deleted"]);

/** What became of an action: the jobs it was done to, and the reasons why it was not done to others. */
class Outcome {
  constructor(action, more) {
    this.action = action;
    this.more = more;
    this.done = [];
    this.number = 0;
    this.reasons = new Map();
  }

  /** Adds jobs that the action was not done to: by name, or all `jobs` of a request that failed. */
  refuse(message, jobs, names = []) {
    const reason = clean(message);
    this.number += jobs;
    this.reasons.set(reason, [...(this.reasons.get(reason) ?? []), ...names]);
  }

  /** One sentence for each reason, with the names of its jobs. */
  refused() {
    const sentences = [...this.reasons].map(([reason, names]) =>
      names.length ? `${listed(names)}: ${reason}` : reason,
    );
    return `${count(this.number, "job")} not: ${sentences.join(" ")} `;
  }
}

const nameOf = (job) => clean(job.name) || job.id;
const whyNot = ({ code, message }) => (GONE.has(code) ? "There is no such job any more." : message);

/** The links to the comparison and the TensorBoard of the selected jobs, or the reason why too many are selected. */
function comparing(jobs, { compareOf, boardOf }) {
  if (jobs.length > MOST_COMPARED)
    return [h("span", { key: "compare", class: "st-muted" }, `At most ${MOST_COMPARED} jobs are compared at a time.`)];
  const ids = jobs.map(({ id }) => id);
  return [
    jobs.length > 1 &&
      compareOf &&
      h(
        "a",
        { key: "compare", class: "st-button", href: compareOf(ids), "data-testid": "selected-compare" },
        `Compare ${jobs.length}`,
      ),
    boardOf && jobs.every(({ trials }) => !trials) && boardLink(boardOf(ids), "selected-tensorboard"),
  ];
}

export class Selection {
  /**
   * @param changed called when the bar has to be drawn again
   * @param feed the `PoolFeed`: knows the viewer's permissions, and receives the changed jobs
   * @param list `reread()` reads the list again, `sent(job)` shows a new job
   */
  constructor(changed, feed, list) {
    this.changed = changed;
    this.feed = feed;
    this.list = list;
    this.writing = null;
    this.ids = new Set();
    this.outcome = null;
    this.confirming = null;
    this.erasing = null;
    this.busy = false;
    this.shown = new Map();
    this.intervention = new Intervention((what, body) => this.#intervene(what, body), changed);
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
    this.setAll([{ id }], chosen);
  }

  setAll(jobs, chosen) {
    for (const { id } of jobs) {
      if (chosen) this.ids.add(id);
      else this.ids.delete(id);
    }
    this.confirming = null;
    this.erasing = null;
    this.outcome = null;
    this.changed();
  }

  /** Closes the open question or form: other rows are shown. The selection stays. */
  close() {
    this.confirming = null;
    this.erasing = null;
    this.writing = null;
    this.intervention.what = null;
    this.outcome = null;
  }

  /**
   * The bar over the table; nothing without a selection and an outcome. Actions are for the selected jobs among `jobs`,
   * the rows that are shown.
   */
  draw(jobs) {
    const chosen = jobs.filter((job) => this.ids.has(job.id));
    this.shown = new Map(chosen.map((job) => [job.id, job]));
    const able = chosen.filter((job) => this.#may(job));
    const hidden = this.ids.size - chosen.length;
    if (!this.ids.size && !this.outcome) return null;
    return h(
      "div",
      {
        key: "selection",
        class: "st-selection",
        role: "region",
        "aria-label": "Selected jobs",
        "data-testid": "selection",
      },
      this.ids.size > 0 && h("strong", { key: "number" }, `${count(this.ids.size, "job")} selected`),
      hidden > 0 && this.#hidden(hidden),
      chosen.length > 0 && this.#content(chosen, able),
      this.outcome && this.#result(),
    );
  }

  /** How many of the selected jobs have no row here, and the button that deselects them. */
  #hidden(number) {
    const deselect = () => {
      this.ids = new Set(this.shown.keys());
      this.changed();
    };
    const words = `${amount(number)} of them not in this list: nothing is done to ${number === 1 ? "it" : "them"}`;
    return h(
      "span",
      { key: "hidden", role: "status", "data-testid": "selected-hidden" },
      `${words}. `,
      this.#button("deselect-hidden", `Deselect ${amount(number)}`, deselect),
    );
  }

  /** The open question or form, or else the buttons. */
  #content(chosen, able) {
    const asked = able.filter((job) => isEnding(job) === (this.confirming === "end"));
    if (this.confirming && asked.length) return this.#confirmation(asked);
    const erased = chosen.filter(({ id }) => this.erasing?.has(id));
    if (erased.length) return this.#erasure(erased);
    if (this.writing) return this.#form(chosen);
    if (this.intervention.what && able.length)
      return interventionForm(this.intervention, this.#concerned(able), this.feed.projects);
    const compare = comparing(chosen, this.feed.links);
    return [...this.#choices(able), ...this.#interventions(able), ...this.#marks(chosen), ...compare];
  }

  #choices(jobs) {
    const act = (action, some) => () => this.#act(action, some);
    const pausable = jobs.filter((job) => !job.held_by_user && job.state !== "pausing");
    const held = jobs.filter((job) => job.held_by_user);
    const ending = jobs.filter(isEnding);
    const open = jobs.filter((job) => !isEnding(job));
    return [
      this.#button("pause", `Pause ${pausable.length}`, act("pause", pausable), !pausable.length),
      this.#button("resume", `Resume ${held.length}`, act("resume", held), !held.length),
      this.#button("cancel", `Cancel ${open.length}…`, () => this.#confirm("cancel"), !open.length),
      ending.length > 0 && this.#button("end", `End ${ending.length} now…`, () => this.#confirm("end")),
    ];
  }

  /** The actions of administrators of projects, and changes of what jobs ask for. */
  #interventions(jobs) {
    const led = jobs.filter((job) => this.feed.mayLead(job) && !job.sweep);
    const held = led.filter(({ hold }) => hold && !hold.project);
    const free = led.filter(({ hold }) => !hold || hold.project);
    const waiting = this.#waiting(jobs);
    return [
      led.length > 0 &&
        this.#button("hold", `Put ${free.length} on hold…`, () => this.intervention.open("hold"), !free.length),
      held.length > 0 && this.#button("release", `Release ${held.length}`, () => this.#act("release", held)),
      waiting.length > 0 && this.#button("edit", `Edit ${waiting.length}…`, () => this.intervention.open("edit")),
    ];
  }

  #waiting(jobs) {
    return jobs.filter((job) => (job.state === "queued" || job.state === "paused") && !job.sweep && !job.tests);
  }

  /** The selected jobs that the open form is about. */
  #concerned(jobs) {
    if (this.intervention.what === "edit") return this.#waiting(jobs);
    return jobs.filter((job) => this.feed.mayLead(job) && !job.sweep && (!job.hold || job.hold.project));
  }

  async #intervene(what, body) {
    const able = this.#concerned([...this.shown.values()].filter((job) => this.#may(job)));
    await this.#act(what, able, what === "hold" ? { hold: body } : { edit: body });
  }

  /** The actions that are for ended jobs as well. */
  #marks(chosen) {
    const own = chosen.filter((job) => this.feed.mayAct(job));
    const put = own.filter((job) => !job.archived);
    const ended = own.filter((job) => isFinal(job.state) && !job.sweep && !job.tests);
    const pinned = own.filter((job) => job.pinned);
    const again = chosen.filter((job) => this.feed.isOwn(job) && !job.sweep);
    const archive = put.length ? "archive" : "unarchive";
    const pin = pinned.length === own.length ? "unpin" : "pin";
    const words = { archive: "Archive", unarchive: "Put back", pin: "Pin", unpin: "Unpin" };
    return [
      this.#button(
        "rerun",
        `Run ${again.length} again`,
        () => this.#again(again),
        !again.length || again.length > MOST_AGAIN,
      ),
      this.#button("tag", "Tag…", () => this.#write("tag", own), !own.length),
      own.length === 1 &&
        chosen.length === 1 &&
        this.#button("note", "Note…", () => this.#write("note", own, own[0].note)),
      this.#button(pin, words[pin], () => this.#act(pin, own), !own.length),
      this.#button("delete", `Delete ${ended.length}…`, () => this.#measure(ended), !ended.length),
      this.#button(archive, words[archive], () => this.#act(archive, put.length ? put : own), !own.length),
    ];
  }

  #write(what, own, text = "") {
    const kept = `${what} of ${this.feed.viewer?.name ?? ""} ${own.map(({ id }) => id).toSorted()}`;
    this.writing = { what, text: typedText(kept) ?? text, kept };
    this.changed();
  }

  /** The field for tags, or for the note of one job. */
  #form(chosen) {
    const { what, text, kept } = this.writing;
    const own = chosen.filter((job) => this.feed.mayAct(job));
    const submit = (event) => {
      event.preventDefault();
      const given = new FormData(event.target).get("text").trim();
      this.writing = null;
      if (what === "note") return this.#note(own[0], given, kept);
      keepTyped(kept, null);
      if (given) return this.#act("tag", own, { tags: { add: given.split(/[\s,]+/).filter(Boolean) } });
      return this.changed();
    };
    const close = () => {
      this.writing = null;
      keepTyped(kept, null);
      this.changed();
    };
    const label = what === "note" ? "Note" : "Tags, with spaces between";
    return h(
      "form",
      { key: `form ${what}`, class: "st-selection-form", on: { submit } },
      h("input", {
        type: "text",
        name: "text",
        class: "form-control form-control-sm",
        "aria-label": label,
        placeholder: label,
        maxlength: what === "note" ? 2000 : 200,
        "data-testid": "selection-text",
        hook: (field) => fillOnce(field, text),
        on: { input: ({ target }) => keepTyped(kept, target.value) },
      }),
      this.#button("close", "Close", close),
      submitButton("selection-save", what === "note" ? "Save" : "Add"),
    );
  }

  /** Saves a note, which was `kept` until then. */
  async #note(job, note, kept) {
    const outcome = new Outcome("note");
    try {
      this.feed.hearJob(await this.feed.call("PATCH", `jobs/${encodeURIComponent(job.id)}`, { note }));
      outcome.done.push(job);
      keepTyped(kept, null);
    } catch (error) {
      outcome.refuse(whyNot(error), 1, [nameOf(job)]);
    }
    this.outcome = outcome;
    this.changed();
  }

  async #again(jobs) {
    this.busy = true;
    this.outcome = null;
    this.changed();
    const outcome = new Outcome("rerun");
    for (const job of jobs) {
      const key = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
      try {
        const sent = await this.feed.call("POST", `jobs/${encodeURIComponent(job.id)}/rerun`, { key });
        this.list.sent(sent, false);
        outcome.done.push(sent);
      } catch (error) {
        outcome.refuse(whyNot(error), 1, [nameOf(job)]);
      }
    }
    this.busy = false;
    this.outcome = outcome;
    this.changed();
  }

  #confirmation(jobs) {
    const number = count(jobs.length, "job");
    const runs = jobs.some(({ held }) => held.length > 0);
    const killed = runs ? "Those that run have their grace periods to end, then they are killed. " : "";
    const [question, keep, words] =
      this.confirming === "end"
        ? [`Kill ${number} now? What they have not saved is lost.`, "Let them end", `End ${number} now`]
        : [`Cancel ${number}? ${killed}This cannot be undone.`, "Keep them", `Cancel ${number}`];
    const act = () => this.#act(this.confirming, jobs);
    return [
      h("span", { key: "question", role: "alert" }, question),
      this.#button("keep", keep, () => this.#confirm(null)),
      this.#button("confirm", words, act, false, "st-button st-danger"),
    ];
  }

  /** Asks the pool what a deletion would remove, for the question before it. */
  async #measure(jobs) {
    this.busy = true;
    this.outcome = null;
    this.changed();
    const erasing = new Map();
    const outcome = new Outcome("delete");
    const ids = jobs.map(({ id }) => id);
    try {
      for (let from = 0; from < jobs.length; from += MOST) {
        const body = { action: "delete", dry_run: true, jobs: ids.slice(from, from + MOST) };
        const { results } = await this.feed.call("POST", "jobs/actions", body);
        for (const { id, deletion, problem } of results) {
          if (deletion) erasing.set(id, deletion);
          else this.#refuse(outcome, jobs, id, problem);
        }
      }
      this.erasing = erasing;
    } catch (error) {
      outcome.refuse(error.message, jobs.length);
    }
    this.outcome = outcome.number ? outcome : null;
    this.busy = false;
    this.changed();
  }

  /** Notes why nothing was done to a job; one that is not there any more leaves the list. */
  #refuse(outcome, jobs, id, problem) {
    outcome.refuse(whyNot(problem), 1, [nameOf(jobs.find((job) => job.id === id) ?? { id })]);
    if (GONE.has(problem.code)) this.feed.hearDeleted(id);
  }

  /** Takes a job out of the selection that is not there any more. */
  forget(id) {
    this.ids.delete(id);
  }

  #erasure(jobs) {
    const deletions = jobs.map(({ id }) => this.erasing.get(id));
    const number = deletions.reduce((sum, deletion) => sum + deletion.jobs, 0);
    const bytes = deletions.reduce((sum, deletion) => sum + (deletion.bytes ?? 0), 0);
    const keep = () => {
      this.erasing = null;
      this.changed();
    };
    return [
      h(
        "span",
        { key: "delete-question", role: "alert" },
        `Delete ${count(number, "job")} with ${size(bytes)} of files? This cannot be undone.`,
      ),
      this.#button("keep", "Keep them", keep),
      this.#button(
        "delete-now",
        `Delete ${count(number, "job")}`,
        () => this.#act("delete", jobs),
        !number,
        "st-button st-danger",
      ),
    ];
  }

  #button(name, words, click, disabled = false, classes = "st-button") {
    return button(`selected-${name}`, words, click, { class: classes, disabled: disabled || this.busy });
  }

  #result() {
    const { action, done, number, more } = this.outcome;
    const back = BACK[action];
    const tags = more?.tags;
    const undone = tags && { tags: { add: tags.remove ?? [], remove: tags.add ?? [] } };
    return h(
      "span",
      { key: "result", role: "status", "data-testid": "selection-result" },
      done.length > 0 && (action === "note" ? "The note is saved. " : `${DONE[action]} ${count(done.length, "job")}. `),
      number > 0 && h("span", { key: "refused", class: "st-notice" }, this.outcome.refused()),
      done.length > 0 && back && this.#button("undo", "Undo", () => this.#act(back, done, undone)),
    );
  }

  #confirm(action) {
    this.confirming = action;
    this.changed();
  }

  async #act(action, jobs, more) {
    this.busy = true;
    this.confirming = null;
    this.erasing = null;
    this.outcome = null;
    this.changed();
    const outcome = new Outcome(action, more);
    let asked = 0;
    try {
      for (let from = 0; from < jobs.length; from += MOST) {
        const chosen = jobs.slice(from, from + MOST).map(({ id }) => id);
        const { results } = await this.feed.call("POST", "jobs/actions", { action, jobs: chosen, ...more });
        for (const { id, job, deletion, problem } of results) {
          if (job) this.feed.hearJob(job);
          if (deletion) this.feed.hearDeleted(id);
          if (job && LEAVE.has(action)) this.forget(id);
          if (job ?? deletion) outcome.done.push(job ?? deletion);
          else this.#refuse(outcome, jobs, id, problem);
        }
        asked += chosen.length;
      }
    } catch (error) {
      outcome.refuse(error.message, jobs.length - asked);
    }
    this.busy = false;
    this.outcome = outcome;
    if (MOVES.has(action)) this.list.reread();
    this.changed();
  }
}

/** Fills a field when it appears, and gives it the focus. */
function fillOnce(field, text) {
  const drawn = memory(field, { filled: false });
  if (drawn.filled) return;
  drawn.filled = true;
  field.value = text;
  field.focus();
}
