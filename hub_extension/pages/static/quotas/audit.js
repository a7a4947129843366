/** The audit trail: user, old and new value of each change, and undo unless the value has changed since. */

import { attempted, call } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { button, emptyState, when } from "../visuals/base/glyphs.js";
import { inOrder } from "../visuals/base/pace.js";
import { clean, clockNow } from "../visuals/base/words.js";
import { valueWords } from "./project_table.js";

const WORDS = {
  "project.create": "added project",
  "project.change": "changed project",
  "project.delete": "deleted project",
  "person.change": "changed person",
  "member.add": "added a member to",
  "member.remove": "removed a member from",
  "undo.project.create": "took back adding project",
  "undo.project.change": "took back a change of project",
  "undo.project.delete": "took back deleting project",
  "undo.person.change": "took back a change of person",
  "undo.member.add": "took back adding a member to",
  "undo.member.remove": "took back removing a member from",
  "node.drain": "drained the node",
  "node.undrain": "undrained the node",
  "gpu.drain": "drained the",
  "gpu.undrain": "undrained the",
  "gpu.free": "freed the GPUs of",
  "gpu.end_holder": "ended on GPUs without a place",
  "pool.gpu_types": "found other GPU types in the",
  "person.leave": "has no user any more:",
  "person.rename": "renamed the user, now",
  "job.hold": "put on hold the job",
  "job.release": "released the job",
  "job.cancel": "cancelled the job",
  "job.tags": "changed the tags of the job",
  "job.pause": "paused the job",
  "job.resume": "resumed the job",
  "job.finish": "marked as finished the job",
  "job.retry": "retried failed trials of the sweep",
  "job.edit_trials": "changed the trials of the sweep",
  "job.read_log": "read the log of the job",
  "job.exec": "ran a program in the job",
  "job.read_stack": "read the stacks of the job",
  "job.read_outputs": "read the files of the job",
};

export class AuditTrail {
  /**
   * @param changed called when the trail has to be drawn again
   * @param undone called after an undo: resolves when the restored values were read
   */
  constructor(changed, undone) {
    this.changed = changed;
    this.undone = undone;
    this.items = null;
    this.next = null;
    this.busy = false;
    this.read = inOrder(
      () => attempted(() => call("GET", "audit")),
      (page) => this.#take(page),
    );
  }

  /** Takes the newest page; older ones already shown stay. */
  #take(page) {
    const oldest = page.items.at(-1)?.id ?? Infinity;
    const older = (this.items ?? []).filter((entry) => entry.id < oldest);
    this.items = [...page.items, ...older];
    if (!older.length) this.next = page.next;
    this.changed();
  }

  async #more() {
    await this.#alone(async () => {
      const page = await attempted(() => call("GET", `audit?cursor=${encodeURIComponent(this.next)}`));
      if (!page) return;
      this.items = [...this.items, ...page.items];
      this.next = page.next;
    });
  }

  async #undo(id) {
    await this.#alone(async () => {
      await attempted(() => call("POST", `audit/${id}/undo`));
      await this.undone();
    });
  }

  /** Runs `work`; the buttons are disabled until its effect is visible. */
  async #alone(work) {
    if (this.busy) return;
    this.busy = true;
    this.changed();
    await work();
    this.busy = false;
    this.changed();
  }

  /** The trail, as a description; null until it was read. */
  draw() {
    if (!this.items) return null;
    if (!this.items.length)
      return emptyState(
        "Nobody has changed anything yet.",
        "Each change shows here with who made it, and can be taken back.",
      );
    const now = clockNow();
    return h(
      "div",
      { key: "trail" },
      h(
        "ol",
        { key: "list", class: "st-audit", "data-testid": "audit" },
        this.items.map((entry) => this.#entry(entry, now)),
      ),
      this.next &&
        h(
          "button",
          {
            key: "more",
            type: "button",
            class: "st-button st-more",
            disabled: this.busy,
            on: { click: () => this.#more() },
          },
          "Show older changes",
        ),
    );
  }

  #entry(entry, now) {
    return h(
      "li",
      { key: entry.id, "data-testid": "audit-row" },
      when(entry.at, now, "at"),
      h(
        "span",
        { key: "what" },
        h("strong", {}, clean(entry.who)),
        ` ${WORDS[entry.what] ?? clean(entry.what)} `,
        h("strong", {}, clean(entry.subject)),
        changes(entry),
      ),
      entry.undo
        ? button(`audit-undo-${entry.id}`, "Undo", () => this.#undo(entry.id), { disabled: this.busy })
        : h("span", { key: "none" }),
    );
  }
}

function changes(entry) {
  const fields = [...new Set([...Object.keys(entry.before), ...Object.keys(entry.after)])].filter(
    (field) => field !== "age",
  );
  return fields
    .filter((field) => JSON.stringify(entry.before[field]) !== JSON.stringify(entry.after[field]))
    .map((field, place) => [place ? ", " : ": ", drawChange(field, entry)]);
}

function drawChange(field, { before, after }) {
  const title = clean(field).replaceAll("_", " ");
  const was = field in before && h("del", { key: "was" }, valueWords(before[field]));
  const is = field in after && h("ins", { key: "is" }, valueWords(after[field]));
  return h("span", { key: field, class: "st-change" }, `${title} `, was, was && is && " → ", is);
}
